"""The place of a single task among all possible ones: literally from semantics §3 "Placement"."""

from fractions import Fraction
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.kits.builders import requested_unit
from tests.kits.examples import examples
from tests.property.tiny_pools import Left, count_of, is_shared, part_of, random_tasks, tiny_pool

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.state import Node, PoolState
from bailiff_core.placement import ClusterResources, GangPlacement, StepBudget, place_unit


def places(state: PoolState, group: TaskGroup, *, spread: bool):
    """All places of one task as (key, node, devices): the smaller key is the better place."""
    for node in state.nodes.values():
        now, later = Left(state, node, now=True), Left(state, node, now=False)
        free_now = {number for number in now.whole if now.whole[number] and later.whole[number]}
        free_later = {number for number, whole in later.whole.items() if whole}
        for devices in later.choices(group):
            if not later.fits(group, devices):
                continue
            waits = not now.fits(group, devices)
            free = len(free_later if waits else free_now)
            packed = (-free if spread else free, cpu_left(now, later, group, waits, spread), broken(node, free, count_of(group)))
            without_gpus = not count_of(group) and bool(node.devices)
            opened, emptiness = 0, 0
            if is_shared(group):
                taken = [bool(now.shared_tasks[number] or later.shared_tasks[number]) for number in devices]
                opened = taken.count(False)
                full = {device.number: 1000 * device.memory_bytes for device in node.devices}
                emptiness = sum(Fraction(later.units[number], full[number]) for number in devices) if any(taken) else 0
            leaving = [now.units[number] < part_of(group, node.devices[number]) for number in devices]
            key = (opened, emptiness, waits, without_gpus, *packed, node.name, leaving, devices)
            yield key, node.number, devices


def broken(node: Node, free: int, devices: int) -> int:
    """One more fragmented node, one less, or neither."""
    total = len(node.devices)
    return (0 < free - devices < total) - (0 < free < total)


def cpu_left(now: Left, later: Left, group: TaskGroup, waits: bool, spread: bool) -> int:
    """Spreading compares CPU for tasks without GPUs."""
    if not spread or count_of(group):
        return 0
    return -(later.cpu if waits else min(now.cpu, later.cpu))


@examples(500)
@given(seed=st.integers(0, 2**48))
def test_a_task_gets_the_best_of_all_its_places(seed: int) -> None:
    random = Random(seed)
    sketch, preemptor = tiny_pool(random)
    state = sketch.state
    group = random_tasks(random).model_copy(update={"count": 1})
    if is_shared(group):
        group = group.model_copy(update={"gpu_devices": None})
    preemptor.demand = JobDemand(job="preemptor", tasks=(group,), pack=preemptor.demand.pack)
    found = place_unit(ClusterResources.of(state), requested_unit(preemptor), StepBudget(1000))
    best = min(places(state, group, spread=preemptor.demand.pack == "spread"), default=None)
    assert (best is None) == (not isinstance(found, GangPlacement))
    if best is None or not isinstance(found, GangPlacement):
        return
    key, node, devices = best
    (task,) = found.tasks
    assert task.node == node, f"{key}"
    if is_shared(group):
        assert task.devices == sum(1 << number for number in devices), f"{key}"
