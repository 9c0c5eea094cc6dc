"""Gangs in topology domains: which domain they get, what is a proof, the reasons, and what a search costs."""

import pytest
from tests.kits.builders import Sketch, group, requested_unit

from bailiff_core.model.demand import JobDemand, SubGroup, TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY, Policy, Topology
from bailiff_core.model.state import Job
from bailiff_core.placement import ClusterResources, GangPlacement, NoFit, StepBudget, could_ever_fit, place_unit, topology
from bailiff_core.placement.packing_search import NODES_PER_STEP

# --- gangs placed in one topology domain: required, preferred, and by sub-group (semantics §1 "Topology")


RULES = Policy(
    **{
        **dict(DEFAULT_POLICY),
        "topologies": (Topology(name="dc", levels=("zone", "rack")), Topology(name="net", levels=("rail",))),
    }
)


def rule(required: str | None = None, preferred: str | None = None, topology: str = "dc") -> TopologyRule:
    return TopologyRule(topology=topology, required=required, preferred=preferred)


@pytest.fixture
def sketch() -> Sketch:
    """Two zones of two racks of two nodes of 8 GPUs: `x1a` is node a of rack 1 in zone x."""
    made = Sketch()
    made.state.policy = RULES
    for zone in "xy":
        for rack in "12":
            for name in "ab":
                made.node(f"{zone}{rack}{name}", labels={"zone": zone, "rack": rack})
    return made


def job(sketch: Sketch, *groups, topology=None, sub_groups=(), **rest) -> Job:
    made = sketch.job(f"new-{len(sketch.state.jobs)}", *groups)
    made.demand = JobDemand(job=made.id, tasks=groups, topology=topology, sub_groups=sub_groups, **rest)
    return made


def nodes(sketch: Sketch, made: Job, steps: int = 1000, **options):
    """Node by task, and whether it is later; or the reason."""
    found = place_unit(ClusterResources.of(sketch.state), requested_unit(made), StepBudget(steps), **options)
    if isinstance(found, NoFit):
        return f"{found.kind}: {found.why}"
    return [sketch.state.nodes[task.node].name for task in found.tasks], found.future


def test_required_keeps_the_gang_in_one_domain_and_a_rack_of_another_zone_is_another_rack(sketch: Sketch) -> None:
    sketch.running("one", "x1a", range(8))
    sketch.running("two", "y1a", range(8))
    assert nodes(sketch, job(sketch, group(2, gpus=8))) == (["x1b", "x2a"], False)
    assert nodes(sketch, job(sketch, group(2, gpus=8), topology=rule("rack"))) == (["x2a", "x2b"], False)
    assert nodes(sketch, job(sketch, group(3, gpus=8), topology=rule("zone"))) == (["x1b", "x2a", "x2b"], False)
    assert nodes(sketch, job(sketch, group(3, gpus=8), topology=rule("rack"))) == (
        "impossible: needs 3 × (8 GPUs) in one rack of topology 'dc': the best of 4, x/2, fits 2 of 8 GPUs"
    )


def test_of_several_domains_the_one_left_fullest_then_by_name(sketch: Sketch) -> None:
    asked = job(sketch, group(2, gpus=2), topology=rule("rack"))
    assert nodes(sketch, asked)[0] == ["x1a", "x1a"]
    sketch.running("some", "y2b", range(4))
    assert nodes(sketch, asked)[0] == ["y2b", "y2b"]
    sketch.running("more", "y1a", range(7))
    assert nodes(sketch, asked)[0] == ["y1b", "y1b"], "9 free of 16 are fewer than 12"


def test_the_scarcest_resource_says_how_full_a_domain_is(sketch: Sketch) -> None:
    sketch.running("gpus", "x1a", range(4))
    sketch.at(sketch.job("cpus", group(cpu=990)), ("y2a", ()))
    sketch.at(sketch.job("cpus2", group(cpu=900)), ("y2b", ()))
    assert nodes(sketch, job(sketch, group(2, gpus=1, cpu=1), topology=rule("rack")))[0][0][:2] == "x1"
    assert nodes(sketch, job(sketch, group(2, gpus=1, cpu=40), topology=rule("rack")))[0][0][:2] == "y2"


def test_preferred_is_tried_finest_first_and_never_a_reason_to_wait(sketch: Sketch) -> None:
    for name in ("x1a", "x2a", "y1a"):
        sketch.running(f"on-{name}", name, range(8))
    sketch.running("goes", "y2a", range(8), phase="evicting")
    close = rule("zone", preferred="rack")
    assert nodes(sketch, job(sketch, group(2, gpus=4), topology=close)) == (["x1b", "x1b"], False)
    assert nodes(sketch, job(sketch, group(2, gpus=8), topology=close)) == (["x1b", "x2b"], False), "now, and not later in y2"
    assert nodes(sketch, job(sketch, group(3, gpus=8), topology=close)) == (["y1b", "y2b", "y2a"], True)
    assert nodes(sketch, job(sketch, group(4, gpus=8), topology=close)).startswith("impossible: needs 4 × (8 GPUs) in one zone")
    assert nodes(sketch, job(sketch, group(4, gpus=8), topology=rule(preferred="rack")))[1] is False, "the pool is left"


