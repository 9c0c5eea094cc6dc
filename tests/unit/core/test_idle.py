"""Jobs with idle GPUs: recorded once, paused where the policy says so, and ignored by default."""

import pytest
from tests.builders import group
from tests.log_builder import HOUR, MINUTE, policy

from bailiff_core.records.facts import ClockStepped, TaskIdle


def idles(story, *tasks, duration=MINUTE, **fields):
    story.cycle(*(TaskIdle(**story.at("train", n), duration=duration, **fields) for n in tasks))


@pytest.fixture
def lazy(tell):
    """`train` runs two tasks; GPUs may do nothing for ten minutes, then a job is paused."""
    story = tell(policy(idle={"after": "10m", "action": "pause"}))
    story.node("n1", gpus=8)
    story.runs("train", gpus=2, tasks=2)
    return story


def test_a_job_is_paused_when_all_its_gpus_are_idle_for_the_limit(lazy):
    idles(lazy, 0, 1)
    lazy.wait(8 * MINUTE)
    lazy.expect_only()
    lazy.wait(MINUTE)
    assert lazy.expect("JobIdle", job="train", action="pause").duration == 10 * MINUTE
    stopped = lazy.expect("EvictionDecided", job="train", cause="paused")
    assert stopped.reason == "its GPUs were idle for 600 s"
    lazy.yields("train")
    assert (lazy.job("train").phase, lazy.job("train").evictions) == ("paused", 0)
    lazy.resume("train")
    lazy.expect("JobPlaced", job="train", attempt=2)


def test_only_tasks_that_run_on_gpus_count(tell):
    story = tell(policy(idle={"after": "10m", "action": "pause"}))
    story.node("n1", gpus=8)
    story.runs("train", group(2, gpus=1), group(1, cpu=1))
    idles(story, 0)
    story.wait(4 * MINUTE)
    idles(story, 1)
    story.wait(8 * MINUTE)
    story.expect_only()
    story.wait(MINUTE)
    assert story.expect("JobIdle", job="train").duration == 10 * MINUTE, "since the second GPU is idle, too"


def test_one_task_that_works_is_enough(lazy):
    idles(lazy, 0)
    lazy.wait(HOUR)
    lazy.expect_only()


def test_work_resets_the_idle_time(lazy):
    idles(lazy, 0, 1)
    lazy.wait(5 * MINUTE)
    idles(lazy, 1, idle=False)
    lazy.wait(HOUR)
    lazy.expect_only()
    idles(lazy, 1)
    lazy.wait(9 * MINUTE)
    lazy.expect("JobIdle", job="train")


def test_a_clock_step_adds_no_idle_time(lazy):
    idles(lazy, 0, 1)
    lazy.time += HOUR
    lazy.cycle(ClockStepped(jump=HOUR))
    lazy.expect_only()
    lazy.wait(9 * MINUTE)
    lazy.expect("JobIdle", job="train")


def test_a_warning_is_given_once_until_it_works_again(tell):
    story = tell(policy(idle={"after": "10m"}))
    story.node("n1", gpus=8)
    story.runs("train", gpus=2, tasks=2)
    idles(story, 0, 1)
    story.wait(HOUR)
    assert [(idle_record.action, idle_record.duration) for idle_record in story.decisions("JobIdle")] == [("warn", 10 * MINUTE)]
    assert story.job("train").phase == "running"
    idles(story, 0, idle=False)
    idles(story, 0)
    story.wait(HOUR)
    assert len(list(story.decisions("JobIdle"))) == 2


def test_members_without_gpus_do_not_count_and_the_default_policy_ignores_idle_jobs(story):
    story.node("n1", gpus=8)
    story.runs("train", gpus=2, tasks=2)
    idles(story, 0, 1)
    story.wait(24 * HOUR)
    assert list(story.decisions("JobIdle")) == []


def test_a_cancelled_or_evicted_job_is_not_reported_as_idle(lazy):
    idles(lazy, 0, 1)
    lazy.evict("train")
    lazy.wait(HOUR)
    assert list(lazy.decisions("JobIdle")) == []
