"""When the next protection ends, and what protections make of jobs that start, leave, or were backfilled."""

from typing import Any

import pytest
from tests.unit.core_protections.kit import HOUR, MINUTE, Bench, core, surplus

from bailiff_core.model.state import Eviction, Job
from bailiff_core.model.units import Unit
from bailiff_core.protections import Shields, VictimSetTests, next_protection_end
from bailiff_core.protections.already_evicting import is_evicting
from bailiff_core.protections.disruption_budget import BudgetUsage

DEPARTMENTS = [
    {"name": "lab", "quota": {"gpus": 8}},
    {"name": "vision", "parent": "lab", "quota": {"gpus": 2}},
    {"name": "speech", "parent": "lab", "quota": {"gpus": 2}, "min_runtime": {"preempt": "0s"}},
    {"name": "web", "quota": {"gpus": 4}},
]
POOL = {"scope": "pool", "quota_shields": False}


def shields(bench: Bench, action: Any = "preempt", preemptor: Job | None = None) -> Shields:
    bench.state.indices.snapshot = None
    return Shields(bench.state, action, preemptor or bench.preemptor)


def end(bench: Bench, *actions: Any) -> int | None:
    """Minutes from now until the next protection ends."""
    bench.state.indices.snapshot = None
    found = next_protection_end(bench.state, actions or ("preempt",), bench.preemptor)
    return None if found is None else (found - bench.state.now) // MINUTE


# --- the next end


def test_the_first_of_several_ends_counts_in_whichever_order_the_jobs_are_looked_at() -> None:
    bench = Bench(protections={"min_runtime": {"preempt": "10m"}})
    for name, age in (("x", 4), ("y", 2), ("z", 7)):
        bench.running(name, age=age * MINUTE)
    bench.running("unprotected")
    assert end(bench) == 3


def test_a_job_without_any_protection_is_passed_over() -> None:
    bench = Bench(protections={"eviction_cap": {"evictions": 1, "window": "1h"}})
    bench.running("first").eviction_times = [bench.state.now - 50 * MINUTE]
    bench.running("never-evicted")
    bench.running("last").eviction_times = [bench.state.now - 55 * MINUTE]
    assert end(bench) == 5


def test_of_a_job_with_two_protections_the_end_of_the_one_that_is_named_counts() -> None:
    """The second job's cooldown ends before the first job's minimum run time, but its own minimum run time does not."""
    bench = Bench(protections={"min_runtime": {"preempt": "10m"}, "cooldown": {"job": "2m"}})
    bench.running("x", age=5 * MINUTE)
    both = bench.running("y", age=0)
    both.last_eviction = both.pending_since = bench.state.now - HOUR
    assert end(bench) == 5


def test_a_later_end_of_another_rule_does_not_hide_the_end_of_the_one_that_is_named() -> None:
    bench = Bench(protections={"min_runtime": {"preempt": "10m"}, "cooldown": {"job": "30m"}})
    bench.running("x", age=5 * MINUTE)
    both = bench.running("y", age=8 * MINUTE)
    both.last_eviction = both.pending_since = bench.state.now - HOUR
    assert end(bench) == 2


def test_a_protection_of_a_later_action_counts_where_an_earlier_one_has_none() -> None:
    bench = Bench(protections={"min_runtime": {"preempt": "10m"}})
    bench.running("x", age=4 * MINUTE)
    assert end(bench, "consolidate", "reclaim", "preempt") == 6
    assert end(bench, "consolidate", "reclaim") is None


def test_nobody_knows_when_the_protection_of_a_job_ends_that_still_starts() -> None:
    bench = Bench(protections={"min_runtime": {"preempt": "10m"}, "cooldown": {"job": "2m"}})
    starting = bench.running("x", phase="starting")
    starting.last_eviction = starting.pending_since = bench.state.now - HOUR
    assert end(bench) is None


def test_a_protection_that_ends_now_is_over() -> None:
    bench = Bench(protections={"min_runtime": {"preempt": "10m"}})
    bench.running("x", age=10 * MINUTE)
    assert end(bench) is None


def test_for_a_job_that_other_rules_protect_no_time_is_named() -> None:
    bench = Bench(protections={"min_runtime": {"preempt": "10m"}, "excluded": [{"app": "web"}]})
    bench.running("x", age=0, labels={"app": "web"})
    assert end(bench) is None


# --- groups


@pytest.mark.parametrize(
    ("protections", "by_group"),
    [({}, True), ({"cooldown": {"job": "5m"}}, False), ({"excluded": [{"a": "b"}]}, False)],
)
def test_jobs_of_one_group_are_judged_alike_where_no_rule_looks_at_single_jobs(protections: Any, by_group: bool) -> None:
    assert shields(Bench(protections=protections)).by_group is by_group


# --- the head of the queue and backfilled jobs


FIXED = {"excluded": [{"app": "fixed"}]}


def with_backfilled(protections: Any) -> tuple[Bench, dict[str, Job]]:
    """A head that asks for six GPUs, and backfilled jobs: one before it in the queue, and three behind it."""
    bench = Bench(protections=protections)
    del bench.state.jobs["preemptor"]
    bench.state.queue.clear()
    jobs = {name: bench.running(name, labels={"app": name}) for name in ("before", "fixed", "one", "two")}
    bench.preemptor = bench.waiting("head", priority=75, gpus=6)
    for name, job in jobs.items():
        job.backfilled = True
        bench.state.backfilled[name] = None
    jobs["before"].priority = 75
    return bench, jobs


