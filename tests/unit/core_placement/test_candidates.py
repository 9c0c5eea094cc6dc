"""Candidates of a batch: counts by class, what earlier answers took, and victims that are slow to leave."""

from typing import Any

import pytest
from tests.builders import Sketch, group
from tests.unit.core_protections.kit import rules

from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims.candidates import MAX_EXAMPLES, SHORTLIST_COST, CandidateGroups, CandidateIndex
from bailiff_core.victims.objective import EvictionCost

SECOND = 1_000_000


def pool(jobs: int) -> tuple[Sketch, list[Any]]:
    """So many jobs of one GPU, all of one class."""
    sketch = Sketch()
    sketch.node("a", gpus=jobs)
    return sketch, [sketch.running(f"j{number}", "a", [number]) for number in range(jobs)]


def index(sketch: Sketch, preemptors: int = 1) -> CandidateIndex:
    sketch.state.indices.snapshot = None
    return CandidateIndex(current_snapshot(sketch.state), preemptors)


def groups(made: CandidateIndex, preemptor: Any) -> CandidateGroups:
    found = made.groups("preempt", preemptor)
    assert found is not None
    return found


# --- counts by class


@pytest.mark.parametrize("priority", [75, 50])
def test_jobs_that_earlier_answers_evict_count_as_evicting_and_not_again_in_their_class(priority: int) -> None:
    """Of eight jobs, the two oldest are evicted. For a preemptor of their priority the class is protected."""
    sketch, jobs = pool(8)
    preemptor = sketch.job("preemptor", group(gpus=1), priority=priority)
    made = index(sketch)
    for job in jobs[:2]:
        made.mark_evicted(job, 0)
    found = groups(made, preemptor)
    assert found.candidates == (6 if priority == 75 else 0)
    assert found.excluded == {"already-evicting": 2} | ({} if priority == 75 else {"lower-priority-only": 6})
    examples = [name for _, name in found.examples.get("lower-priority-only", [])]
    assert examples == ([] if priority == 75 else [f"j{number}" for number in range(2, 2 + MAX_EXAMPLES)])


def test_a_running_job_that_grows_is_no_candidate_for_itself() -> None:
    sketch, jobs = pool(3)
    assert groups(index(sketch), jobs[0]).excluded == {"lower-priority-only": 2}


@pytest.mark.parametrize(("units", "candidates"), [(1, 2), (2, 2), (3, 2), (4, 1), (0, 1)])
def test_a_job_of_which_an_earlier_answer_evicts_a_part_is_still_a_candidate(units: int, candidates: int) -> None:
    """It counts as evicting as well. The other job is untouched."""
    sketch, job = elastic()
    sketch.node("b", gpus=1)
    sketch.running("other", "b", [0])
    made = index(sketch)
    made.mark_evicted(job, units)
    found = groups(made, sketch.job("preemptor", group(gpus=1), priority=75))
    assert (found.candidates, found.excluded) == (candidates, {"already-evicting": 1})


@pytest.mark.parametrize(("protections", "counted"), [({}, True), ({"min_runtime": {"preempt": "5m"}}, False)])
def test_classes_are_counted_unless_a_rule_distinguishes_their_jobs(protections: Any, counted: bool) -> None:
    sketch, _ = pool(2)
    sketch.state.policy = rules(protections=protections)
    preemptor = sketch.job("preemptor", group(gpus=1), priority=75)
    assert (index(sketch).groups("preempt", preemptor) is not None) is counted


# --- shortlist, or all jobs


@pytest.mark.parametrize(("active", "prefers"), [(2 * SHORTLIST_COST, True), (2 * SHORTLIST_COST - 1, False)])
def test_a_shortlist_is_preferred_while_those_so_far_cost_no_more_than_a_scan_of_all_jobs(active: int, prefers: bool) -> None:
    sketch, jobs = pool(active)
    preemptor = sketch.job("preemptor", group(gpus=1), priority=75)
    made = index(sketch)
    made.candidates_among("preempt", preemptor, [job.id for job in jobs[:2]], groups(made, preemptor), {})
    assert made.prefers_shortlist("preempt", preemptor, {}) is prefers


def test_once_all_jobs_were_scanned_no_shortlist_is_preferred() -> None:
    sketch, _ = pool(2)
    preemptor = sketch.job("preemptor", group(gpus=1), priority=75)
    made = index(sketch)
    assert made.prefers_shortlist("preempt", preemptor, {})
    made.candidates("preempt", preemptor)
    assert not made.prefers_shortlist("preempt", preemptor, {})


# --- what earlier answers took


def elastic() -> tuple[Sketch, Any]:
    """A job of four tasks that needs one."""
    sketch = Sketch()
    sketch.node("a", gpus=4)
    job = sketch.at(sketch.job("wide", group(4, gpus=1)), *(("a", [number]) for number in range(4)))
    job.demand = job.demand.model_copy(update={"min_tasks": 1})
    return sketch, job