def test_a_required_domain_may_be_reserved(sketch: Sketch) -> None:
    for number, name in enumerate(("x1a", "x2a", "y1a", "y2a")):
        sketch.running(f"on-{name}", name, range(8), phase="evicting" if number == 3 else "running")
    assert nodes(sketch, job(sketch, group(2, gpus=8), topology=rule("rack"))) == (["y2b", "y2a"], True)


def test_a_node_without_the_label_or_a_coarser_one_is_in_no_domain() -> None:
    sketch = Sketch()
    sketch.state.policy = RULES
    sketch.node("bare")
    sketch.node("half", labels={"rack": "1"})
    asked = job(sketch, group(1, gpus=1), topology=rule("rack"))
    assert nodes(sketch, asked) == (
        "impossible: needs 1 × (1 GPU) in one rack of topology 'dc': no node has the labels zone, rack"
    )
    assert nodes(sketch, job(sketch, group(1, gpus=1), topology=rule(preferred="rack")))[0] == ["bare"]


def test_running_members_keep_the_rest_in_their_domain(sketch: Sketch) -> None:
    elastic = job(sketch, group(4, gpus=8), topology=rule("rack"), min_tasks=1)
    sketch.at(elastic, ("y1b", range(8)), ("y1a", range(8)), ("y1a", []), ("y1a", []))
    del elastic.tasks[1:]
    sketch.state.nodes[4].allocated = type(sketch.state.nodes[4].allocated)()
    assert nodes(sketch, elastic) == (["y1a"], False)
    sketch.running("there", "y1a", range(8))
    assert nodes(sketch, elastic) == (
        "impossible: needs 1 × (8 GPUs) in one rack of topology 'dc', the one in which its other members run: "
        "the best of 1, y/1, fits 0 of 8 GPUs"
    )


def test_a_sub_group_is_placed_together_inside_the_domain_of_its_parent(sketch: Sketch) -> None:
    sketch.running("one", "x1a", range(8))
    leaders = SubGroup(name="leaders", topology=rule("rack"))
    workers = SubGroup(name="workers", topology=rule("rack"))
    asked = job(
        sketch,
        group(2, gpus=8, sub_group="leaders"),
        group(2, gpus=8, sub_group="workers"),
        topology=rule("zone"),
        sub_groups=(leaders, workers),
    )
    assert nodes(sketch, asked) == (["y1a", "y1b", "y2a", "y2b"], False), "zone x has one whole rack only"
    sketch.running("two", "y1a", range(8))
    assert nodes(sketch, asked).startswith("impossible")
    across = job(
        sketch, group(2, gpus=8, sub_group="leaders"), group(2, gpus=8, sub_group="workers"), sub_groups=(leaders, workers)
    )
    assert nodes(sketch, across) == (["x2a", "x2b", "y2a", "y2b"], False)


def test_the_domain_of_one_part_is_searched_again_where_another_part_finds_none(sketch: Sketch) -> None:
    for name in ("x2a", "x2b", "y1a", "y1b"):
        sketch.running(f"on-{name}", name, range(8))
    sketch.running("half", "x1a", range(4))  # rack x1 is the fuller one, and the small group would take it
    small, large = SubGroup(name="a", topology=rule("rack")), SubGroup(name="b", topology=rule("rack"))
    asked = job(
        sketch,
        group(1, gpus=8, sub_group="a"),
        group(1, gpus=8, sub_group="b"),
        group(1, gpus=8, sub_group="b"),
        sub_groups=(small, large),
    )
    found, future = nodes(sketch, asked)
    assert (found[0], sorted(found[1:]), future) == ("x1b", ["y2a", "y2b"], False)
    sketch.running("rest", "x1b", range(8))
    assert nodes(sketch, asked).startswith("impossible")


def test_different_topologies_may_apply_to_different_parts(sketch: Sketch) -> None:
    for number, node in enumerate(sketch.state.nodes.values()):
        node.labels["rail"] = "odd" if number % 2 else "even"
    asked = job(
        sketch,
        group(2, gpus=8, sub_group="a"),
        group(1, gpus=8),
        topology=rule("zone"),
        sub_groups=(SubGroup(name="a", topology=rule("rail", topology="net")),),
    )
    found, _ = nodes(sketch, asked)
    assert sorted(name[2] for name in found[:2]) in (["a", "a"], ["b", "b"])
    assert len({name[0] for name in found}) == 1


