"""Promises and displacements: whose resources a preemptor's project is releasing, and who displaced whom."""

from typing import Any

import pytest
from tests.unit.core_protections.kit import Bench, core

from bailiff_core.model.state import Eviction, Job, Preemption
from bailiff_core.model.units import Unit
from bailiff_core.protections import Shields
from bailiff_core.protections import no_counter_reclaim as counter

DEPARTMENTS = [
    {"name": "lab", "quota": {"gpus": 8}},
    {"name": "vision", "parent": "lab", "quota": {"gpus": 2}},
    {"name": "web", "quota": {"gpus": 4}},
]
POOL = {"scope": "pool", "quota_shields": False}


def shields(bench: Bench, action: Any) -> Shields:
    bench.state.indices.snapshot = None
    return Shields(bench.state, action, bench.preemptor)


# --- reservations


def promised(bench: Bench, tasks: int = 1) -> Job:
    """A reservation of web, for which a job of vision is leaving."""
    gang = bench.running("gang", project="web", phase="reserved", tasks=tasks, min_tasks=1)
    victim = bench.running("victim", project="vision", phase="evicting")
    victim.eviction = Eviction(1, "preemption", 0, preemption=1)
    bench.preemptor.project = "vision"
    gang.preemption, bench.state.preemptions[1] = 1, Preemption(1, "gang", ["victim"])
    return gang


def test_only_the_tasks_of_a_promise_that_are_reserved_are_protected() -> None:
    bench = Bench(projects=DEPARTMENTS, preemption=POOL)
    gang = promised(bench, tasks=3)
    gang.phase, gang.tasks[0].state = "running", "running"
    found = shields(bench, "reclaim")
    assert found.excluded_by(Unit(gang, (1,), core=False)) == "no-reclaim-of-reserved"
    assert found.excluded_by(Unit(gang, (0, 1), core=True)) == "no-reclaim-of-reserved"
    assert found.excluded_by(Unit(gang, (0,), core=True)) is None


def test_a_promise_is_not_protected_for_what_leaves_for_another_one() -> None:
    bench = Bench(projects=DEPARTMENTS, preemption=POOL)
    gang = promised(bench)
    victim = bench.state.jobs["victim"]
    assert victim.eviction is not None
    victim.eviction.preemption = 2
    assert shields(bench, "reclaim").excluded_by(core(gang)) is None


def test_a_victim_of_which_one_task_gets_no_other_place_is_released_in_part() -> None:
    """Its relocated task stays in use; the other one is what the preemptor's project gives."""
    bench = Bench(projects=DEPARTMENTS, preemption=POOL)
    gang = bench.running("gang", project="web", phase="reserved")
    victim = bench.running("victim", project="vision", phase="evicting", tasks=2)
    victim.eviction = Eviction(1, "preemption", 0, preemption=1)
    victim.reservation = [victim.tasks[0]]
    bench.preemptor.project = "vision"
    gang.preemption, bench.state.preemptions[1] = 1, Preemption(1, "gang", ["victim"])
    assert shields(bench, "reclaim").excluded_by(core(gang)) == "no-reclaim-of-reserved"
    victim.reservation = list(victim.tasks)
    assert shields(bench, "reclaim").excluded_by(core(gang)) is None


# --- no counter-reclaim


def test_jobs_that_displaced_each_other_protect_both_from_a_third() -> None:
    bench = Bench()
    for name in "xy":
        bench.running(name)
    bench.state.displaced_by = {"preemptor": {"x": 10}, "x": {"y": 11}, "y": {"x": 12}}
    assert list(counter._displacing(bench.state, "preemptor", -1)) == ["x", "y"]


@pytest.mark.parametrize(("since", "found"), [(9, ["x"]), (10, []), (11, [])])
def test_only_what_was_displaced_after_the_entitlements_changed_is_recent(since: int, found: list[str]) -> None:
    bench = Bench()
    bench.running("x")
    bench.state.displaced_by = {"preemptor": {"x": 10}}
    assert list(counter._displacing(bench.state, "preemptor", since)) == found


@pytest.mark.parametrize(("starts", "covered"), [((1, 4), False), ((1, 2), True)])
def test_a_gang_counts_from_the_start_of_its_last_task(starts: tuple[int, int], covered: bool) -> None:
    """Ours is entitled to four GPUs: of six, those count that started no later than the gang's last task."""
    bench = Bench(projects=[{"name": "ours", "quota": {"gpus": 4}}, {"name": "theirs", "quota": {"gpus": 4}}])
    gang = bench.running("gang", project="theirs", tasks=2)
    for task, start in zip(gang.tasks, starts, strict=True):
        task.start_seq = start
    bench.running("later", project="theirs", gpus=4).tasks[0].start_seq = 3
    bench.waiting("asks", project="ours", gpus=4)
    bench.state.seq = 9
    assert counter._Shares(bench.state).cover(core(gang)) is covered


def test_a_task_without_a_place_or_a_start_started_last() -> None:
    bench = Bench()
    job = bench.running("x", tasks=2)
    bench.state.seq = 9
    assert [counter._Shares(bench.state)._start(job, index) for index in (0, 5)] == [9, 9]
    job.tasks[0].start_seq = 3
    assert counter._Shares(bench.state)._start(job, 0) == 3


@pytest.mark.parametrize(("runs", "lost", "protects"), [
    (False, "preemptor", True), (False, "preemptor+", False), (True, "preemptor", False), (True, "preemptor+", True),
])  # fmt: skip
def test_a_job_that_runs_asks_for_surplus_and_reclaims_none_from_those_that_took_its_surplus(
    runs: bool, lost: str, protects: bool
) -> None:
    bench = Bench(projects=DEPARTMENTS)
    other = bench.running("x", project="web")
    if runs:
        bench.sketch.at(bench.preemptor, ("a", [7]))
    bench.state.displaced_by = {lost: {"x": 1000}}
    assert counter.may_be_shielded_from(bench.state, "reclaim", bench.preemptor) is protects
    found = counter.shield(bench.state, "reclaim", bench.preemptor)
    assert (found is not None and found(core(other))) is protects
