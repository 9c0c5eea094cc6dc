"""Weights of victim sets: integers that compare as the levels of the objective do, and the nodes that a set leaves in part."""

from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import pytest
from tests.builders import GIB, Sketch, group

from bailiff_core.model.state import Job
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import set_weights
from bailiff_core.victims.candidates import CandidateIndex
from bailiff_core.victims.fragmentation import Fragmentation, FragmentationBound, Uses, node_uses
from bailiff_core.victims.objective import CostScale, EvictionCost
from bailiff_core.victims.set_weights import SetWeights, tie_breakers


@dataclass(frozen=True)
class Step:
    """What the weight of a set depends on."""

    age_key: tuple[int, str, int] = (0, "", 0)
    weight: int = 0
    uses: Uses = ()


def scale_of(sketch: Sketch) -> CostScale:
    sketch.state.indices.snapshot = None
    return CandidateIndex(current_snapshot(sketch.state)).scale


def fragmentation_of(sketch: Sketch) -> Fragmentation:
    return Fragmentation(sketch.state, scale_of(sketch))


def step(sketch: Sketch, job: Job) -> Step:
    return Step(uses=node_uses(sketch.state, job, job.tasks))


# --- ties


def test_fewer_victims_are_lighter_and_of_as_many_the_younger_ones() -> None:
    young, middle, old = steps = [Step((age, "", 0)) for age in range(3)]
    breakers, scale = tie_breakers([middle, old, young, old])  # type: ignore[list-item]

    def weight(taken: Any) -> int:
        return sum(breakers[step] for step in taken)

    order = [(), (young,), (middle,), (old,), (young, middle), (young, old), (middle, old), (young, middle, old)]
    assert sorted(chain.from_iterable(combinations(steps, size) for size in range(4)), key=weight) == order
    assert len({weight(taken) for taken in order}) == len(order)
    assert max(weight(taken) for taken in order) < scale, "a tie weighs less than any difference of cost"


def test_ties_are_broken_among_few_candidates_only(monkeypatch: pytest.MonkeyPatch) -> None:
    fragmentation = fragmentation_of(Sketch())
    young, old, dear = Step((0, "", 0), weight=5), Step((1, "", 0), weight=5), Step((2, "", 0), weight=6)
    steps: Any = [dear, old, young]
    monkeypatch.setattr(set_weights, "MAX_TIE_BROKEN", 3)
    exact = SetWeights.of_steps(steps, fragmentation)
    assert exact.of([young]) < exact.of([old]) < exact.of([dear]) < exact.of([young, old])  # type: ignore[list-item]
    assert exact.per_node > fragmentation.per_node
    monkeypatch.setattr(set_weights, "MAX_TIE_BROKEN", 2)
    coarse = SetWeights.of_steps(steps, fragmentation)
    assert [coarse.of([each]) for each in steps] == [6, 5, 5]
    assert coarse.per_node == fragmentation.per_node


# --- fragmentation


@pytest.fixture
def shared_node() -> Sketch:
    """Node a: `one` and `two` have two GPUs each, the rest is free. Node b: `halves` shares a GPU with `other`."""
    sketch = Sketch()
    sketch.node("a", gpus=8)
    sketch.node("b", gpus=2)
    sketch.running("one", "a", [0, 1])
    sketch.running("two", "a", [2, 3])
    sketch.at(sketch.job("halves", group(2, gpu_share_milli=400)), ("b", [0]), ("b", [1]))
    sketch.at(sketch.job("other", group(gpu_share_bytes=10 * GIB)), ("b", [0]))
    sketch.at(sketch.job("cpus", group(cpu=4)), ("a", []))
    return sketch


def left_in_part(sketch: Sketch, *names: str) -> int:
    return fragmentation_of(sketch).count([step(sketch, sketch.state.jobs[name]).uses for name in names])


