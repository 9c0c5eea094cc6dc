"""The lowest price of a node that the shortlist leaves out, and the nodes that lack the fewest GPUs."""

from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.kits.builders import MINUTE, Sketch, group, requested_unit

from bailiff_core.model.snapshot_offer import SnapshotOffer
from bailiff_core.placement import StepBudget
from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch, price_bounds, select_victims
from bailiff_core.victims.candidates import CandidateIndex
from bailiff_core.victims.knapsack import Knapsack
from bailiff_core.victims.objective import EvictionCost
from bailiff_core.victims.price_bounds import Shortlist, _LevelColumns

# --- the lowest price of a node that the shortlist leaves out: never above that of the cheapest victims on it


MOST, SECOND = 3, 1_000_000


def pool(random: Random, *, sizes: tuple[int, ...]) -> Sketch:
    """Some nodes with running jobs of these sizes, some of which may not go, and some free GPUs."""
    sketch = Sketch()
    for number in range(random.randint(1, 4)):
        gpus = random.choice((2, 4, 8))
        sketch.node(f"n{number}", gpus=gpus)
        free = list(range(gpus))[random.choice((0, 0, 0, 1, 2)) :]
        while free:
            size = min(len(free), random.choice(sizes))
            sketch.running(
                f"j{len(sketch.state.jobs)}",
                f"n{number}",
                [free.pop() for _ in range(size)],
                priority=random.choice((10, 20, 30)),
                preemptible=random.random() < 0.8,
                age=MINUTE * random.choice((1, 2, 5, 90)),
            )
    return sketch


def check(sketch: Sketch, gpus: int, *, exact: bool) -> int:
    """Compares each node's bound with the knapsack's cheapest option on it. Returns the number of options compared."""
    preemptor = sketch.job("preemptor", group(gpus=gpus), priority=40)
    sketch.state.indices.snapshot = None
    snapshot = current_snapshot(sketch.state)
    index, need = CandidateIndex(snapshot), TaskRequirements.of(group(gpus=gpus))
    candidates = index.candidates("preempt", preemptor)
    groups = index.groups("preempt", preemptor)
    assert groups is not None
    priorities = sorted({entry[1] for entry in groups.evictable_classes} & snapshot.allocation_index.levels.keys())
    if not priorities:
        return 0
    shortlist = Shortlist(snapshot.allocation_index, snapshot.cluster, need, priorities)
    bounds = shortlist.price_bounds(MOST, sketch.state.now, sketch.state.rules.preemption)
    assert bounds is not None
    eligible = dict(shortlist.eligible_nodes)
    knapsack = Knapsack(snapshot.cluster, need, candidates, index.fragmentation, single=True)
    compared = 0
    for part in knapsack.parts:
        options = knapsack.options(part, StepBudget(20_000))
        assert options is not None
        chosen = {node: devices for node, devices in eligible.items() if node not in part.nodes}
        for gained, bound in enumerate(bounds, start=1):
            least = shortlist.lowest_price_outside(chosen, bound, index.scale)
            option = next((option for option in options if option.gain >= gained), None)
            if option is None:
                assert not exact or least is None, "no victims free so many GPUs"
                continue
            assert least is not None
            weight, steps, ages = option.key
            price = (weight, steps, ages[0][0])
            assert least <= price
            youngest = max(sketch.state.jobs[name].seq for name in part.names)
            assert not exact or least == (weight, steps, -youngest)
            compared += 1
    return compared


@pytest.mark.parametrize("block", range(12))
def test_for_jobs_of_one_gpu_the_bound_is_the_price(block: int) -> None:
    assert sum(check(pool(Random(seed), sizes=(1,)), 1, exact=True) for seed in range(block * 10, block * 10 + 10)) > 10


@pytest.mark.parametrize("gpus", [1, 2])
def test_no_bound_is_above_the_price(gpus: int) -> None:
    assert sum(check(pool(Random(seed), sizes=(1, 2, 3)), gpus, exact=False) for seed in range(60)) > 40


def test_no_bound_is_above_the_price_of_jobs_that_are_believed_less() -> None:
    compared = 0
    for seed in range(30):
        random = Random(seed)
        sketch = pool(random, sizes=(1, 2))
        for job in sketch.state.jobs.values():
            job.unkept = random.choice((0, 1, 6))
        compared += check(sketch, 1, exact=False)
    assert compared > 30


def test_no_bound_is_above_the_price_of_jobs_that_their_nodes_save() -> None:
    compared = 0
    for seed in range(30):
        random = Random(seed)
        sketch = pool(random, sizes=(1, 2))
        for node in sketch.state.nodes.values():
            node.snapshots = (SnapshotOffer(driver="criu"),)
        for job in sketch.state.jobs.values():
            job.demand = job.demand.model_copy(update={"checkpoint": random.choice(("job", "snapshot"))})
            job.restart_time = random.choice((None, SECOND, 70 * SECOND, 90 * MINUTE))
        compared += check(sketch, 1, exact=False)
    assert compared > 30


