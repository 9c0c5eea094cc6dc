"""Parts of a search for topology domains: what counts as proof, the reasons, and the domains as nodes come and go."""

from typing import Any

import pytest
from tests.kits.builders import Sketch, group, requested_unit

from bailiff_core.model.demand import JobDemand, SubGroup, TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY, Policy, Topology
from bailiff_core.model.state import Job
from bailiff_core.model.units import Unit
from bailiff_core.placement import ClusterResources, NoFit, StepBudget, packing, place_unit, topology
from bailiff_core.placement.topology import _is_chain
from bailiff_core.placement.topology_domains import _domains_of
from bailiff_core.placement.topology_parts import TopologyPart, topology_parts_of, topology_problem

ZONE, RACK = TopologyRule(topology="dc", required="zone"), TopologyRule(topology="dc", required="rack")


def rules(*names: str) -> Policy:
    """A policy with these topologies."""
    return DEFAULT_POLICY.model_copy(update={"topologies": tuple(Topology(name=name, levels=("zone", "rack")) for name in names)})


@pytest.fixture
def sketch() -> Sketch:
    """Nodes of two GPUs in two racks of zone x and one of zone y."""
    made = Sketch()
    made.state.policy = rules("dc")
    for name in ("x1", "x2", "y1"):
        made.node(name, gpus=2, labels={"zone": name[0], "rack": name[1]})
    return made


def asks(sketch: Sketch, *groups: Any, rule: TopologyRule | None = None, parts: tuple[SubGroup, ...] = (), **rest: Any) -> Job:
    job = sketch.job(f"asks-{len(sketch.state.jobs)}", *groups)
    job.demand = JobDemand(job=job.id, tasks=groups, topology=rule, sub_groups=parts, **rest)
    return job


def refusal(sketch: Sketch, job: Job, steps: int = 1000) -> NoFit:
    found = place_unit(ClusterResources.of(sketch.state), requested_unit(job), StepBudget(steps))
    assert isinstance(found, NoFit)
    return found


# --- proofs


@pytest.mark.parametrize(
    ("in_domains", "kind"),
    [
        (["impossible", "impossible", "impossible"], "impossible"),
        (["impossible", "impossible", "gave-up"], "gave-up"),
        (["gave-up", "impossible", "impossible"], "gave-up"),  # what later domains say does not make up for it
        (["gave-up", "gave-up", "gave-up"], "gave-up"),
    ],
)
def test_it_is_proven_only_if_it_is_proven_in_every_domain(
    sketch: Sketch, monkeypatch: pytest.MonkeyPatch, in_domains: list[Any], kind: str
) -> None:
    """Each domain is tried on free resources, and once what is leaving is free."""
    answers, packs = iter([answer for answer in in_domains for _ in range(2)]), topology.pack

    def pack(*given: Any, **options: Any) -> Any:
        return NoFit(next(answers), "") if options.get("explain") is False else packs(*given, **options)

    monkeypatch.setattr(topology, "pack", pack)
    assert refusal(sketch, asks(sketch, group(gpus=1), rule=RACK)).kind == kind
    assert next(answers, None) is None, "all were tried"


def part(*inner: TopologyPart, tasks: bool = False) -> TopologyPart:
    return TopologyPart("", None, {None: [0]} if tasks else {}, (), inner)  # type: ignore[dict-item]


LEAF = part(tasks=True)


@pytest.mark.parametrize(
    ("root", "chain"),
    [
        (LEAF, True),
        (part(LEAF), True),
        (part(part(LEAF)), True),
        (part(LEAF, LEAF), False),
        (part(LEAF, tasks=True), False),
        (part(part(LEAF, LEAF)), False),
        (part(part(LEAF, tasks=True)), False),
    ],
)
def test_a_chain_has_all_tasks_in_its_innermost_part(root: TopologyPart, chain: bool) -> None:
    assert _is_chain(root) is chain


# --- reasons


@pytest.mark.parametrize(
    ("defined", "why"),
    [
        (None, "the job refers to topology 'lan', which the policy does not define (defined: none)"),
        ((), "the job refers to topology 'lan', which the policy does not define (defined: none)"),
        (("dc",), "the job refers to topology 'lan', which the policy does not define (defined: dc)"),
        (("dc", "net"), "the job refers to topology 'lan', which the policy does not define (defined: dc, net)"),
        (("lan",), None),
    ],
)
def test_an_unknown_topology_is_refused_with_the_known_ones(defined: tuple[str, ...] | None, why: str | None) -> None:
    demand = JobDemand(job="asks", tasks=(group(),), topology=TopologyRule(topology="lan", required="zone"))
    assert topology_problem(demand, None if defined is None else rules(*defined)) == why


def test_of_a_sub_group_in_one_domain_it_says_which_and_what_the_best_domain_has(sketch: Sketch) -> None:
    job = asks(sketch, group(3, gpus=1, sub_group="web"), rule=ZONE, parts=(SubGroup(name="web", topology=RACK),))
    assert refusal(sketch, job) == NoFit(
        "impossible", "needs 3 × (1 GPU) of sub-group 'web' in one rack of topology 'dc': the best of 3, x/1, fits 2 of 1 GPU"
    )


