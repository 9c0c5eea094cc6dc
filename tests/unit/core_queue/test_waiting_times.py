"""Since when a job waits, and the times that follow from it: when it may preempt, and when its wait times out."""

from typing import Any

import pytest
from tests.unit.core_protections.kit import MINUTE, Bench

from bailiff_core.model.state import Job
from bailiff_core.queue import preemption_delay, schedule_timeout
from bailiff_core.queue.pending_since import pending_since


def waits(bench: Bench, **about: Any) -> Job:
    job = bench.waiting("job", tasks=2)
    job.submitted_at = job.pending_since = 10
    for name, value in about.items():
        setattr(job, name, value)
    return job


@pytest.mark.parametrize(
    ("about", "since"),
    [
        ({}, 10),
        ({"pending_since": 0}, 10),
        ({"pending_since": 30}, 30),
        ({"last_eviction": 20}, 20),
        ({"last_eviction": 20, "pending_since": 30}, 30),
        ({"last_eviction": 5}, 10),
    ],
    ids=("submitted", "never queued again", "failed", "evicted", "failed after an eviction", "of an earlier clock"),
)
def test_a_job_waits_since_it_last_joined_the_queue(about: dict[str, Any], since: int) -> None:
    assert pending_since(waits(Bench(), **about)) == since


@pytest.mark.parametrize(
    ("about", "due"),
    [
        ({}, 10 + MINUTE),
        ({"last_eviction": 20}, 20 + MINUTE),
        ({"pending_since": 30}, 10 + MINUTE),
        ({"own": 5}, 15),
        ({"own": 0}, None),
        ({"own": 0, "last_eviction": 20}, 20),
        ({"cancelled": True}, None),
        ({"phase": "paused"}, None),
        ({"phase": "running"}, 10 + MINUTE),
        ({"phase": "starting"}, 10 + MINUTE),
        ({"phase": "evicting"}, None),
    ],
    ids=str,
)
def test_from_when_a_job_that_lacks_tasks_may_preempt(about: dict[str, Any], due: int | None) -> None:
    bench = Bench(protections={"preemption_delay": "1m"})
    job = waits(bench, **{name: value for name, value in about.items() if name != "own"})
    job.demand = job.demand.model_copy(update={"preemption_delay": about.get("own")})
    assert preemption_delay.due(bench.state, job) == due


def test_a_job_that_runs_whole_waits_for_nothing() -> None:
    bench = Bench(protections={"preemption_delay": "1m"})
    assert preemption_delay.due(bench.state, bench.running("job", tasks=2)) is None


@pytest.mark.parametrize(
    ("about", "due"),
    [
        ({}, 10 + MINUTE),
        ({"last_eviction": 20}, 20 + MINUTE),
        ({"pending_since": 30}, 30 + MINUTE),
        ({"timeout_recorded": True}, None),
        ({"cancelled": True}, None),
        ({"phase": "running"}, None),
    ],
    ids=str,
)
def test_when_the_wait_of_a_gang_times_out(about: dict[str, Any], due: int | None) -> None:
    bench = Bench(protections={"schedule_timeout": {"after": "1m"}})
    assert schedule_timeout.due(bench.state, waits(bench, **about)) == due
    bench = Bench()
    assert schedule_timeout.due(bench.state, waits(bench, **about)) is None


@pytest.mark.parametrize(
    ("action", "timed_out", "passes"), [("pass", True, True), ("pass", False, False), ("report", True, False)]
)
def test_whom_others_may_pass(action: str, timed_out: bool, passes: bool) -> None:
    bench = Bench(protections={"schedule_timeout": {"after": "1m", "action": action}})
    job = waits(bench, timeout_recorded=timed_out)
    assert schedule_timeout.lets_others_pass(bench.state, job) is passes
    assert not schedule_timeout.lets_others_pass(Bench().state, job)
