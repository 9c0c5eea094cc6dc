"""Why tasks do not fit, where they never could, and which nodes share a checkpoint directory."""

from typing import Any

import pytest
from tests.kits.builders import GIB, Sketch, group, requested_unit
from tests.kits.log_builder import Story
from tests.kits.searches import need, pool
from tests.kits.story_script import play

from bailiff_core.model.demand import JobDemand, TaskGroup, TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY, Topology
from bailiff_core.model.state import Device, Node
from bailiff_core.placement import ClusterResources, GangPlacement, StepBudget
from bailiff_core.placement.feasibility import could_ever_fit
from bailiff_core.placement.gang import has_uniform_tasks
from bailiff_core.placement.islands import place_on_islands
from bailiff_core.placement.packing import ANYWHERE
from bailiff_core.placement.shared_checkpoints import unshared_checkpoints
from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.placement.unschedulable_reasons import unschedulable_reason
from bailiff_core.quota.quota_aware_placement import place_within_bounds
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch, infeasibility, select_victims

# --- what tasks require, and why they do not fit, as tables: requirements, budgets, reasons, checkpoint directories


# --- requirements of a task


@pytest.mark.parametrize("devices", [1, 2, 3])
@pytest.mark.parametrize("places", [(), (1,), (2, 2), (3, 1), (1, 1, 1), (4, 1, 1), (3, 3, 1), (2, 2, 2, 1)])
def test_tasks_that_share_distinct_devices(devices: int, places: tuple[int, ...]) -> None:
    """Compared with giving tasks devices one after the other, the emptiest first, which is optimal."""
    left, expected = list(places), 0
    while len([each for each in left if each]) >= devices:
        for at in sorted(range(len(left)), key=lambda at: -left[at])[:devices]:
            left[at] -= 1
        expected += 1
    asked = need(gpu_share_milli=100, gpu_devices=devices)
    for most in range(expected + 2):
        assert asked.max_sharing_tasks(most, dict(enumerate(places))) == min(most, expected)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({}, "1 task slot"),
        ({"gpus": 1}, "1 GPU"),
        ({"gpus": 2, "gpu_models": ("b", "a")}, "2 GPUs (a or b)"),
        ({"cpu_milli": 1000}, "1 CPU"),
        ({"cpu_milli": 1500, "memory_bytes": GIB // 2}, "1.5 CPUs, 0.5 GiB of memory"),
        ({"cpu_milli": 999}, "1 CPU"),  # rounded up to hundredths
        ({"cpu_milli": 991}, "1 CPU"),
        ({"cpu_milli": 990}, "0.99 CPU"),
        ({"gpu_share_milli": 500}, "0.5 of 1 GPU"),
        ({"gpu_share_milli": 500, "gpu_devices": 2}, "0.5 of each of 2 GPUs"),
        ({"gpu_share_bytes": 3 * 2**20}, "3 MiB of 1 GPU"),
        ({"mig_profile": "1g.10gb"}, "1 1g.10gb MIG device"),
        ({"mig_profile": "1g.10gb", "gpu_devices": 2}, "2 1g.10gb MIG devices"),
    ],
)
def test_requirements_as_people_read_them(asked: Any, text: str) -> None:
    assert str(need(**asked)) == text


@pytest.mark.parametrize(
    ("groups", "topology", "uniform"),
    [
        ((group(2, gpus=1),), None, True),
        ((group(gpus=1), group(gpus=1)), None, True),
        ((group(gpus=1), group(gpus=2)), None, False),
        ((group(2, gpu_share_milli=500),), None, False),
        ((group(2, gpus=1),), TopologyRule(topology="dc", required="zone"), False),
    ],
)
def test_whether_more_resources_never_hurt(groups: Any, topology: Any, uniform: bool) -> None:
    job = Sketch().job("asks", *groups)
    job.demand = job.demand.model_copy(update={"topology": topology})
    assert has_uniform_tasks(requested_unit(job)) is uniform


# --- shared checkpoint directories