@pytest.mark.parametrize(
    ("units", "evicting", "left"),
    [(1, [(3,)], [(2,), (1,), (0,)]), (3, [(3,), (2,), (1,)], [(0,)]), (0, [(3,), (2,), (1,), (0,)], [])],
)
def test_what_an_answer_evicts_is_evicting_for_preemptors_whose_candidates_are_known(
    units: int, evicting: list[tuple[int, ...]], left: list[tuple[int, ...]]
) -> None:
    sketch, job = elastic()
    preemptor = sketch.job("preemptor", group(gpus=1), priority=75)
    made = index(sketch)
    found = made.candidates("preempt", preemptor)
    made.mark_evicted(job, units)
    assert [unit.indices for unit in found.excluded["already-evicting"]] == evicting
    assert [step.unit.indices for step in found.chains.get("wide", ())] == left


@pytest.mark.parametrize(("action", "left"), [("preempt", [(2,), (1,), (0,)]), ("consolidate", [])])
def test_of_a_job_that_an_earlier_answer_evicts_in_part_the_rest_is_not_moved(action: Any, left: list[tuple[int, ...]]) -> None:
    sketch, job = elastic()
    made = index(sketch)
    made.mark_evicted(job, 1)
    found = made.candidates(action, sketch.job("preemptor", group(gpus=1), priority=75))
    assert [unit.indices for unit in found.excluded["already-evicting"]] == [(3,)]
    assert [step.unit.indices for step in found.chains.get("wide", ())] == left


def test_equal_preemptors_share_their_candidates() -> None:
    sketch, _ = elastic()
    made = index(sketch)
    first, second, other = (
        sketch.job(name, group(gpus=1), priority=priority) for name, priority in (("x", 75), ("y", 75), ("z", 74))
    )
    found = made.candidates("preempt", first)
    assert made.candidates("preempt", second) is found
    assert made.candidates("preempt", other) is not found
    assert made.candidates("reclaim", second) is not found


def test_what_an_answer_evicts_may_be_protected_from_other_preemptors() -> None:
    sketch, job = elastic()
    made = index(sketch)
    high, equal = (sketch.job(name, group(gpus=1), priority=priority) for name, priority in (("high", 75), ("equal", 50)))
    protected = made.candidates("preempt", equal)
    found = made.candidates("preempt", high)
    made.mark_evicted(job, 1)
    assert (list(protected.excluded), protected.chains) == (["lower-priority-only"], {})
    assert [step.unit.indices for step in found.chains["wide"]] == [(2,), (1,), (0,)]


# --- victims that are slow to leave


@pytest.mark.parametrize(
    ("seconds", "phase", "class_name", "slow"),
    [
        (31, "running", "serving", True),
        (30, "running", "serving", False),  # as much as the preemptor's class grants
        (31, "reserved", "serving", False),  # it has not started, so it leaves at once
        (31, "running", "train", False),  # the preemptor does not ask for short graces
        (31, "running", "gone", False),  # a class that the policy does not define any more
    ],
)
def test_a_victim_is_slow_if_its_grace_exceeds_the_short_one(seconds: int, phase: Any, class_name: str, slow: bool) -> None:
    sketch = Sketch()
    classes = [
        {"name": "train", "value": 50, "preemptible": True, "global_default": True},
        {"name": "serving", "value": 75, "preemptible": False, "immediate": True, "immediate_grace": "30s"},
    ]
    sketch.state.policy = rules(priority_classes=classes)
    sketch.node("a", gpus=1)
    victim = sketch.running("victim", "a", [0], phase=phase)
    victim.demand = victim.demand.model_copy(update={"grace": seconds * SECOND})
    preemptor = sketch.job("preemptor", group(gpus=1), priority=75)
    preemptor.class_name = class_name
    made = index(sketch)
    step = made.candidates("preempt", preemptor).chains["victim"][0]
    assert step.weight - made.scale.weight(50, step.cost) == int(slow)


def test_the_cost_of_more_units_of_a_job_is_what_they_add() -> None:
    all_of_them = EvictionCost(gpu_milli=5000, lost_gpu_ms=70, jobs=1, tasks=5, reservations=4, cpu_milli=900)
    first = EvictionCost(gpu_milli=2000, lost_gpu_ms=30, tasks=2, reservations=1, cpu_milli=400)
    assert all_of_them.minus(first) == EvictionCost(3000, 40, 1, 3, 3, 500)


def test_a_slow_victim_counts_once_however_many_of_its_units_leave() -> None:
    sketch, job = elastic()
    classes = [
        {"name": "train", "value": 50, "preemptible": True, "global_default": True},
        {"name": "serving", "value": 75, "preemptible": False, "immediate": True, "immediate_grace": "30s"},
    ]
    sketch.state.policy = rules(priority_classes=classes)
    job.demand = job.demand.model_copy(update={"grace": 31 * SECOND})
    preemptor = sketch.job("preemptor", group(gpus=1), priority=75)
    preemptor.class_name = "serving"
    made = index(sketch)
    steps = made.candidates("preempt", preemptor).chains["wide"]
    assert [step.weight - made.scale.weight(50, step.cost) for step in steps] == [1, 0, 0, 0]


def test_each_unit_of_a_job_is_evicted_after_the_one_before_it() -> None:
    sketch, _ = elastic()
    steps = index(sketch).candidates("preempt", sketch.job("preemptor", group(gpus=1), priority=75)).chains["wide"]
    assert [step.before for step in steps] == [None, *steps[:-1]]
