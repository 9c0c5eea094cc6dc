"""What tasks require, and why they do not fit, as tables: requirements, budgets, reasons, checkpoint directories."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.builders import GIB, Sketch, group, requested_unit
from tests.unit.core_placement.tables import need, pool

from bailiff_core.model.demand import JobDemand, TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY, Topology
from bailiff_core.model.state import Device, Node
from bailiff_core.placement import GangPlacement, NoFit, StepBudget, feasibility
from bailiff_core.placement.gang import has_uniform_tasks
from bailiff_core.placement.packing import ANYWHERE
from bailiff_core.placement.shared_checkpoints import unshared_checkpoints
from bailiff_core.placement.task_requirements import requirements_of, requirements_of_unit
from bailiff_core.placement.unschedulable_reasons import unschedulable_reason
from bailiff_core.quota.quota_aware_placement import place_within_bounds
from bailiff_core.scheduling_snapshot import current_snapshot

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


@pytest.mark.parametrize(
    ("left", "spends", "fits", "after"),
    [(3, 3, True, (0, 3)), (3, 4, False, (3, 0)), (0, 0, True, (0, 0)), (0, 1, False, (0, 0))],
)
def test_a_budget_is_spent_to_its_last_step(left: int, spends: int, fits: bool, after: tuple[int, int]) -> None:
    budget = StepBudget(left)
    assert budget.spend(spends) is fits
    assert (budget.remaining, budget.used) == after


@pytest.mark.parametrize(("left", "charged", "after"), [(3, 2, (1, 2)), (3, 3, (0, 3)), (3, 9, (0, 3))])
def test_steps_used_elsewhere_are_charged_as_far_as_there_are_any(left: int, charged: int, after: tuple[int, int]) -> None:
    budget = StepBudget(left)
    budget.charge(charged)
    assert (budget.remaining, budget.used) == after
    part = StepBudget(left).part(charged)
    assert part == StepBudget(min(left, charged))
    whole = StepBudget(left)
    part.spend(1)
    whole.join(part)
    assert (whole.remaining, whole.used) == (left - 1, 1)


# --- why nothing fits


@pytest.mark.parametrize(
    ("sizes", "groups", "reason"),
    [
        ((4,), (group(gpus=5),), "needs 1 task of 5 GPUs, no node fits one; 1 node has fewer than 5 usable GPUs"),
        ((4, 4), (group(3, gpus=4),), "needs 3 nodes with 4 free GPUs each, 2 have them"),
        ((4, 4), (group(5, gpus=2),), "needs 5 tasks of 2 GPUs each, 4 fit"),
        ((4,), (group(2, gpus=3),), "needs 2 tasks of 3 GPUs each, 1 fits"),
        ((4,), (group(2, gpus=4),), "needs 2 nodes with 4 free GPUs each, 1 has them"),
        ((4,), (group(gpus=3), group(gpus=2)), "needs 5 GPUs in total, 4 are free"),
        ((1,), (group(gpus=1), group(gpus=1, cpu=1)), "needs 2 GPUs in total, 1 is free"),
        ((4,), (group(gpus=2), group(gpus=2, cpu=1)), None),
        ((0, 0), (group(gpus=1),), "needs 1 task of 1 GPU, no node fits one; 2 nodes have no usable GPU"),
        ((4,), (group(gpus=1, nodes=("z",)),), "needs 1 task of 1 GPU, no node fits one; 1 node is not in the job's node list"),
        ((4, 4), (group(gpus=1, node_labels={"k": "v"}),), "needs 1 task of 1 GPU, no node fits one; 2 nodes lack the label k=v"),
        (
            (4,),
            (group(gpus=1, gpu_models=("a", "b")),),
            "needs 1 task of 1 GPU (a or b), no node fits one; 1 node has no usable GPU of the model a or b",
        ),
        (
            (4, 4),
            (group(mig_profile="1g.10gb"),),
            "needs 1 task of 1 1g.10gb MIG device, no node fits one; 2 nodes have no usable 1g.10gb MIG device",
        ),
    ],
)
def test_why_tasks_do_not_fit(sizes: Any, groups: Any, reason: str | None) -> None:
    wanted = {need: len(indices) for need, indices in requirements_of(JobDemand(job="asks", tasks=groups)).items()}
    assert unschedulable_reason(pool(*sizes), wanted, ANYWHERE, future=False) == reason


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (NoFit("impossible", "because"), "even on the empty pool: because"),
        (NoFit("gave-up", "because"), None),  # not proven
        (GangPlacement((), False), None),
    ],
)
def test_only_what_is_proven_is_rejected_at_submission(monkeypatch: pytest.MonkeyPatch, found: Any, why: str | None) -> None:
    monkeypatch.setattr(feasibility, "place_unit", lambda *_: found)
    sketch = Sketch()
    sketch.node("a")
    assert feasibility.could_ever_fit(sketch.state, JobDemand(job="asks", tasks=(group(gpus=1),))) == why


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


def test_requirements_of_a_unit_are_those_of_its_tasks() -> None:
    job = Sketch().job("asks", group(2, gpus=1), group(1, cpu=1))
    unit: Any = SimpleNamespace(job=job, indices=(1, 2))
    assert requirements_of_unit(unit) == {need(gpus=1): [1], need(cpu=1): [2]}


@pytest.mark.parametrize("largest", [80, 160])
def test_a_placement_beyond_a_bound_takes_nothing(largest: int) -> None:
    """Other devices are tried first: of equal ones there are none."""
    sketch = Sketch()
    sketch.node("a", gpus=2)
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
