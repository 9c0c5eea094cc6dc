"""New places of victims beside the preemptor: which of them have one, and where."""

import pytest
from tests.builders import HOUR, MINUTE, Sketch, group, requested_unit

from bailiff_core.model.state import Job
from bailiff_core.model.units import Unit, whole_job
from bailiff_core.placement import GangPlacement, StepBudget, TaskPlacement
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import relocation
from bailiff_core.victims.candidates import CandidateIndex
from bailiff_core.victims.relocation import find_relocations, relocate, units_by_job

Places = dict[str, list[tuple[int, str]]]  # by job: task and node


def relocated(sketch: Sketch, steps: dict[str, int]) -> Places:
    """Evicts so many steps of these jobs, and places the preemptor on all of node a."""
    preemptor = sketch.job("preemptor", group(gpus=8), priority=75)
    snapshot = current_snapshot(sketch.state)
    chains = CandidateIndex(snapshot).candidates("preempt", preemptor).chains
    evicted = [step for name, count in steps.items() for step in chains[name][:count]]
    for step in evicted:
        snapshot.cluster.evict(step.unit)
    snapshot.cluster.place(requested_unit(preemptor), GangPlacement((TaskPlacement(0, 0, 0xFF),), future=True))
    found = find_relocations(snapshot.cluster, evicted, StepBudget(1000))
    assert all(place.future for place in found.values())
    return {name: [(task.index, snapshot.cluster.nodes[task.node].name) for task in place.tasks] for name, place in found.items()}


def elastic(sketch: Sketch, *groups, places: list[tuple[str, range]], minimum: int) -> Job:
    job = sketch.at(sketch.job("wide", *groups), *places)
    job.demand = job.demand.model_copy(update={"min_tasks": minimum})
    return job


@pytest.fixture
def sketch() -> Sketch:
    """Node a is the preemptor's; what is free on node b is all that the victims have."""
    made = Sketch()
    made.node("a", gpus=8)
    return made


def test_the_more_valuable_victim_gets_the_place_that_only_one_can_have(sketch: Sketch) -> None:
    sketch.node("b", gpus=4)
    sketch.running("recent", "a", range(4), age=MINUTE)
    sketch.running("long", "a", range(4, 8), age=HOUR)
    assert relocated(sketch, {"recent": 1, "long": 1}) == {"long": [(0, "b")]}, "the other one is left out"


def test_a_smaller_victim_is_relocated_where_a_more_valuable_one_has_no_place(sketch: Sketch) -> None:
    sketch.node("b", gpus=2)
    sketch.running("large", "a", range(4), age=HOUR)
    sketch.running("large-too", "a", range(4, 6), age=HOUR, priority=60)
    sketch.running("small", "a", [6], age=MINUTE)
    assert relocated(sketch, {"large": 1, "small": 1}) == {"small": [(0, "b")]}


def test_surplus_tasks_are_relocated_one_by_one_those_that_have_no_place_are_not(sketch: Sketch) -> None:
    sketch.node("b", gpus=2)
    places = [("a", range(1)), ("a", range(1, 2)), ("a", range(2, 4)), ("a", range(4, 8))]
    elastic(sketch, group(2, gpus=1), group(gpus=2), group(gpus=4), places=places, minimum=2)
    assert relocated(sketch, {"wide": 2}) == {"wide": [(2, "b")]}


def test_places_are_in_task_order_whatever_the_order_of_eviction(sketch: Sketch) -> None:
    sketch.node("b", gpus=4)
    places = [("a", range(at, at + 1)) for at in range(4)]
    elastic(sketch, group(4, gpus=1), places=places, minimum=1)
    assert relocated(sketch, {"wide": 3}) == {"wide": [(1, "b"), (2, "b"), (3, "b")]}


@pytest.mark.parametrize(("free", "kept"), [(1, []), (2, [0, 1]), (3, [0, 1, 2]), (4, [0, 1, 2, 3])])
def test_a_whole_elastic_gang_is_relocated_with_as_many_tasks_as_fit_but_not_below_its_minimum(
    sketch: Sketch, free: int, kept: list[int]
) -> None:
    sketch.node("b", gpus=free)
    elastic(sketch, group(4, gpus=1), places=[("a", range(at, at + 1)) for at in range(4)], minimum=2)
    found = relocated(sketch, {"wide": 3})
    assert found == ({"wide": [(index, "b") for index in kept]} if kept else {})


