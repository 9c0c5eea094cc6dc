"""How often a job may fail, how long it waits before it starts again, and when its time is over: just at the bound."""

import pytest
from tests.log_builder import MINUTE, SECOND, policy

RULES = policy(restarts={"backoff": "10s", "max_backoff": "35s"})


def fails(story, times):
    for _ in range(times):
        story.ends("job", code=1)
        if story.job("job").phase == "pending":
            story.wait(story.job("job").not_before - story.time)
            story.started("job")


@pytest.mark.parametrize(("allowed", "times", "phase"), [(2, 2, "running"), (2, 3, "failed"), (0, 1, "failed")])
def test_a_job_may_fail_as_often_as_it_says(tell, allowed, times, phase):
    story = tell(RULES)
    story.node("n1")
    story.runs("job", max_failures=allowed)
    fails(story, times)
    assert story.job("job").phase == phase


def test_the_backoff_is_doubled_up_to_its_maximum(tell):
    story = tell(RULES)
    story.node("n1")
    story.runs("job", max_failures=9)
    waits = []
    for _ in range(4):
        story.ends("job", code=1)
        waits.append((story.job("job").not_before - story.time) // SECOND)
        story.wait(story.job("job").not_before - story.time)
        story.started("job")
    assert waits == [10, 20, 35, 35]


def test_it_starts_again_at_the_end_of_its_backoff_and_not_before(tell):
    story = tell(RULES)
    story.node("n1")
    story.runs("job", max_failures=9)
    story.ends("job", code=1)
    end = story.job("job").not_before
    story.wait(end - story.time - 1)
    assert story.job("job").phase == "pending"
    story.wait(1)
    assert story.job("job").phase == "starting"


def test_a_run_time_limit_ends_the_job_when_it_is_reached(tell):
    story = tell(RULES)
    story.node("n1")
    story.runs("job", run_time_limit="5m")
    end = story.job("job").last_start + 5 * MINUTE
    story.wait(end - story.time - 1)
    assert story.job("job").phase == "running"
    story.wait(1)
    assert story.expect("EvictionDecided", job="job").reason == "its run-time limit of 300 s is reached"
    story.yields("job")
    ended = story.expect("JobEnded", job="job", outcome="timed-out")
    assert ended.reason == "it ran longer than its limit of 300 s"
