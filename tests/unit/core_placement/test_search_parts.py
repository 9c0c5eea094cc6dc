"""Parts of victim search one by one: exact boundaries, and what may be called proven."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.builders import MINUTE, Sketch, group, requested_unit
from tests.unit.core_placement.test_slot_combinations import FRAGMENTATION, option

from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import OpenRequest
from bailiff_core.model.units import Unit
from bailiff_core.placement import ClusterResources, StepBudget
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import batch, consolidation, relocation, select_batch, slot_combinations
from bailiff_core.victims.candidates import CandidateIndex, Candidates
from bailiff_core.victims.fit_oracle import PlacementOracle, cannot_fit, single_requirement
from bailiff_core.victims.relocation import find_relocations, relocate
from bailiff_core.victims.shortlist import _is_proven


def two_kinds(first: int = 1, second: int = 1, **rest: Any) -> Any:
    """A pool with one node of 2 GPUs and 2 CPUs, and a unit of tasks with GPUs and of tasks with CPUs."""
    sketch = Sketch()
    sketch.node("a", gpus=2, cpu=2)
    return sketch, requested_unit(sketch.job("asks", group(first, gpus=1), group(second, cpu=1), **rest))


# --- quick negative test


@pytest.mark.parametrize(
    ("gpu_tasks", "cpu_tasks", "fits"), [(2, 2, True), (3, 2, False), (2, 3, False), (3, 3, False), (1, 1, True)]
)
def test_a_unit_cannot_fit_if_one_kind_of_its_tasks_does_not(gpu_tasks: int, cpu_tasks: int, fits: bool) -> None:
    sketch, unit = two_kinds(gpu_tasks, cpu_tasks)
    assert cannot_fit(ClusterResources.of(sketch.state), unit) is not fits


def test_what_is_releasing_counts_as_free() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=1)
    sketch.running("leaves", "a", [0], phase="evicting")
    assert not cannot_fit(ClusterResources.of(sketch.state), requested_unit(sketch.job("asks", group(gpus=1))))


def test_only_equal_tasks_have_a_single_requirement() -> None:
    sketch, unit = two_kinds()
    assert single_requirement(unit) is None
    need, wanted = single_requirement(requested_unit(sketch.job("equal", group(2, gpus=1), group(1, gpus=1)))) or (None, 0)
    assert need is not None
    assert (need.gpus, wanted) == (1, 3)


# --- shortlist


class Knapsack:
    """Components with these options, as lists of gain and price. `None`: too many sets to try."""

    def __init__(self, *parts: list[tuple[int, int]] | None) -> None:
        self.parts = list(parts)

    def options(self, part: list[tuple[int, int]] | None, _budget: StepBudget) -> Any:
        return None if part is None else [option(gain, price, 5) for gain, price in part]


def proven(short: int, outside: list[int | None], *parts: list[tuple[int, int]] | None) -> bool:
    """outside: for each number of slots the lowest price on a node that is not chosen, with one step of a job of age 5."""
    shortlist: Any = SimpleNamespace(
        lowest_price_outside=lambda _chosen, bound, _scale: None if bound is None else (bound, 1, 5),
    )
    bounds: Any = outside
    scale: Any = None
    knapsack: Any = Knapsack(*parts)
    return _is_proven(shortlist, {}, knapsack, bounds, short, scale, StepBudget(10))


@pytest.mark.parametrize(
    ("short", "outside", "parts", "expected"),
    [
        (1, [10], [[(1, 10)]], True),  # equal: no node outside is cheaper
        (1, [10], [[(1, 11)]], False),
        (1, [None], [[(1, 11)]], True),  # no node outside can gain a slot
        (2, [10], [[(1, 10)]], False),  # the second slot may come from outside
        (2, [10], [[(1, 10)], [(1, 9)]], True),
        (2, [10, 15], [[(1, 10), (2, 15)], [(1, 9), (2, 15)]], True),
        (2, [10, 15], [[(1, 10), (2, 16)], [(1, 9), (2, 15)]], False),
        (2, [10, 15], [[(1, 10)], [(1, 9)]], False),  # none of them gains two
        (2, [None, 15], [[(1, 10), (2, 15)], [(1, 9), (2, 15)]], True),
        (2, [None, 15], [[(1, 10), (2, 16)], [(1, 9), (2, 15)]], False),
        (1, [10], [None, [(1, 10)]], True),  # one that is not known counts as none
        (1, [10], [None], False),
        (1, [10], [[(2, 10)]], True),  # two slots at the price of one
    ],
)
def test_a_shortlist_is_proven_if_nothing_outside_costs_less(
    short: int, outside: list[int | None], parts: list[Any], expected: bool
) -> None:
    assert proven(short, outside, *parts) is expected


# --- consolidation: sets worth trying


class Needs:
    """Stands for the knapsack of one kind of tasks: lacks `short` slots, and finds this cheapest set."""

    def __init__(self, short: int, cheapest: list[str] | None, *, sure: bool = True, options: list[list[str]] | None = None):
        self.short, self.parts = short, [None, options or []]  # of the first component too many sets would have to be tried
        self.allowed = 0
        self._cheapest, self._sure = cheapest, sure

    def cheapest(self, _short: int, part: StepBudget) -> tuple[Any, bool]:
        self.allowed = part.remaining
        part.spend()
        return None if self._cheapest is None else steps(self._cheapest), self._sure

    def options(self, part: list[list[str]] | None, _budget: StepBudget) -> Any:
        return None if part is None else [SimpleNamespace(gain=len(names), key=len(names), steps=steps(names)) for names in part]


def steps(names: list[str]) -> list[Any]:
    return [SimpleNamespace(job=SimpleNamespace(id=name)) for name in names]


def promising(monkeypatch: pytest.MonkeyPatch, first: Needs, second: Needs, max_jobs: int = 5) -> tuple[Any, bool, int]:
    """The names of the jobs of each set, whether the first is certainly the cheapest, and the steps used."""
    _, unit = two_kinds()
    needs = iter((first, second))
    monkeypatch.setattr(consolidation, "knapsack_for", lambda *_: (each := next(needs), each.short))
    weight = SimpleNamespace(weight=len)
    problem: Any = SimpleNamespace(
        unit=unit,
        budget=StepBudget(100),
        index=SimpleNamespace(fragmentation=weight),
        knapsacks={},
        snapshot=SimpleNamespace(cluster=None),
    )
    sets, certain = consolidation._promising_sets(problem, Candidates(), max_jobs)
    names = None if sets is None else [[step.job.id for step in chosen] for chosen in sets]
    return names, certain, problem.budget.used


ENOUGH = Needs(0, None)


@pytest.mark.parametrize(
    ("first", "second", "max_jobs", "expected"),
    [
        (Needs(1, ["a"]), ENOUGH, 5, ([["a"]], True, 1)),
        (ENOUGH, Needs(1, ["a"]), 5, ([["a"]], True, 1)),
        (Needs(1, ["a"]), Needs(1, ["b", "c"]), 5, ([["b", "c"]], True, 2)),  # the more expensive one is needed anyway
        (Needs(1, ["a", "b"]), Needs(1, ["c", "d"]), 5, ([["a", "b"]], True, 2)),
        (Needs(1, None), Needs(1, ["a"]), 5, (None, True, 1)),  # no set at all
        (Needs(1, None, sure=False), Needs(1, ["a"]), 5, ([["a"]], False, 2)),
        (Needs(1, ["a"]), Needs(1, None, sure=False), 5, ([["a"]], False, 2)),
        (Needs(1, None, sure=False), ENOUGH, 5, ([], False, 1)),
        (Needs(1, ["a", "b"]), ENOUGH, 2, ([["a", "b"]], True, 1)),
        (Needs(1, ["a", "b"]), ENOUGH, 1, ([], False, 1)),  # more jobs than may move
        (Needs(1, ["a", "b"], options=[["c"], ["d", "e"]]), ENOUGH, 1, ([["c"]], False, 1)),
        (Needs(2, ["a", "b"], options=[["c"], ["d", "e"]]), ENOUGH, 2, ([["a", "b"], ["d", "e"]], True, 1)),  # of two slots
        (ENOUGH, ENOUGH, 5, ([], False, 0)),
    ],
)
def test_sets_worth_trying(monkeypatch: pytest.MonkeyPatch, first: Needs, second: Needs, max_jobs: int, expected: Any) -> None:
    assert promising(monkeypatch, first, second, max_jobs) == expected


def test_each_kind_of_tasks_may_use_half_of_the_steps_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Needs(1, ["a"]), Needs(1, ["b"])
    promising(monkeypatch, first, second)
    assert (first.allowed, second.allowed) == (50, 49)


def test_sets_are_tried_in_the_order_of_their_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Needs(1, ["a"], options=[["d", "e", "f"], ["b"], ["c", "d"]])
    assert promising(monkeypatch, first, ENOUGH)[0] == [["a"], ["b"], ["c", "d"], ["d", "e", "f"]]


# --- new places


def evicted(sketch: Sketch, job: Any, count: int) -> tuple[ClusterResources, list[Any]]:
    """The cluster without the first `count` steps of the job, and those steps."""
    preemptor = sketch.job("preemptor", group(gpus=8), priority=75)
    snapshot = current_snapshot(sketch.state)
    found = CandidateIndex(snapshot).candidates("preempt", preemptor).chains[job.id][:count]
    for step in found:
        snapshot.cluster.evict(step.unit)
    snapshot.cluster.close(snapshot.cluster.nodes[0])
    return snapshot.cluster, found


def wide(sketch: Sketch, minimum: int) -> Any:
    """Four tasks of one GPU each on node a."""
    job = sketch.at(sketch.job("wide", group(4, gpus=1)), *(("a", [number]) for number in range(4)))
    job.demand = job.demand.model_copy(update={"min_tasks": minimum})
    return job


@pytest.mark.parametrize(
    ("minimum", "evicts", "free", "moved"),
    [
        (1, 3, 1, [1]),  # of surplus tasks the one that was evicted last: it is needed most
        (1, 3, 2, [1, 2]),
        (1, 3, 3, [1, 2, 3]),
        (2, 3, 1, []),  # the whole gang, which needs two
        (2, 3, 2, [0, 1]),
        (2, 3, 3, [0, 1, 2]),  # and as many more as fit
        (2, 3, 4, [0, 1, 2, 3]),
        (4, 1, 3, []),
        (4, 1, 4, [0, 1, 2, 3]),
    ],
)
def test_how_much_of_a_job_moves(minimum: int, evicts: int, free: int, moved: list[int]) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=8)
    sketch.node("b", gpus=free)
    cluster, steps_of_job = evicted(sketch, wide(sketch, minimum), evicts)
    found = find_relocations(cluster, steps_of_job, StepBudget(1000))
    assert [task.index for place in found.values() for task in place.tasks] == moved
    assert cluster.nodes[1].future.devices.bit_count() == free - len(moved), "their places are taken"


def test_of_surplus_tasks_one_may_move_though_the_one_evicted_later_may_not() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=8)
    sketch.node("b", gpus=1)
    job = sketch.job("wide", group(gpus=1), group(gpus=2), group(gpus=1))
    sketch.at(job, ("a", [0]), ("a", [1, 2]), ("a", [3]))
    job.demand = job.demand.model_copy(update={"min_tasks": 1})
    cluster, surplus = evicted(sketch, job, 2)
    assert [step.unit.indices for step in surplus] == [(2,), (1,)]
    found = find_relocations(cluster, surplus, StepBudget(1000))
    assert [task.index for place in found.values() for task in place.tasks] == [2]


@pytest.mark.parametrize(("minimum", "evicts", "sizes"), [(1, 4, [4, 2, 1]), (2, 3, [4, 3, 2]), (3, 2, [4, 3]), (4, 1, [4])])
def test_a_gang_without_a_place_is_tried_with_fewer_tasks_down_to_its_minimum(
    minimum: int, evicts: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=8)
    cluster, steps_of_job = evicted(sketch, wide(sketch, minimum), evicts)
    tried: list[int] = []

    def nowhere(_cluster: object, unit: Unit, _budget: object) -> None:
        tried.append(len(unit.indices))

    monkeypatch.setattr(relocation, "relocate", nowhere)
    assert find_relocations(cluster, steps_of_job, StepBudget(1000)) == {}
    assert tried == sizes


def test_a_gang_keeps_the_places_that_are_free() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=1)
    sketch.node("b", gpus=2)
    sketch.node("c", gpus=1)
    job = sketch.at(sketch.job("gang", group(2, gpus=1)), ("a", [0]), ("b", [1]))
    cluster, found = evicted(sketch, job, 1)
    place = relocate(cluster, found[0].unit, StepBudget(100))
    assert place is not None
    assert [(task.node, task.devices) for task in place.tasks] == [(1, 0b01), (1, 0b10)]
    assert place.future


def test_a_new_place_is_backed_by_what_is_being_released_and_leaves_what_is_free_now() -> None:
    """On b, two CPUs are free and two are released: both jobs move there, and none to c, which has more free CPUs."""
    sketch = Sketch()
    sketch.node("a", gpus=0, cpu=4)
    sketch.node("b", gpus=0, cpu=4)
    sketch.node("c", gpus=0, cpu=3)
    sketch.at(sketch.job("leaving", group(cpu=2)), ("b", []), phase="evicting")
    moving = [sketch.at(sketch.job(name, group(cpu=2)), ("a", [])) for name in ("one", "two")]
    snapshot = current_snapshot(sketch.state)
    chains = CandidateIndex(snapshot).candidates("preempt", sketch.job("preemptor", priority=75)).chains
    moved = [chains[job.id][0] for job in moving]
    for step in moved:
        snapshot.cluster.evict(step.unit)
    snapshot.cluster.close(snapshot.cluster.nodes[0])
    found = find_relocations(snapshot.cluster, moved, StepBudget(1000))
    assert {name: [task.node for task in place.tasks] for name, place in found.items()} == {"one": [1], "two": [1]}


# --- slots at equal cost


def test_tied_slots_that_cannot_be_gained_are_none() -> None:
    one = option(1, 0, 1)
    assert slot_combinations._lightest_of_tied([[(0, None), (1, one)]], 2, FRAGMENTATION) is None
    assert slot_combinations._lightest_of_tied([[(0, None), (1, one)]], 1, FRAGMENTATION) == [one]


@pytest.mark.parametrize(
    ("weights", "short", "least"), [([30, 20, 10], 1, 10), ([30, 20, 10], 2, 30), ([30, 20, 10], 3, 60), ([0, 40, 5], 2, 5)]
)
def test_of_tied_slots_the_lightest_are_gained(weights: list[int], short: int, least: int) -> None:
    choices = [[(0, None), (1, option(1, weight, age))] for age, weight in enumerate(weights)]
    found = slot_combinations._lightest_of_tied(choices, short, FRAGMENTATION)
    assert found is not None
    assert (len(found), sum(each.key[0] for each in found)) == (short, least)


# --- batches


@pytest.mark.parametrize(
    ("waited", "actions"),
    [
        (MINUTE - 1, ["preempt"]),
        (MINUTE, ["consolidate", "reclaim", "preempt"]),
        (MINUTE + 1, ["consolidate", "reclaim", "preempt"]),
    ],
)
def test_before_its_delay_is_over_a_job_may_only_preempt(
    monkeypatch: pytest.MonkeyPatch, waited: int, actions: list[str]
) -> None:
    """Preempt finds no victims then but backfilled ones."""
    sketch = Sketch()
    sketch.node("a", gpus=1)
    job = sketch.job("asks", group(gpus=1))
    tried: list[str] = []
    monkeypatch.setattr(batch, "may_preempt_from", lambda state, _job: state.now - waited + MINUTE)

    def refuses(_batch: Any, unit: Any, action: Any, _budget: Any, *, request: int) -> Proposal:
        tried.append(action)
        return Proposal(request=request, job=unit.job.id, action=action, refused="impossible")

    monkeypatch.setattr(batch, "select_victims", refuses)
    select_batch(sketch.state, [OpenRequest(1, job.id)], 100)
    assert tried == actions


# --- whether it is certain that a unit does not fit


@pytest.mark.parametrize(("left", "certain"), [(0, False), (1, True)])
def test_a_placement_beyond_a_limit_is_certain_unless_its_search_has_spent_all_its_steps(left: int, certain: bool) -> None:
    def place(budget: StepBudget) -> str:
        budget.charge(budget.remaining - left)
        return "project a would use 2 of its limit of 1 GPUs"

    sketch = Sketch()
    sketch.node("a")
    unit = requested_unit(sketch.job("asks", group(gpus=1)))
    constraints: Any = SimpleNamespace(place=place)
    oracle = PlacementOracle(ClusterResources.of(sketch.state), unit, StepBudget(1000), constraints)
    assert (oracle.fits(), oracle.exact) == (False, certain)
