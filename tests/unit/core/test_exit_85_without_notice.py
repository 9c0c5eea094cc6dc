"""Exit code 85 without an eviction notice is no preemption: the job backs off, and such restarts are counted and bounded."""

import pytest
from tests.log_builder import SECOND, policy

RULE = "exit-85-without-notice"


def leaves(story, job):
    for task in story.members(job):
        story.exits(job, 85, task=task)
    for task in story.members(job):
        story.releases(job, task=task)


@pytest.fixture
def limited(tell):
    """Two such restarts, 2 s apart at first."""
    story = tell(policy(restarts={"max_yields": 2, "backoff": 2 * SECOND}))
    story.node("n1", gpus=8)
    return story


def test_it_backs_off_twice_as_long_each_time_and_then_it_has_failed(limited):
    limited.runs("job", gpus=1)
    for seconds in (2, 4):
        leaves(limited, "job")
        requeued = limited.expect("JobRequeued", job="job", outcome="yielded", cause="exit", rule=RULE)
        assert requeued.not_before == limited.state.now + seconds * SECOND
        assert (limited.job("job").phase, limited.job("job").last_eviction) == ("pending", None)
        limited.wait(seconds * SECOND)
        limited.started("job")
    job = limited.job("job")
    assert (job.yields, job.failures, job.losses, job.evictions) == (2, 0, 0, 0)
    leaves(limited, "job")
    ended = limited.expect("JobEnded", job="job", outcome="failed")
    assert ended.reason == f"it exited with 85 without an eviction notice, 3 times (rule {RULE})"


def test_it_uses_up_neither_failures_nor_waits_longer_for_them(limited):
    limited.runs("job", gpus=1, max_failures=1)
    limited.ends("job", 1)
    limited.wait(2 * SECOND)
    limited.started("job")
    leaves(limited, "job")
    requeued = limited.expect("JobRequeued", job="job", outcome="yielded")
    assert requeued.not_before == limited.state.now + 2 * SECOND
    assert limited.job("job").failures == 1


def test_one_member_of_a_gang_that_leaves_takes_the_others_along(limited):
    limited.runs("gang", gpus=1, tasks=2)
    limited.exits("gang", 85, task=0)
    limited.expect("EvictionDecided", job="gang", cause="gang-failure")
    limited.releases("gang", task=0)
    limited.begin("gang")
    limited.staged("gang", "noticed", task=1)
    limited.ends("gang", 85, task=1)
    limited.expect("JobRequeued", job="gang", outcome="yielded", cause="gang-failure", rule=RULE)


def test_after_a_notice_it_is_a_preemption_as_ever(limited):
    limited.runs("low", gpus=8)
    limited.submit("high", gpus=8, cls="interactive")
    limited.propose()
    limited.begin("low")
    limited.staged("low", "noticed")
    leaves(limited, "low")
    requeued = limited.expect("JobRequeued", job="low", outcome="preempted", cause="preemption")
    assert (requeued.rule, requeued.not_before, limited.job("low").yields) == ("", 0, 0)


def test_an_exit_between_decision_and_notice_is_a_preemption(limited):
    limited.runs("low", gpus=8)
    limited.submit("high", gpus=8, cls="interactive")
    limited.propose()
    leaves(limited, "low")
    limited.expect("JobRequeued", job="low", outcome="preempted", cause="preemption")


def test_a_cancelled_job_is_cancelled(limited):
    limited.runs("job", gpus=1)
    limited.exits("job", 85)
    limited.cancel("job")
    limited.releases("job")
    limited.expect("JobEnded", job="job", outcome="cancelled")


def test_an_eviction_after_the_last_such_restart_is_not_counted_as_one_and_not_the_end(limited):
    limited.runs("job", gpus=1)
    for seconds in (2, 4):
        leaves(limited, "job")
        limited.wait(seconds * SECOND)
        limited.started("job")
    limited.evict("job")
    limited.yields("job")
    limited.expect("JobRequeued", job="job", outcome="preempted")
    assert (limited.job("job").yields, limited.job("job").evictions) == (2, 1)