def test_what_a_domain_fits_is_counted_on_its_own_nodes_however_many(sketch: Sketch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MAX_SCANNED", 1)
    sketch.node("x1b", gpus=2, labels={"zone": "x", "rack": "1"})
    why = "needs 5 × (1 GPU) in one rack of topology 'dc': the best of 3, x/1, fits 4 of 1 GPU"
    assert refusal(sketch, asks(sketch, group(5, gpus=1), rule=RACK)) == NoFit("impossible", why)


@pytest.fixture
def two_parts(sketch: Sketch) -> tuple[SubGroup, SubGroup]:
    """Two parts, and one rack with two free GPUs: enough for either, and for both there are four in all."""
    sketch.running("on-x2", "x2", [0])
    sketch.running("on-y1", "y1", [0])
    return SubGroup(name="a", topology=RACK), SubGroup(name="b", topology=RACK)


def test_two_parts_that_fit_alone_and_not_together(sketch: Sketch, two_parts: tuple[SubGroup, SubGroup]) -> None:
    job = asks(sketch, group(2, gpus=1, sub_group="a"), group(2, gpus=1, sub_group="b"), parts=two_parts)
    why = "4 × (1 GPU): each part fits in a topology domain on its own, but not all parts together"
    assert refusal(sketch, job) == NoFit("impossible", why)


def test_of_two_parts_that_do_not_fit_the_one_that_cannot_fit_alone_is_named(
    sketch: Sketch, two_parts: tuple[SubGroup, SubGroup]
) -> None:
    job = asks(sketch, group(1, gpus=1, sub_group="a"), group(3, gpus=1, sub_group="b"), parts=two_parts)
    why = "needs 3 × (1 GPU) of sub-group 'b' in one rack of topology 'dc': the best of 3, x/1, fits 2 of 1 GPU"
    assert refusal(sketch, job) == NoFit("impossible", why)


def test_however_few_steps_there_are_it_gives_up_on_the_whole_gang(sketch: Sketch, two_parts: tuple[SubGroup, SubGroup]) -> None:
    job = asks(sketch, group(2, gpus=1, sub_group="a"), group(2, gpus=1, cpu=1, sub_group="b"), parts=two_parts)
    both = "2 × (1 GPU) and 2 × (1 GPU, 1 CPU)"
    why = f"found no placement for {both} that satisfies the topology constraints within the step budget"
    for steps in range(40):
        assert refusal(sketch, job, steps) == NoFit("gave-up", why), steps


def test_members_that_run_in_two_domains_are_named_as_the_reason(sketch: Sketch) -> None:
    job = asks(sketch, group(3, gpus=1), rule=RACK, min_tasks=1)
    sketch.at(job, ("x1", [0]), ("x2", [0]), ("y1", [0]))
    del job.tasks[2]
    why = "needs 1 × (1 GPU) in one rack of topology 'dc': its running members are in none, or in several"
    assert refusal(sketch, job) == NoFit("impossible", why)


# --- parts


def test_a_part_is_kept_where_it_has_tasks_or_parts_that_have(sketch: Sketch) -> None:
    parts = (
        SubGroup(name="hall", topology=ZONE),
        SubGroup(name="row", parent="hall", topology=RACK),
        SubGroup(name="alone", topology=RACK),
    )
    job = asks(sketch, group(gpus=1, sub_group="row"), group(gpus=1, sub_group="alone"), parts=parts)

    def names(*indices: int) -> list[Any]:
        root = topology_parts_of(Unit(job, indices, core=True), sketch.state.policy)
        return [(inner.name, [deeper.name for deeper in inner.parts]) for inner in root.parts]

    assert names(0, 1) == [("alone", []), ("hall", ["row"])]
    assert names(0) == [("hall", ["row"])], "it has no task of its own, but its part has"
    assert names(1) == [("alone", [])], "of the others none is wanted"


# --- domains


class Halls:
    """The racks of zone x as the index has them, while nodes come and go."""

    def __init__(self, sketch: Sketch) -> None:
        self.sketch, self.cluster = sketch, ClusterResources.of(sketch.state)
        self.racks()

    def racks(self) -> dict[str, tuple[list[str], int]]:
        """The nodes and the free GPUs of each rack."""
        found = _domains_of(self.cluster, ("zone", "rack")).at(1)
        return {"/".join(each.key): ([node.name for node in each.nodes], int(each.free[0]) // 1000) for each in found}

    def now(self, number: int, state: str) -> None:
        """The node is ready, or lost."""
        self.sketch.state.nodes[number].state = state  # type: ignore[assignment]
        self.cluster.refresh(self.sketch.state, [number])


def test_a_lost_node_leaves_its_domain_and_the_last_one_ends_it(sketch: Sketch) -> None:
    sketch.node("x1b", gpus=4, labels={"zone": "x", "rack": "1"})
    halls = Halls(sketch)
    assert halls.racks() == {"x/1": (["x1", "x1b"], 6), "x/2": (["x2"], 2), "y/1": (["y1"], 2)}
    halls.now(0, "lost")
    halls.now(1, "lost")
    assert halls.racks() == {"x/1": (["x1b"], 4), "y/1": (["y1"], 2)}
    halls.now(0, "ready")
    assert halls.racks()["x/1"] == (["x1", "x1b"], 6)


def test_a_node_that_came_and_went_between_two_looks_was_never_there(sketch: Sketch) -> None:
    halls = Halls(sketch)
    sketch.node("z1", gpus=4, labels={"zone": "z", "rack": "1"})
    halls.now(3, "ready")
    halls.now(3, "lost")
    assert list(halls.racks()) == ["x/1", "x/2", "y/1"]


def test_nodes_that_left_are_forgotten(sketch: Sketch) -> None:
    halls = Halls(sketch)
    for _ in range(3):
        halls.now(0, "lost")
        halls.racks()
        halls.now(0, "ready")
        halls.racks()
    assert len(_domains_of(halls.cluster, ("zone", "rack"))._counted) == 3
