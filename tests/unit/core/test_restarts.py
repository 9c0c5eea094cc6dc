"""Jobs that failed, lost a member, or ran too long: whether and when they restart."""

import pytest
from tests.log_builder import HOUR, MINUTE, SECOND, policy

from bailiff_core.records.facts import TaskVanished


def running(story, **demand):
    story.node("n1", gpus=8)
    story.runs("train", gpus=1, tasks=2, **demand)


def fails(story, code=1):
    story.ends("train", code)
    return next(
        (decision.not_before - story.time for decision in story.last_decisions if type(decision).__name__ == "JobRequeued"), None
    )


def again(story):
    story.wait(HOUR)
    story.started("train")
    assert story.job("train").phase == "running"


def test_the_backoff_doubles_with_each_failure_up_to_its_maximum(tell):
    story = tell(policy(restarts={"backoff": "3s", "max_backoff": "10s"}))
    running(story, max_failures=5)
    waited = []
    for _ in range(4):
        waited.append(fails(story))
        again(story)
    assert waited == [3 * SECOND, 6 * SECOND, 10 * SECOND, 10 * SECOND]


def test_a_job_may_set_its_own_backoff(story):
    running(story, max_failures=2, restart_backoff=5 * MINUTE)
    assert fails(story) == 5 * MINUTE


def test_evictions_neither_extend_the_backoff_nor_count_as_failures(story):
    running(story, max_failures=1)
    for _ in range(5):
        story.evict("train")
        story.yields("train")
        story.started("train")
    assert (story.job("train").attempt, story.job("train").failures) == (6, 0)
    assert fails(story) == 2 * SECOND
    again(story)
    fails(story)
    story.expect("JobEnded", job="train", outcome="failed")


def test_losses_extend_the_backoff_and_do_not_count_as_failures(story):
    running(story, max_failures=1)
    waited = []
    for _ in range(2):
        story.cycle(*(TaskVanished(**story.at("train", n)) for n in (0, 1)))
        waited.append(story.expect("JobRequeued", outcome="lost").not_before - story.time)
        again(story)
    assert waited == [2 * SECOND, 4 * SECOND]
    assert fails(story) == 8 * SECOND
    assert (story.job("train").failures, story.job("train").losses) == (1, 2)


def test_a_member_s_failure_stops_and_restarts_the_whole_gang(story):
    running(story, max_failures=1)
    story.ends("train", 1, task=1)
    story.expect("EvictionDecided", job="train", cause="gang-failure")
    story.begin("train")
    story.ends("train", 85)
    story.expect("JobRequeued", outcome="failed")
    again(story)
    assert story.members("train", "running") == [0, 1]


@pytest.mark.parametrize("how", ["fails", "is lost"])
def test_a_gang_that_is_to_end_with_its_first_member_does(story, how):
    running(story, max_failures=3, on_failure="end")
    if how == "fails":
        story.ends("train", 7, task=1)
    else:
        story.cycle(TaskVanished(**story.at("train", 1)))
    story.begin("train")
    story.ends("train", 85)
    ended = story.expect("JobEnded", job="train", outcome="failed")
    what = "ended with exit code 7" if how == "fails" else "was lost"
    assert ended.reason == f"task 1 {what}, and on_failure is end"


def test_a_gang_that_ends_with_its_first_member_may_be_evicted(story):
    running(story, on_failure="end")
    story.evict("train")
    story.yields("train")
    story.expect("JobPlaced", job="train", attempt=2)


def test_a_job_that_ran_for_as_long_as_it_may_has_timed_out(story):
    running(story, run_time_limit=HOUR, max_failures=3)
    story.wait(HOUR)
    story.expect("EvictionDecided", job="train", cause="time-limit")
    story.yields("train")
    story.expect("JobEnded", job="train", outcome="timed-out")


def test_what_it_had_run_before_it_was_paused_does_not_count(story):
    running(story, run_time_limit=HOUR)
    story.wait(50 * MINUTE)
    story.pause("train")
    story.yields("train")
    story.resume("train", after=MINUTE)
    story.started("train")
    story.wait(50 * MINUTE)
    assert story.job("train").phase == "running"
