"""Which backfilled jobs the head of the queue may evict, rule by rule."""

from typing import Any

import pytest
from tests.kits.builders import group, requested_unit
from tests.kits.pools import Bench, core

from bailiff_core.model.state import Eviction, Job
from bailiff_core.protections import excluded_by
from bailiff_core.queue.head import BackfilledVictims, backfilled_victims
from bailiff_core.scheduling_snapshot import current_snapshot

PROJECTS = ({"name": "ours", "quota": {"gpus": 4}}, {"name": "theirs", "quota": {"gpus": 4}})


def pool(*projects: dict[str, Any], **parts: Any) -> Bench:
    """The preemptor is the head of the queue and asks for four GPUs."""
    bench = Bench(projects=projects, **parts)
    del bench.state.jobs["preemptor"]
    bench.state.queue.clear()
    bench.preemptor = bench.waiting("head", priority=75, project="ours", gpus=4)
    return bench


def backfilled(bench: Bench, name: str, **about: Any) -> Job:
    job = bench.running(name, **about)
    job.backfilled = True
    bench.state.backfilled[name] = None
    return job


def victims(bench: Bench) -> BackfilledVictims:
    bench.state.indices.snapshot = None
    return BackfilledVictims(current_snapshot(bench.state), requested_unit(bench.preemptor))


# --- which jobs


def test_a_preemptible_job_behind_the_head_may_be_evicted() -> None:
    bench = pool()
    assert victims(bench).permits(backfilled(bench, "x"))


def test_where_the_policy_has_no_projects_their_names_do_not_matter() -> None:
    bench = pool()
    assert victims(bench).permits(backfilled(bench, "x", project="theirs"))


def test_nor_how_much_others_use() -> None:
    bench = pool()
    bench.running("runs", gpus=6)
    job = backfilled(bench, "x", project="theirs", gpus=2)
    assert victims(bench).permits(job)


def test_a_job_before_the_head_in_the_queue_may_not() -> None:
    bench = pool()
    first, second = (backfilled(bench, name, priority=75) for name in ("first", "second"))
    first.seq = bench.preemptor.seq - 1
    found = victims(bench)
    assert [found.covers(job) for job in (first, second, bench.preemptor)] == [False, True, False]
    assert [found.permits(first), found.permits(second)] == [False, True]


def test_a_job_that_is_not_preemptible_or_excluded_may_not() -> None:
    bench = pool(protections={"excluded": [{"app": "web"}]})
    fixed, web, batch = (backfilled(bench, name, labels={"app": name}) for name in ("fixed", "web", "batch"))
    fixed.preemptible = False
    assert [victims(bench).covers(job) for job in (fixed, web, batch)] == [False, False, True]


def test_none_may_be_evicted_under_a_policy_without_preempt() -> None:
    bench = pool(preemption={"actions": ("allocate", "reclaim")})
    assert not victims(bench).permits(backfilled(bench, "x"))


# --- where there are projects


@pytest.mark.parametrize("capped", [True, False])
def test_jobs_of_other_projects_may_be_evicted_while_the_head_stays_within_its_fair_share(capped: bool) -> None:
    bench = pool(*PROJECTS, preemption={"cap_at_fair_share": capped})
    other = backfilled(bench, "other", project="theirs", gpus=2)
    assert victims(bench).permits(other)
    ended = bench.running("runs", project="ours")
    own = backfilled(bench, "own", project="ours", gpus=2)
    bench.waiting("asks", project="theirs", gpus=4)
    found = victims(bench)
    assert (found.permits(own), found.permits(other)) == (not capped, False), "with the head, ours would use five of four"
    assert found.would_permit(other, [core(ended)])
    assert not found.would_permit(other, [])
    assert not found.permits(other), "the test of what would be is not kept for what is"


def test_what_backfilled_jobs_of_the_own_project_use_does_not_count() -> None:
    bench = pool(*PROJECTS)
    backfilled(bench, "own", project="ours", gpus=2)
    other = backfilled(bench, "other", project="theirs", gpus=2)
    bench.waiting("asks", project="theirs", gpus=4)
    assert victims(bench).permits(other)
    bench.state.jobs["own"].preemptible = False
    assert not victims(bench).permits(other), "it is not gone when the head starts"