def local(gpus: int = 4, cpu: int = 4, gib: int = 4, slots: int = 4) -> Sketch:
    """Two equal nodes with directories of their own."""
    sketch = Sketch()
    for name in "ab":
        sketch.node(name, gpus=gpus, cpu=cpu, gib=gib, slots=slots)
    return sketch


@pytest.mark.parametrize(
    ("groups", "on_one_node"),
    [
        ((group(2, gpus=2),), True),
        ((group(2, gpus=2), group(1, gpus=1)), False),
        ((group(2, cpu=2),), True),
        ((group(2, cpu=3),), False),
        ((group(2, gib=2),), True),
        ((group(2, gib=3),), False),
        ((group(4),), True),
        ((group(5),), False),
        ((group(1, gpus=4),), True),  # a single task
        ((group(1, gpus=1, nodes=("a",)), group(1, gpus=1, nodes=("b",))), False),
        ((group(2, gpu_share_milli=500),), True),
    ],
)
def test_whether_a_gang_fits_on_one_node(groups: Any, on_one_node: bool) -> None:
    found = unshared_checkpoints(local().state, JobDemand(job="asks", tasks=groups))
    assert (found is None) is on_one_node


@pytest.mark.parametrize(
    ("groups", "on_one_node"),
    [
        ((group(3, mig_profile="1g.10gb"),), True),
        ((group(4, mig_profile="1g.10gb"),), False),
        ((group(1, mig_profile="1g.10gb", gpu_devices=2), group(1, mig_profile="1g.10gb")), True),
        ((group(1, mig_profile="1g.10gb", gpu_devices=2), group(2, mig_profile="1g.10gb")), False),
        ((group(2, mig_profile="1g.10gb", gpu_devices=2),), False),
        ((group(2, mig_profile="1g.10gb"), group(1, gpus=1)), True),
        ((group(2, mig_profile="1g.10gb"), group(2, gpus=1)), False),
    ],
)
def test_whether_a_gang_of_mig_devices_fits_on_one_node(groups: Any, on_one_node: bool) -> None:
    """Each node has three MIG devices of a profile, and one GPU."""
    sketch = local(gpus=4)
    for node in sketch.state.nodes.values():
        node.devices = [_mig(node, number) if number else node.devices[0] for number in range(4)]
    found = unshared_checkpoints(sketch.state, JobDemand(job="asks", tasks=groups))
    assert (found is None) is on_one_node


def _mig(node: Node, number: int) -> Device:
    return Device(number, f"{node.name}-{number}", "h100", 10 * GIB, kind="mig", profile="1g.10gb")


@pytest.mark.parametrize(
    ("stores", "named"),
    [
        ((None, None, "x"), "n0, n1 share none"),
        ((None, "x"), "n0 shares none"),
        ((None,) * 5, "n0, n1, n2, n3, n4 share none"),
        ((None,) * 6, "n0, n1, n2, n3, n4 and 1 more share none"),
        (("x", "y"), "there is more than one of them"),
        (("x", "x"), None),
        (("x",), None),
    ],
)
def test_which_nodes_share_no_directory(stores: Any, named: str | None) -> None:
    sketch = Sketch()
    for number, store in enumerate(stores):
        sketch.node(f"n{number}", gpus=1).checkpoint_store = store
    found = unshared_checkpoints(sketch.state, JobDemand(job="asks", tasks=(group(2, gpus=1),)))
    assert (found is None) == (named is None)
    assert named is None or f"may run it {named}: set BAILIFF_SHARED_CHECKPOINTS" in (found or "")