def test_nested_rules_apply_in_large_domains_too() -> None:
    sketch = Sketch()
    sketch.state.policy = RULES
    for number in range(280):
        zone, rail = "xy"[number % 2], "ab"[number // 2 % 2]
        sketch.node(f"{zone}{rail}{number}", gpus=2, labels={"zone": zone, "rail": rail})
    for name in ("xa0", "xb2", "ya1"):
        sketch.running(f"on-{name}", name, [0])
    asked = job(
        sketch,
        group(2, gpus=1, sub_group="a"),
        group(1, gpus=1),
        topology=rule("zone"),
        sub_groups=(SubGroup(name="a", topology=rule("rail", topology="net")),),
    )
    assert nodes(sketch, asked) == (["xa0", "xa100", "xa100"], False), "ya1 has as few free GPUs as xa0, in another zone"


def test_a_gang_larger_than_every_domain_is_reported_at_submit(sketch: Sketch) -> None:
    sketch.running("all", "x1a", range(8))
    fits, never = job(sketch, group(2, gpus=8), topology=rule("rack")), job(sketch, group(3, gpus=8), topology=rule("rack"))
    assert could_ever_fit(sketch.state, fits.demand) is None
    assert (could_ever_fit(sketch.state, never.demand) or "").startswith("even on the empty pool: needs 3 × (8 GPUs) in one rack")


def test_an_exhausted_step_budget_is_not_a_refusal(sketch: Sketch) -> None:
    sketch.running("one", "x1a", [0])
    assert nodes(sketch, job(sketch, group(2, gpus=8), topology=rule("rack")), steps=0) == (
        "gave-up: found no placement for 2 × (8 GPUs) that satisfies the topology constraints within the step budget"
    )


def test_a_domain_too_large_for_the_steps_left_ends_the_search() -> None:
    """The smaller one, where it would fit, is not tried."""
    made = Sketch()
    made.state.policy = RULES
    for number in range(NODES_PER_STEP):
        made.node(f"x{number}", gpus=1, labels={"zone": "x"})
    made.node("y", gpus=4, labels={"zone": "y"})
    for number in range(NODES_PER_STEP - 1):
        made.running(f"on-{number}", f"x{number}", [0])
    asked = job(made, group(1, gpus=1), topology=rule("zone"))
    assert nodes(made, asked) == ([f"x{NODES_PER_STEP - 1}"], False), "x is the fullest"
    assert str(nodes(made, asked, steps=1)).startswith("gave-up: ")


def test_where_members_run_in_two_domains_already_no_domain_has_all_of_them(sketch: Sketch) -> None:
    """The nodes got other labels meanwhile."""
    elastic = job(sketch, group(3, gpus=4), topology=rule("rack"), min_tasks=1)
    sketch.at(elastic, ("y1b", range(4)), ("y2b", range(4)), ("x1a", range(4)))
    del elastic.tasks[2:]
    assert str(nodes(sketch, elastic)).startswith("impossible: needs 1 × (4 GPUs) in one rack of topology 'dc'")


@pytest.mark.parametrize(
    ("cpu_of_b", "levels_of_b", "kind"), [(0, "rack", "impossible"), (1, "rack", "gave-up"), (0, "zone", "gave-up")]
)
def test_without_a_place_only_equal_parts_are_a_proof(cpu_of_b: int, levels_of_b: str, kind: str) -> None:
    """Each part fits alone, and without domains both do: racks of three and one free GPUs, and two parts of two."""
    sketch = Sketch()
    sketch.state.policy = RULES
    for zone, rack, gpus in (("x", "1", 3), ("y", "1", 1)):
        sketch.node(f"{zone}{rack}", gpus=gpus, labels={"zone": zone, "rack": rack})
    parts = SubGroup(name="a", topology=rule("rack")), SubGroup(name="b", topology=rule(levels_of_b))
    groups = group(2, gpus=1, sub_group="a"), group(2, gpus=1, cpu=cpu_of_b, sub_group="b")
    found = place_unit(
        ClusterResources.of(sketch.state), requested_unit(job(sketch, *groups, sub_groups=parts)), StepBudget(1000)
    )
    assert isinstance(found, NoFit)
    assert found.kind == kind


# --- what a search for domains costs: a step for each try, and one for so many nodes of the domain


@pytest.mark.parametrize(("required", "steps"), [("zone", 5), ("rack", 3)])
def test_a_try_costs_as_many_steps_as_the_domain_has_nodes(monkeypatch: pytest.MonkeyPatch, required: str, steps: int) -> None:
    monkeypatch.setattr(topology, "NODES_PER_STEP", 1)
    sketch = Sketch()
    levels = (Topology(name="dc", levels=("zone", "rack")),)
    sketch.state.policy = DEFAULT_POLICY.model_copy(update={"topologies": levels})
    for number in range(8):
        sketch.node(f"n{number}", gpus=1, labels={"zone": "xy"[number // 4], "rack": "12"[number // 2 % 2]})
    rule = TopologyRule(topology="dc", required=required)
    job = sketch.job("asks", group(2, gpus=1))
    job.demand = JobDemand(job="asks", tasks=job.demand.tasks, topology=rule)
    budget = StepBudget(100)
    assert isinstance(place_unit(ClusterResources.of(sketch.state), requested_unit(job), budget), GangPlacement)
    assert budget.used == steps