def test_a_node_is_left_in_part_while_other_work_keeps_some_of_its_devices(shared_node: Sketch) -> None:
    assert left_in_part(shared_node, "one") == 1
    assert left_in_part(shared_node, "one", "two") == 0, "emptied: work on CPUs alone does not count"
    assert left_in_part(shared_node, "halves") == 1
    assert left_in_part(shared_node, "halves", "one") == 2
    assert left_in_part(shared_node, "halves", "other", "one") == 1
    assert left_in_part(shared_node, "cpus") == 0, "it releases no device"


def test_what_is_reserved_stays_and_what_is_releasing_does_not(shared_node: Sketch) -> None:
    shared_node.running("leaves", "a", [4], phase="evicting")
    assert left_in_part(shared_node, "one", "two") == 0
    shared_node.running("held", "a", [5], phase="reserved")
    assert left_in_part(shared_node, "one", "two") == 1
    assert left_in_part(shared_node, "held") == 0, "a reservation releases nothing"
    assert left_in_part(shared_node, "one", "two", "held") == 0
    shared_node.at(shared_node.job("leaves-half", group(gpu_share_milli=500)), ("b", [1]), phase="evicting")
    assert left_in_part(shared_node, "halves", "other") == 0
    shared_node.at(shared_node.job("held-half", group(gpu_share_milli=100)), ("b", [1]), phase="reserved")
    assert left_in_part(shared_node, "halves", "other") == 1


def test_a_gang_releases_a_node_on_which_any_of_its_tasks_has_started(shared_node: Sketch) -> None:
    gang = shared_node.at(shared_node.job("gang", group(2, gpus=1)), ("a", [4]), ("a", [5]))
    for started in (0, 1):
        gang.tasks[started].state, gang.tasks[1 - started].state = "running", "reserved"
        (use,) = node_uses(shared_node.state, gang, gang.tasks)
        assert use == (0, 2, True)
    gang.tasks[0].state = gang.tasks[1].state = "reserved"
    assert node_uses(shared_node.state, gang, gang.tasks) == ((0, 2, False),)


def test_what_an_earlier_answer_evicts_of_a_job_is_not_in_use_any_more_and_what_it_places_is(shared_node: Sketch) -> None:
    gang = shared_node.at(shared_node.job("gang", group(3, gpus=1)), ("a", [4]), ("a", [5]), ("a", [6]))
    fragmentation = fragmentation_of(shared_node)
    assert fragmentation.in_use(0) == 7
    fragmentation.remove(Unit(gang, (2,), core=False))
    assert fragmentation.in_use(0) == 6
    fragmentation.remove(Unit(gang, (0, 1), core=True))
    assert fragmentation.in_use(0) == 4
    fragmentation.add(gang, GangPlacement((TaskPlacement(0, 0, 0b1), TaskPlacement(1, 0, 0b10)), future=True))
    assert fragmentation.in_use(0) == 6


def test_the_weight_of_a_set_is_that_of_its_steps_and_of_each_node_it_leaves_in_part(shared_node: Sketch) -> None:
    fragmentation = fragmentation_of(shared_node)
    one, two = (step(shared_node, shared_node.state.jobs[name]) for name in ("one", "two"))
    assert fragmentation.weight([one]) == fragmentation.per_node
    assert fragmentation.weight([Step(weight=7, uses=one.uses)]) == 7 + fragmentation.per_node
    assert fragmentation.weight([one, two]) == 0
    assert 0 < fragmentation.per_node < fragmentation.above
    assert fragmentation.above == scale_of(shared_node).weight(50, EvictionCost(reservations=1)), "the next higher level"


def test_tasks_without_devices_use_no_node(shared_node: Sketch) -> None:
    mixed = shared_node.at(shared_node.job("mixed", group(cpu=1), group(gpus=1)), ("b", []), ("a", [6]))
    assert node_uses(shared_node.state, mixed, mixed.tasks) == ((0, 1, True),)