def test_what_a_gang_gets_beside_the_places_that_it_keeps_is_a_reservation() -> None:
    """Task 0 of `pair` keeps its place on c. Task 1 moves to b, where two CPUs are free and two are released: not to d."""
    sketch = Sketch()
    sketch.node("a", gpus=0, cpu=4)
    for name, cpus in (("b", 4), ("c", 2), ("d", 3)):
        sketch.node(name, gpus=0, cpu=cpus)
    sketch.at(sketch.job("leaving", group(cpu=2)), ("b", []), phase="evicting")
    pair = sketch.at(sketch.job("pair", group(2, cpu=2)), ("c", []), ("a", []))
    other = sketch.at(sketch.job("other", group(cpu=2)), ("a", []))
    snapshot = current_snapshot(sketch.state)
    chains = CandidateIndex(snapshot).candidates("preempt", sketch.job("preemptor", priority=75)).chains
    steps = [chains[job.id][0] for job in (pair, other)]
    for step in steps:
        snapshot.cluster.evict(step.unit)
    snapshot.cluster.close(snapshot.cluster.nodes[0])
    found = find_relocations(snapshot.cluster, steps, StepBudget(1000))
    nodes = {name: [snapshot.cluster.nodes[task.node].name for task in place.tasks] for name, place in found.items()}
    assert nodes == {"pair": ["c", "b"], "other": ["b"]}


def test_a_surplus_task_has_one_new_place_although_a_larger_one_has_none() -> None:
    sketch = Sketch()
    for name, gpus in (("a", 8), ("b", 1), ("c", 1)):
        sketch.node(name, gpus=gpus)
    wide = sketch.at(sketch.job("wide", group(2, gpus=1), group(gpus=2)), ("a", [0]), ("a", [1]), ("a", [2, 3]))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    assert relocated(sketch, {"wide": 2}) == {"wide": [(1, "b")]}


@pytest.mark.parametrize(("kept", "found", "used"), [(False, True, 7), (False, False, 7), (True, True, 7), (True, False, 14)])
def test_the_steps_of_the_search_for_a_new_place_are_charged(
    monkeypatch: pytest.MonkeyPatch, kept: bool, found: bool, used: int
) -> None:
    """kept: one of two tasks keeps its place. Where the other one has none beside it, both are placed anew."""
    sketch = Sketch()
    for name in ("a", "b", "c"):
        sketch.node(name, gpus=2)
    pair = sketch.at(sketch.job("pair", group(2, gpus=1)), ("a", [0]), ("b" if kept else "a", [1]))
    cluster = current_snapshot(sketch.state).cluster
    unit = whole_job(pair)
    cluster.evict(unit)
    cluster.close(cluster.nodes[0])

    def place(_cluster: object, asked: Unit, part: StepBudget, **_: object) -> GangPlacement | None:
        part.charge(7)
        return GangPlacement(tuple(TaskPlacement(index, 2, 1) for index in asked.indices), future=True) if found else None

    monkeypatch.setattr(relocation, "place_unit", place)
    budget = StepBudget(100)
    assert (relocate(cluster, unit, budget) is not None) is found
    assert budget.used == used


def test_tasks_that_all_keep_their_places_need_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    unit = whole_job(sketch.at(sketch.job("pair", group(2, gpus=1)), ("a", [0]), ("a", [1])))
    cluster = current_snapshot(sketch.state).cluster
    cluster.evict(unit)
    monkeypatch.setattr(relocation, "place_unit", None)
    place = relocate(cluster, unit, StepBudget(100))
    assert place is not None
    assert [(task.index, task.node, task.devices) for task in place.tasks] == [(0, 0, 1), (1, 0, 2)]


@pytest.mark.parametrize(("count", "indices", "core"), [(1, (3,), False), (2, (2, 3), False), (3, (0, 1, 2, 3), True)])
def test_what_a_job_loses_is_one_unit_with_its_tasks_in_order(count: int, indices: tuple[int, ...], core: bool) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=8)
    wide = sketch.at(sketch.job("wide", group(4, gpus=1)), *(("a", [number]) for number in range(4)))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 2})
    preemptor = sketch.job("preemptor", group(gpus=8), priority=75)
    steps = CandidateIndex(current_snapshot(sketch.state)).candidates("preempt", preemptor).chains["wide"][:count]
    (unit,) = units_by_job(steps)
    assert (unit.job, unit.indices, unit.core) == (wide, indices, core)
