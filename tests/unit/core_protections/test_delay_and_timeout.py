"""Preemption delay, and schedule timeout of pending gangs."""

import pytest
from tests.log_builder import MINUTE, SECOND
from tests.unit.core_protections.kit import rules

from bailiff_core.decision_cycle import wake_at
from bailiff_core.queue.preemption_delay import may_preempt_from


def test_preemption_delay_counts_from_submit_and_a_job_may_override_it(tell):
    story = tell(rules(protections={"preemption_delay": "5m"}))
    story.submit("a", gpus=8)
    story.submit("b", gpus=8, preemption_delay=MINUTE)
    story.submit("c", gpus=8, preemption_delay=0)
    times = [may_preempt_from(story.state, story.job(name)) - story.time for name in "abc"]
    assert times == [5 * MINUTE, MINUTE, 0]


def test_preemption_delay_counts_anew_from_an_eviction_but_not_from_a_failure(tell):
    story = tell(rules(protections={"preemption_delay": "5m"}))
    story.node("n1")
    story.runs("job", gpus=8, max_failures=3)
    story.ends("job", code=1, after=MINUTE)
    assert may_preempt_from(story.state, story.job("job")) == story.time - MINUTE + 5 * MINUTE
    story.wait(2 * SECOND)
    story.started("job")
    story.submit("first", gpus=8, cls="inference", preemption_delay=0)
    story.propose()
    story.yields("job", after=MINUTE)
    assert may_preempt_from(story.state, story.job("job")) == story.time + 5 * MINUTE


def test_the_end_of_a_delay_is_a_wake_up_time(tell):
    story = tell(rules(protections={"preemption_delay": "5m"}))
    story.submit("a", gpus=8)
    story.submit("other", gpus=8, cls="build", preemption_delay=MINUTE)
    assert wake_at(story.state) == story.time + MINUTE
    story.cancel("other")
    assert wake_at(story.state) == story.time + 5 * MINUTE
    story.wait(5 * MINUTE)
    assert wake_at(story.state) is None


def test_preemption_delay_does_not_bind_allocate(tell):
    story = tell(rules(protections={"preemption_delay": "5m"}))
    story.node("n1")
    story.submit("a", gpus=8)
    story.expect("JobPlaced", job="a")


@pytest.mark.parametrize(("then", "kinds"), [
    ("report", ["ScheduleTimedOut"]), ("pass", ["ScheduleTimedOut"]), ("fail", ["ScheduleTimedOut", "JobEnded"]),
])  # fmt: skip
def test_a_schedule_timeout_is_recorded_once_and_followed_by_the_policy_s_action(tell, then, kinds):
    story = tell(rules(protections={"schedule_timeout": {"after": "5m", "action": then}}))
    story.submit("gang", gpus=8, tasks=2)
    assert story.wait(5 * MINUTE - 1) == []
    story.wait(1)
    story.expect_only(*kinds)
    timeout = story.last_decisions[0]
    assert (timeout.job, timeout.waited, timeout.action) == ("gang", 5 * MINUTE, then)
    assert "GPU" in timeout.reason
    assert story.job("gang").phase == ("failed" if then == "fail" else "pending")
    assert story.wait(60 * MINUTE) == [], "once is enough"
    if then == "fail":
        ended = next(story.decisions("JobEnded"))
        assert ended.outcome == "failed"
        assert "schedule-timeout" in ended.reason


def test_each_wait_has_its_own_time_out(tell):
    story = tell(rules(protections={"schedule_timeout": {"after": "5m"}}))
    story.submit("gang", gpus=8, max_failures=1)
    story.wait(5 * MINUTE)
    story.node("n1")
    story.started("gang")
    story.ends("gang", code=1)
    story.silent("n1")
    story.wait(5 * MINUTE)
    assert len(list(story.decisions("ScheduleTimedOut"))) == 2


def test_without_the_rule_a_gang_is_pending_for_ever(tell):
    story = tell(rules())
    story.submit("gang", gpus=8)
    assert story.wait(600 * MINUTE) == []


def test_a_gang_placed_at_the_deadline_has_not_timed_out(tell):
    story = tell(rules(protections={"schedule_timeout": {"after": "5m", "action": "fail"}}))
    story.submit("gang", gpus=8)
    story.time += 5 * MINUTE
    story.node("n1")
    story.expect_only("JobPlaced")