@pytest.mark.parametrize("largest", [80, 160])
def test_a_placement_beyond_a_bound_takes_nothing(largest: int) -> None:
    """Other devices are tried first: of equal ones there are none."""
    sketch = Sketch(a=2)
    for device in sketch.node("b", gpus=2).devices:
        device.memory_bytes = largest * GIB
    unit = requested_unit(sketch.job("asks", group(2, gpu_share_bytes=GIB)))
    snapshot = current_snapshot(sketch.state)
    before = [(node.unallocated, node.future) for node in snapshot.cluster.nodes.values()]
    tried: list[list[int]] = []

    def over(place: GangPlacement) -> str | None:
        tried.append([task.node for task in place.tasks])
        return "too much"

    assert place_within_bounds(snapshot, unit, StepBudget(1_000), over=over) == "too much"
    assert [(node.unallocated, node.future) for node in snapshot.cluster.nodes.values()] == before
    assert tried == [[0, 0], *([[1, 1]] if largest > 80 else []), [1, 1] if largest > 80 else [0, 0]]


def test_larger_devices_are_tried_as_if_nothing_were_placed_yet() -> None:
    """The first placement takes part of `b`, where both tasks fit."""
    sketch = Sketch()
    for name, size in (("a", 80), ("b", 160), ("c", 320)):
        sketch.node(name, gpus=1).devices[0].memory_bytes = size * GIB
    unit = requested_unit(sketch.job("asks", group(2, gpu_share_bytes=60 * GIB)))
    snapshot = current_snapshot(sketch.state)
    tried: list[list[int]] = []

    def over(place: GangPlacement) -> str | None:
        tried.append([task.node for task in place.tasks])
        return "too much" if len(tried) == 1 else None

    place_within_bounds(snapshot, unit, StepBudget(1_000), over=over)
    assert tried == [[0, 1], [1, 1]]


def test_tasks_that_must_share_a_domain_are_not_spread_over_devices_of_several_sizes() -> None:
    """Nothing but one placement for all of them keeps the rule of their topology."""
    sketch = Sketch()
    sketch.state.policy = DEFAULT_POLICY.model_copy(update={"topologies": (Topology(name="dc", levels=("zone",)),)})
    for name, size in (("a", 80), ("b", 160)):
        sketch.node(name, gpus=1, labels={"zone": name}).devices[0].memory_bytes = size * GIB
    asks = sketch.job("asks", group(2, gpu_share_bytes=GIB))
    asks.demand = asks.demand.model_copy(update={"topology": TopologyRule(topology="dc", required="zone")})
    tried: list[list[int]] = []

    def over(place: GangPlacement) -> str | None:
        tried.append([task.node for task in place.tasks])
        return "too much"

    assert place_within_bounds(current_snapshot(sketch.state), requested_unit(asks), StepBudget(1_000), over=over) == "too much"
    assert tried == [[0, 0], [1, 1]]


# --- which nodes count for a shared checkpoint directory, how an unknown topology is named, and places on islands


@pytest.mark.parametrize(
    ("about", "named"),
    [
        ({}, "fast, mixed share none"),
        ({"gpu_models": ("h100",)}, "fast, mixed share none"),
        ({"gpu_models": ("a100",)}, "mixed shares none"),
        ({"gpu_models": ("a100", "l40s")}, "mixed shares none"),
        ({"gpu_models": ("l40s",)}, None),  # one node, which has a directory that others could share
        ({"gpu_models": ("v100",)}, None),  # no node at all, which another check reports
        ({"node_labels": {"disk": "fast"}}, "fast shares none"),
        ({"node_labels": {"disk": "slow"}}, None),
        ({"nodes": ("mixed", "shared")}, "mixed shares none"),
        ({"nodes": ("shared",)}, None),
        ({"gpu_models": ("a100",), "nodes": ("fast",)}, None),
    ],
)
def test_only_nodes_that_may_run_a_task_need_the_directory(about: dict[str, Any], named: str | None) -> None:
    sketch = Sketch()
    sketch.node("fast", gpus=4, labels={"disk": "fast"})
    sketch.node("mixed", gpus=4, models=("h100", "a100"))
    sketch.node("shared", gpus=4, models=("l40s",)).checkpoint_store = "x"
    found = unshared_checkpoints(sketch.state, JobDemand(job="asks", tasks=(group(2, gpus=4, **about),)))
    assert (found is None) == (named is None)
    assert named is None or f"may run it {named}: set" in (found or "")