def test_a_job_that_only_shrinks_is_not_counted_as_stopped() -> None:
    sketch = Sketch(a=3, b=1)
    elastic = sketch.job("elastic", group(3, gpus=1), priority=10)
    elastic.demand = elastic.demand.model_copy(update={"min_tasks": 1})
    sketch.at(elastic, ("a", [0]), ("a", [1]), ("a", [2]))
    sketch.running("whole", "b", [0], priority=10)
    assert check(sketch, 1, exact=False) == 4


@pytest.mark.parametrize("reserved", [1, 2, 3])
def test_reserved_gpus_are_gained_without_a_loss(reserved: int) -> None:
    sketch = Sketch(a=4)
    sketch.running("waits", "a", range(reserved), priority=10, phase="reserved")
    sketch.running("low", "a", range(reserved, 4), priority=10)
    assert check(sketch, 1, exact=False) == MOST


@pytest.mark.parametrize("minutes", [1, 7, 50])
def test_where_a_price_has_too_many_digits_its_loss_is_rounded_down_and_no_lower_level_counts(
    monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    monkeypatch.setattr(price_bounds, "IMPOSSIBLE", 1 << 16)
    sketch = Sketch(a=2)
    sketch.running("low", "a", range(2), priority=10, age=minutes * MINUTE + 7_000)
    snapshot = current_snapshot(sketch.state)
    made = Shortlist(snapshot.allocation_index, snapshot.cluster, TaskRequirements.of(group(gpus=2)), [10])
    (bound,) = made.price_bounds(1, sketch.state.now, sketch.state.rules.preemption) or ()
    index = CandidateIndex(snapshot)
    least = made.lowest_price_outside({}, bound, index.scale)
    assert least is not None
    lost = index.candidates("preempt", sketch.job("preemptor", priority=75)).chains["low"][0].cost.lost_gpu_ms
    rounded = lost >> bound.shift << bound.shift
    assert 0 < rounded < lost
    assert least[0] == index.scale.weight(10, EvictionCost(gpu_milli=2000, lost_gpu_ms=rounded))


@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize("lost", [60_001, 65_532, 65_534, 65_536, 90_000, 250_000])
def test_a_loss_is_rounded_no_more_than_prices_below_that_of_an_impossible_gain_need(
    monkeypatch: pytest.MonkeyPatch, gpus: int, lost: int
) -> None:
    monkeypatch.setattr(price_bounds, "IMPOSSIBLE", 1 << 16)
    sketch = Sketch(a=gpus)
    sketch.running("low", "a", range(gpus), priority=10, age=1000 * lost - sketch.state.rules.preemption.restart_cost)
    snapshot = current_snapshot(sketch.state)
    made = Shortlist(snapshot.allocation_index, snapshot.cluster, TaskRequirements.of(group(gpus=gpus)), [10])
    (bound,) = made.price_bounds(1, sketch.state.now, sketch.state.rules.preemption) or ()
    most = gpus * lost

    def prices(shift: int) -> int:
        """Different prices of at most so many GPUs and so much work."""
        return (gpus + 1) * ((most >> shift) + 1)

    assert prices(bound.shift) < 1 << 16 <= prices(bound.shift - 1)
    assert bound.unit == (most >> bound.shift) + 1
    assert bound.prices.tolist() == [gpus * bound.unit + (most >> bound.shift)]


@pytest.mark.parametrize(
    ("age", "most", "restart", "lost"),
    [
        (0, 10_000, 999, 0),  # rounded down for each GPU
        (0, 10_000, 1000, 1),
        (2000, 10_000, 999, 2),
        (2001, 10_000, 999, 3),
        (2001, 2000, 999, 2),
        (1 << 60, 2000, 1000, 3),
        (-5000, 10_000, 1000, 1),  # work that has not started has no time to lose
    ],
)
def test_the_work_lost_per_gpu_is_the_time_since_its_start_up_to_a_limit_and_the_restart(
    age: int, most: int, restart: int, lost: int
) -> None:
    """In ms; the first GPU of two nodes, the second of which has one that started 1 ms later, too."""
    now = 1 << 61
    since = np.array([[now - age, now], [now - age, now - age + 1000]])
    counts = np.array([[0, 1, 2], [0, 1, 2]])
    level: Any = SimpleNamespace(gpus=np.array([1, 2]), least=counts, jobs_for=counts, tasks_for=counts, since=since)
    rules: Any = SimpleNamespace(max_counted_loss=most, restart_cost=restart)
    columns = _LevelColumns(level, np.array([1, 0]), now, rules)
    assert columns.gpus.tolist() == [2, 1]
    assert columns.first.tolist() == [3, 0]
    assert columns.lost.take(columns.first).tolist() == [0, 0]
    assert columns.lost.take(columns.first + 1).tolist() == [lost, lost]
    assert columns.lost.take(columns.first[0] + 2) == lost + (min(max(age - 1000, 0), most) + restart) // 1000
    assert columns.jobs.take(columns.first + 2).tolist() == columns.tasks.take(columns.first + 2).tolist() == [2, 2]


@pytest.mark.parametrize("encodable", [True, False])
def test_where_the_priorities_are_too_many_to_encode_all_candidates_are_searched(
    monkeypatch: pytest.MonkeyPatch, encodable: bool
) -> None:
    monkeypatch.setattr("bailiff_core.victims.shortlist.MIN_ACTIVE_JOBS", 0)
    if not encodable:
        monkeypatch.setattr(Shortlist, "price_bounds", lambda *_: None)
    sketch = Sketch()
    for name, age in (("a", 5 * MINUTE), ("b", MINUTE)):
        sketch.node(name, gpus=2)
        sketch.running(f"on-{name}", name, range(2), age=age)
    preemptor = sketch.job("preemptor", group(gpus=2), priority=75)
    answer = select_victims(
        SelectionBatch.on(current_snapshot(sketch.state)), requested_unit(preemptor), "preempt", StepBudget(99)
    )
    assert ([choice.job for choice in answer.victims], answer.explanation.proven) == (["on-b"], True)


def test_the_nodes_of_a_shortlist_are_in_the_order_of_the_pool() -> None:
    sketch = Sketch()
    for age, name in zip((3, 1, 2), "abc", strict=True):
        sketch.node(name, gpus=1)
        sketch.running(f"on-{name}", name, [0], age=age * MINUTE)
    snapshot = current_snapshot(sketch.state)
    made = Shortlist(snapshot.allocation_index, snapshot.cluster, TaskRequirements.of(group(gpus=1)), [50])
    bounds = made.price_bounds(1, sketch.state.now, sketch.state.rules.preemption) or []
    assert [[node.name for node in made.first(size, bounds)] for size in (1, 2, 3)] == [["b"], ["b", "c"], ["a", "b", "c"]]


# --- the nodes that lack the fewest GPUs for a task, with all jobs of some priorities evicted: what a refusal looks at


def nearest(sketch: Sketch, wanted: int, gpus: int = 4) -> list[str]:
    sketch.state.indices.snapshot = None
    snapshot = current_snapshot(sketch.state)
    index, need = snapshot.allocation_index, TaskRequirements.of(group(gpus=gpus))
    return [node.name for node in Shortlist(index, snapshot.cluster, need, [25] if 25 in index.levels else []).nearest(wanted)]


@pytest.fixture
def sketch() -> Sketch:
    """Five nodes; jobs of priority 25 may be evicted, those of 75 may not."""
    made = Sketch()
    made.node("lacks-3", gpus=4)
    made.running("kept-a", "lacks-3", [0, 1, 2], priority=75)
    made.node("lacks-1", gpus=4)
    made.running("kept-b", "lacks-1", [0], priority=75)
    made.running("evictable", "lacks-1", [1, 2], priority=25)
    made.node("lacks-all-twice", gpus=8)
    made.running("kept-c", "lacks-all-twice", range(8), priority=75)
    made.node("too-small", gpus=2)
    made.node("has-two-places", gpus=8)
    return made


def test_a_node_counts_once_for_each_place_on_it(sketch: Sketch) -> None:
    assert nearest(sketch, 1) == nearest(sketch, 2) == ["has-two-places"]
    assert nearest(sketch, 3) == ["has-two-places", "lacks-1"]
    assert nearest(sketch, 4) == ["has-two-places", "lacks-1", "lacks-3"]
    every_place = ["has-two-places", "lacks-1", "lacks-3", "lacks-all-twice"]
    assert nearest(sketch, 5) == nearest(sketch, 100) == every_place


def test_no_node_is_near_where_all_are_too_small(sketch: Sketch) -> None:
    assert nearest(sketch, 1, gpus=9) == []
    assert nearest(sketch, 1, gpus=8) == ["has-two-places"]
    assert nearest(Sketch(), 1) == []


def test_the_places_of_a_node_are_filled_one_after_the_other() -> None:
    sketch = Sketch(half=8)
    sketch.running("kept-a", "half", range(4), priority=75)
    sketch.node("almost", gpus=4)
    sketch.running("kept-b", "almost", [0], priority=75)
    assert nearest(sketch, 1) == ["half"]
    assert nearest(sketch, 2) == ["almost", "half"], "its second place lacks four GPUs, not none"


def test_bounds_of_many_priorities_are_rounded_until_they_are_too_many() -> None:
    """The GPUs of each priority and the work lost share 62 bits: the work lost is rounded first."""
    for priorities, rounded in ((2, False), (14, True), (30, None)):
        sketch = Sketch(a=priorities)
        for priority in range(priorities):
            sketch.running(f"j{priority}", "a", [priority], priority=priority + 1)
        snapshot = current_snapshot(sketch.state)
        index, need = snapshot.allocation_index, TaskRequirements.of(group(gpus=1))
        shortlist = Shortlist(index, snapshot.cluster, need, sorted(index.levels))
        bounds = shortlist.price_bounds(1, sketch.state.now, sketch.state.rules.preemption)
        assert (None if bounds is None else bounds[0].shift > 0) is rounded, priorities