def test_the_result_follows_the_use_of_the_projects() -> None:
    bench = pool(*PROJECTS)
    runs = core(bench.running("runs", project="ours"))
    other = backfilled(bench, "other", project="theirs", gpus=2)
    bench.waiting("asks", project="theirs", gpus=4)
    found = victims(bench)
    assert not found.permits(other)
    usage = current_snapshot(bench.state).usage
    mark = usage.mark()
    usage.evict(runs)
    assert found.permits(other)
    usage.rollback(mark)
    assert not found.permits(other)


# --- for which preemptor


def test_only_jobs_that_are_not_leaving_are_victims_now() -> None:
    bench = pool()
    backfilled(bench, "x")
    backfilled(bench, "leaves", phase="evicting")
    backfilled(bench, "fixed").preemptible = False
    bench.running("not-backfilled")
    assert victims(bench).now() == {"x": None}


@pytest.mark.parametrize("change", ["action", "not pending", "not the head", "no backfilled job"])
def test_the_test_is_for_the_head_of_the_queue_under_preempt(change: str) -> None:
    bench = pool()
    job = backfilled(bench, "x")
    assert backfilled_victims(bench.state, "preempt", bench.preemptor) is not None
    action = "reclaim" if change == "action" else "preempt"
    if change == "not pending":
        bench.preemptor.phase = "running"
    if change == "not the head":
        bench.waiting("before", priority=90)
    if change == "no backfilled job":
        job.phase = "evicting"
    bench.state.indices.snapshot = None
    assert backfilled_victims(bench.state, action, bench.preemptor) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("reason", ["never preempts", "delay"])
def test_a_head_that_may_not_preempt_evicts_backfilled_jobs_only(reason: str) -> None:
    bench = pool(protections={"preemption_delay": "10m" if reason == "delay" else "0s"})
    bench.preemptor.may_preempt = reason == "delay"
    bench.preemptor.submitted_at = bench.state.now
    job, other = backfilled(bench, "x"), bench.running("other", priority=10)
    assert excluded_by(bench.state, "preempt", bench.preemptor, core(job)) is None
    assert excluded_by(bench.state, "preempt", bench.preemptor, core(other)) == "backfilled-only"
    bench.preemptor.may_preempt, bench.preemptor.submitted_at = True, 0
    assert excluded_by(bench.state, "preempt", bench.preemptor, core(other)) is None


def test_a_backfilled_job_whose_eviction_is_stuck_is_not_gone() -> None:
    """It still counts as use of its project, and nobody knows when it ends."""
    bench = pool(*PROJECTS)
    stuck = backfilled(bench, "stuck", project="ours", gpus=2, phase="evicting")
    stuck.eviction = Eviction(1, "preemption", 0)
    other = backfilled(bench, "other", project="theirs", gpus=2)
    bench.waiting("asks", project="theirs", gpus=4)
    assert victims(bench).permits(other)
    stuck.eviction.stuck = True
    assert not victims(bench).permits(other)


def test_where_a_department_is_beyond_its_share_the_head_evicts_jobs_of_no_other_project() -> None:
    """The head's own project stays within its share, but with the head its department would not."""
    projects = [
        {"name": "lab", "quota": {"gpus": 4}},
        {"name": "ours", "parent": "lab"},
        {"name": "sister", "parent": "lab"},
        {"name": "theirs", "quota": {"gpus": 4}},
    ]
    bench = pool(*projects)
    bench.preemptor.demand = bench.preemptor.demand.model_copy(update={"tasks": (group(gpus=2),)})
    own = backfilled(bench, "own", project="ours")
    other = backfilled(bench, "other", project="theirs")
    bench.waiting("asks", project="theirs", gpus=4)
    assert (victims(bench).permits(own), victims(bench).permits(other)) == (True, True)
    bench.running("sister", project="sister", gpus=4)
    assert (victims(bench).permits(own), victims(bench).permits(other)) == (False, False)