@pytest.mark.parametrize(
    ("others", "fits"), [((), True), ((2,), True), ((9,), False), ((2, 9), False), ((9, 2), False), ((2, 3), True)]
)
def test_tasks_beside_those_on_an_island_have_to_fit_as_well(others: tuple[int, ...], fits: bool) -> None:
    sketch = Sketch()
    node = sketch.node("a", gpus=4, cpu=8)
    node.devices = [Device(number, f"a{number}", "h100", GIB, island="xxyy"[number]) for number in range(4)]
    cluster = ClusterResources.of(sketch.state)
    before = cluster.nodes[0].unallocated
    wanted = {TaskRequirements.of(group(gpus=2)): 1, **{TaskRequirements.of(group(cpu=cpu)): 1 for cpu in others}}
    found = place_on_islands(cluster, wanted, ANYWHERE)
    assert (found is not None) is fits
    assert found is None or len(found) == 1 + len(others)
    assert cluster.nodes[0].unallocated == before


# --- reasons why tasks do not fit, in pools where what is counted differs: no node at all, other models, and what is leaving


ONE, TWO = need(gpus=1), need(gpus=2, cpu=1)


@pytest.mark.parametrize(("future", "what"), [(False, "free"), (True, "free or releasing")])
def test_the_reason_says_whether_what_is_leaving_counts(future: bool, what: str) -> None:
    assert unschedulable_reason(pool(2), {ONE: 1, TWO: 1}, ANYWHERE, future=future) == f"needs 3 GPUs in total, 2 are {what}"


def test_kinds_without_gpus_have_no_total() -> None:
    assert unschedulable_reason(pool(0), {need(cpu=1): 1, need(cpu=2): 1}, ANYWHERE, future=False) is None


# --- which protected jobs a refused preemptor would still need, as a sentence: so many by name, the others as a number


def refusal(sketch: Sketch, asked: TaskGroup) -> str:
    preemptor = sketch.job("preemptor", asked, priority=75)
    batch = SelectionBatch.on(current_snapshot(sketch.state))
    answer = select_victims(batch, requested_unit(preemptor), "preempt", StepBudget(20_000))
    assert answer.refused == "impossible"
    return answer.would_need.partition("it would still need ")[2]


@pytest.mark.parametrize(("jobs", "more"), [(5, ""), (6, "; 1 more such jobs"), (7, "; 2 more such jobs")])
def test_five_are_named(jobs: int, more: str) -> None:
    sketch = Sketch(a=jobs)
    for number in range(jobs):
        sketch.running(f"j{number}", "a", [number], preemptible=False)
    named = "; ".join(f"'j{number}', which is not preemptible" for number in range(5))
    assert refusal(sketch, group(gpus=jobs)) == f"the resources ({jobs} GPUs) of {named}{more}"


@pytest.mark.parametrize(("gpus", "what"), [(1, "the resources (1 GPU)"), (0, "the resources")])
def test_gpus_are_counted_where_there_are_any(gpus: int, what: str) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=1, cpu=4)
    sketch.at(sketch.job("firm", group(gpus=gpus, cpu=4), preemptible=False), ("a", range(gpus)))
    assert refusal(sketch, group(cpu=4)) == f"{what} of 'firm', which is not preemptible"


@pytest.mark.parametrize(("most", "named"), [(1, False), (2, True)])
def test_of_too_many_protected_jobs_none_is_named(monkeypatch: pytest.MonkeyPatch, most: int, named: bool) -> None:
    monkeypatch.setattr(infeasibility, "MAX_EXCLUDED", most)
    sketch = Sketch(a=2)
    for number in range(2):
        sketch.running(f"j{number}", "a", [number], preemptible=False)
    assert bool(refusal(sketch, group(gpus=2))) is named