def test_the_bound_never_falls_and_is_exact_once_all_is_decided(shared_node: Sketch) -> None:
    shared_node.running("held", "a", [5], phase="reserved")
    fragmentation = fragmentation_of(shared_node)
    names = ("one", "two", "halves", "other", "held", "cpus")
    steps = [step(shared_node, shared_node.state.jobs[name]) for name in names]
    for number in range(1 << len(steps)):
        bound, nodes = FragmentationBound(fragmentation, steps), [0]
        evicted = [bool(number >> at & 1) for at in range(len(steps))]
        for each, goes in zip(steps, evicted, strict=True):
            bound.change(each, evicted=goes, by=1)
            nodes.append(bound.nodes)
        assert nodes == sorted(nodes)
        assert bound.nodes == fragmentation.count([each.uses for each, goes in zip(steps, evicted, strict=True) if goes])
        for each, goes, before in zip(steps[::-1], evicted[::-1], nodes[-2::-1], strict=True):
            bound.change(each, evicted=goes, by=-1)
            assert bound.nodes == before


# --- the levels as digits


def test_no_sum_of_lower_levels_reaches_a_higher_one() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=4)
    sketch.running("low", "a", [0, 1], priority=25)
    sketch.at(sketch.job("high", group(2, gpus=1)), ("a", [2]), ("a", [3]))
    sketch.at(sketch.job("cpus", group(cpu=100)), ("a", []))
    scale, rules = scale_of(sketch), sketch.state.rules.preemption
    jobs, tasks = 3, 4
    gpu_milli = 4000 + 100_000 // rules.cpus_per_gpu
    lost = gpu_milli * (rules.max_counted_loss + rules.restart_cost) // 1_000_000
    fragmented = tasks * scale.of_level[0]  # at most one node for each task
    below = tasks + fragmented  # slow victims and nodes left in part
    assert scale.of_level[0] > tasks
    for more, cost in (
        (jobs, EvictionCost(reservations=1)),
        (tasks, EvictionCost(tasks=1)),
        (jobs, EvictionCost(jobs=1)),
        (lost, EvictionCost(lost_gpu_ms=1)),
    ):
        assert scale.weight(25, cost) > below
        below += more * scale.weight(25, cost)
    assert scale.weight(25, EvictionCost(), under_share_gpu_milli=1) > below
    below += scale.weight(25, EvictionCost(), under_share_gpu_milli=gpu_milli)
    assert scale.weight(25, EvictionCost(gpu_milli=1)) > below
    below += scale.weight(25, EvictionCost(gpu_milli=gpu_milli))
    assert scale.weight(50, EvictionCost(gpu_milli=1)) > below
    assert scale.weight(25, EvictionCost(), slow=1) == 1


def test_reservations_of_a_growing_job_weigh_less_than_a_task() -> None:
    """Each of its tasks that has not started is one; there are more of them than jobs."""
    sketch = Sketch()
    sketch.node("a", gpus=20)
    sketch.running("one", "a", [0])
    sketch.at(sketch.job("grows", group(19, gpus=1)), *(("a", [number]) for number in range(1, 20)))
    scale = scale_of(sketch)
    assert scale.weight(50, EvictionCost(reservations=18)) < scale.weight(50, EvictionCost(tasks=1))


def test_tasks_of_next_to_nothing_count_a_thousandth_of_a_gpu_each() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=0)
    for number in range(4):
        sketch.at(sketch.job(f"j{number}", group(cpu_milli=1), priority=25 + number // 3), ("a", []))
    scale = scale_of(sketch)
    assert scale.weight(25, EvictionCost(), under_share_gpu_milli=4) < scale.weight(25, EvictionCost(gpu_milli=1))
    assert scale.weight(25, EvictionCost(gpu_milli=3)) < scale.weight(26, EvictionCost(gpu_milli=1))
    lost = 4 * (sketch.state.rules.preemption.max_counted_loss + sketch.state.rules.preemption.restart_cost) // 1_000_000
    assert scale.weight(25, EvictionCost(lost_gpu_ms=lost)) < scale.weight(25, EvictionCost(), under_share_gpu_milli=1)