def test_the_head_evicts_backfilled_jobs_behind_it_and_no_others() -> None:
    bench, jobs = with_backfilled(FIXED)
    found = shields(bench)
    assert {name: found.excluded_by(core(job)) for name, job in jobs.items()} == {
        "before": "lower-priority-only", "fixed": "excluded", "one": None, "two": None,
    }  # fmt: skip


@pytest.mark.parametrize(("waited", "may_preempt", "rule"), [
    (MINUTE - 1, True, "backfilled-only"), (MINUTE, True, None), (MINUTE, False, "backfilled-only"),
])  # fmt: skip
def test_a_head_that_may_preempt_once_its_delay_is_over_evicts_others_from_then_on(
    waited: int, may_preempt: bool, rule: str | None
) -> None:
    bench, _ = with_backfilled({"preemption_delay": "1m"})
    plain = bench.running("plain")
    bench.preemptor.submitted_at, bench.preemptor.may_preempt = bench.state.now - waited, may_preempt
    assert shields(bench).excluded_by(core(plain)) == rule


def test_backfilled_jobs_of_a_group_are_judged_otherwise_than_the_others() -> None:
    bench, jobs = with_backfilled({})
    assert not shields(bench).by_group
    for job in jobs.values():
        job.preemptible = False
    assert shields(bench).by_group, "none of them may be evicted as a backfilled one"


def test_a_backfilled_job_that_leaves_already_is_no_victim_again() -> None:
    bench, jobs = with_backfilled(FIXED)
    jobs["one"].phase = "evicting"
    assert shields(bench).excluded_by(core(jobs["one"])) == "already-evicting"


def test_a_budget_counts_backfilled_jobs_of_the_head_only_where_it_may_not_evict_them_as_such() -> None:
    bench, jobs = with_backfilled({**FIXED, "budgets": [{"name": "all", "max_disruptions": 0}]})
    bench.running("plain")
    bench.state.indices.snapshot = None
    tests = VictimSetTests(bench.state, "preempt", bench.preemptor)
    assert tests.violation([core(jobs["one"]), core(jobs["two"])]) is None
    assert tests.violation([core(jobs["one"]), core(jobs["before"])]) is not None
    assert tests.violation([core(jobs["one"]), core(bench.state.jobs["plain"])]) is not None


# --- already evicting


def test_all_parts_of_a_job_that_leaves_are_leaving() -> None:
    bench = Bench()
    job = bench.running("x", tasks=3, min_tasks=1, phase="evicting")
    assert is_evicting(surplus(job))
    assert is_evicting(core(job))


@pytest.mark.parametrize(("evicted", "leaving"), [((), False), ((1,), True), ((1, 2), True)])
def test_one_task_that_leaves_is_enough_for_the_part(evicted: tuple[int, ...], leaving: bool) -> None:
    job = Bench().running("x", tasks=3, min_tasks=1)
    for index in evicted:
        job.tasks[index].eviction = Eviction(1, "preemption", 0)
    assert is_evicting(Unit(job, (1, 2), core=False)) is leaving


def test_a_task_without_a_place_is_not_leaving() -> None:
    job = Bench().running("x", tasks=2, min_tasks=1)
    del job.tasks[1]
    assert not is_evicting(Unit(job, (0, 1), core=False))


# --- cooldown and minimum run time


def test_a_reservation_after_an_eviction_is_not_cooling_down() -> None:
    bench = Bench(protections={"cooldown": {"job": "5m"}})
    job = bench.running("x", phase="reserved")
    job.last_eviction = job.pending_since = bench.state.now - MINUTE
    assert shields(bench).excluded_by(core(job)) is None


def test_in_a_project_without_a_minimum_run_time_a_starting_gang_is_not_protected() -> None:
    preemption = {**POOL, "actions": ["allocate", "preempt"]}
    bench = Bench(projects=DEPARTMENTS, preemption=preemption, protections={"min_runtime": {"preempt": "10m"}})
    vision, speech = (bench.running(name, project=name, phase="starting") for name in ("vision", "speech"))
    found = shields(bench)
    assert (found.excluded_by(core(vision)), found.excluded_by(core(speech))) == ("min-runtime", None)


# --- budgets


def test_one_budget_that_is_used_up_protects_a_job_of_two() -> None:
    budgets = [{"name": "web", "labels": {"app": "web"}, "max_disruptions": 0},
               {"name": "fast", "labels": {"tier": "fast"}, "max_disruptions": 0}]  # fmt: skip
    bench = Bench(protections={"budgets": budgets})
    for name, labels in (("x", {"app": "web"}), ("y", {"tier": "fast"}), ("z", {"app": "web", "tier": "fast"})):
        assert shields(bench).excluded_by(core(bench.running(name, labels=labels))) == "budget"


def test_a_job_that_loses_surplus_only_does_not_use_up_a_budget() -> None:
    bench = Bench(protections={"budgets": [{"name": "all", "max_disruptions": 1}]})
    job = bench.running("x", tasks=2, min_tasks=1)
    job.tasks[1].eviction = Eviction(1, "preemption", 0)
    bench.state.evicting["x"] = None
    assert [left for _, left in BudgetUsage(bench.state).left] == [1]


def test_a_budget_that_is_overdrawn_already_forbids_no_victims_of_other_groups() -> None:
    """The policy was changed while two were leaving."""
    bench = Bench(protections={"budgets": [{"name": "web", "labels": {"app": "web"}, "max_disruptions": 1}]})
    for name in "xy":
        bench.running(name, labels={"app": "web"}, phase="evicting")
    usage = BudgetUsage(bench.state)
    assert [left for _, left in usage.left] == [-1]
    assert usage.violation([core(bench.running("other"))]) is None
    assert "0 left" in str(usage.violation([core(bench.running("another", labels={"app": "web"}))]))