def test_what_a_protected_job_has_where_the_preemptor_may_not_run_is_not_needed() -> None:
    sketch = Sketch(a=1, b=1)
    wide = sketch.at(sketch.job("wide", group(2, gpus=1), preemptible=False), ("a", [0]), ("b", [0]))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    text = "the resources (1 GPU) of 'wide', which is not preemptible"
    assert refusal(sketch, group(gpus=1, nodes=("a",))) == text


# --- whether members of a gang are known to share one checkpoint directory


@pytest.fixture
def story() -> Story:
    return Story()


def gang(tasks: int = 2, gpus: int = 8, **group: object) -> JobDemand:
    return JobDemand(job="gang", tasks=(TaskGroup(count=tasks, gpu_milli=1000 * gpus, **group),))  # type: ignore[arg-type]


def test_the_next_incarnation_of_an_agent_may_lack_the_shared_directory(story: Story) -> None:
    story.node("n1", gpus=8, checkpoints="disk")
    story.node("n2", gpus=8, checkpoints="disk")
    story.node("n2", gpus=8)
    assert unshared_checkpoints(story.state, gang()) is not None


@pytest.mark.parametrize(
    ("sizes", "tasks", "shared"),
    [
        ((8, 8), 9, False),
        ((8, 16), 9, True),  # one node that takes all of it is enough
        ((16, 8), 9, True),
        ((8, 8), 1, True),  # a single task shares nothing
    ],
)
def test_a_gang_that_one_node_takes_may_be_kept_on_it(sizes: tuple[int, ...], tasks: int, shared: bool) -> None:
    sketch = Sketch()
    for name, gpus in zip("ab", sizes, strict=True):
        sketch.node(name, gpus=gpus)
    assert (unshared_checkpoints(sketch.state, gang(tasks, 1)) is None) is shared


def test_a_single_task_shares_nothing_even_if_it_is_too_large_for_every_node() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=8, cpu=4)
    assert unshared_checkpoints(sketch.state, gang(1, 1, cpu_milli=5000)) is None


def test_nodes_with_too_few_gpus_of_the_profile_do_not_count() -> None:
    """Two nodes take the gang, with a shared directory; the third has too few GPUs for a task, and no directory."""
    sketch = Sketch()
    for name in "ab":
        sketch.node(name, gpus=8).checkpoint_store = "disk"
    sketch.node("c", gpus=4)
    assert unshared_checkpoints(sketch.state, gang(2, 8)) is None
    assert "c shares none" in str(unshared_checkpoints(sketch.state, gang(3, 4))), "a task of four fits on it"


def test_nodes_without_a_gpu_of_the_model_do_not_count() -> None:
    sketch = Sketch()
    for name in "ab":
        sketch.node(name, gpus=8, models=("h100", "a100")).checkpoint_store = "disk"
    sketch.node("c", gpus=8, models=("b200",))
    assert unshared_checkpoints(sketch.state, gang(2, 8, gpu_models=("a100",))) is None
    assert "c shares none" in str(unshared_checkpoints(sketch.state, gang(2, 8, gpu_models=("a100", "b200"))))


# --- whether a gang could ever fit is asked of the nodes that there are now, also after it was asked before


def problem(story: Story, gpus: int) -> str | None:
    return could_ever_fit(story.state, JobDemand(job="asks", tasks=(TaskGroup(gpu_milli=1000 * gpus),)))


def test_a_node_that_joins_makes_room_for_what_could_never_fit() -> None:
    story = play("node n1: 4 gpus; runs there: 4 gpus")
    assert problem(story, 4) is None
    assert str(problem(story, 8)).startswith("even on the empty pool: ")
    story.node("n2", gpus=8)
    story.runs("here", gpus=8)
    assert problem(story, 8) is None
    assert str(problem(story, 9)).startswith("even on the empty pool: ")


def test_a_node_that_is_replaced_by_a_smaller_one_takes_its_room_along() -> None:
    story = play("node n1: 8 gpus; runs there: 1 gpu")
    assert problem(story, 8) is None
    play("lost n1; node n1: 4 gpus, boot 2; submit again: 1 gpu", story=story)
    assert problem(story, 4) is None
    assert problem(story, 9) is not None
