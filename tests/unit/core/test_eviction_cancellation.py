"""Cancelled evictions."""

from tests.log_builder import MINUTE, SECOND

from bailiff_bus.messages import Evict
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_eviction_executor.pending_messages import pending_commands


def evicting(story, tasks=1):
    """`low` is being evicted for `high`."""
    story.node("n1", gpus=8)
    story.runs("low", gpus=8 // tasks, tasks=tasks)
    story.submit("high", gpus=8, cls="interactive", after=MINUTE)
    story.propose()
    story.expect("PreemptionDecided")


def test_an_eviction_cancelled_before_its_notice_leaves_no_trace(story):
    evicting(story)
    before = story.job("low").last_start
    story.cancel("high")
    story.expect("ReservationDropped", job="high", reason="cancelled")
    story.expect("JobEnded", job="high", outcome="cancelled")
    withdrawn = story.expect("EvictionCancelled", job="low", notified=False)
    assert withdrawn.reason == "high no longer needs the resources"
    assert (story.job("low").phase, story.job("low").evictions, story.job("low").last_start) == ("running", 0, before)


def test_a_cancellation_after_the_notice_is_confirmed(story):
    evicting(story, tasks=2)
    story.begin("low")
    story.cancel("high")
    story.expect("EvictionCancelled", job="low", notified=True)
    assert story.job("low").phase == "evicting"
    story.submit("next", gpus=8)
    story.expect_only("JobPending")  # its resources are not releasing
    story.eviction_cancelled("low", task=0)
    assert story.job("low").phase == "evicting"
    story.eviction_cancelled("low", task=1)
    assert story.job("low").phase == "running"
    assert not any(task.eviction_cancelled for task in story.job("low").tasks)


def test_surplus_whose_eviction_is_cancelled_runs_on_and_the_job_is_not_evicting(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=2, tasks=4, min_tasks=1)
    story.submit("high", gpus=2, cls="interactive", after=MINUTE)
    story.propose()
    story.begin("low")
    assert list(story.state.evicting) == ["low"]
    story.cancel("high")
    story.eviction_cancelled("low", task=3)
    assert (list(story.state.evicting), story.members("low", "running")) == ([], [0, 1, 2, 3])
    assert not any(task.eviction is not None or task.noticed for task in story.job("low").tasks)


def test_the_whole_gang_is_evicted_if_one_member_has_exited(story):
    evicting(story, tasks=2)
    story.begin("low")
    story.cancel("high")
    story.eviction_cancelled("low", task=0)
    story.cancel_eviction_refused("low", task=1)
    eviction = story.job("low").eviction
    assert (eviction.cancel_seq, eviction.preemption, eviction.started_seq) == (None, None, story.state.seq)
    assert not any(task.eviction_cancelled for task in story.job("low").tasks)
    story.ends("low", 85)
    story.expect("JobRequeued", job="low", outcome="preempted")


def test_resources_that_are_released_after_all_are_allocated_at_once(story):
    evicting(story)
    story.begin("low")
    story.cancel("high")
    story.submit("next", gpus=8)
    story.cancel_eviction_refused("low")
    story.expect("JobPlaced", job="next", reserved=True)


def test_a_member_that_fails_during_the_cancellation(story):
    evicting(story, tasks=2)
    story.begin("low")
    story.cancel("high")
    story.ends("low", 1, task=0)
    story.eviction_cancelled("low", task=1)
    story.expect("EvictionDecided", job="low", cause="gang-failure")
    story.begin("low")
    story.ends("low", 143, task=1)
    story.expect("JobEnded", job="low", outcome="failed")


def test_a_member_that_fails_after_the_others_confirmed_the_cancellation(story):
    evicting(story, tasks=2)
    story.begin("low")
    story.cancel("high")
    story.eviction_cancelled("low", task=1)
    story.exits("low", 1, task=0)
    story.expect("EvictionDecided", job="low", cause="gang-failure")


def test_a_member_that_fails_before_any_notice(story):
    evicting(story, tasks=2)
    story.ends("low", 1, task=0)
    story.cancel("high")
    story.expect("EvictionCancelled", job="low", notified=False)
    story.expect("EvictionDecided", job="low", cause="gang-failure")


def test_a_member_that_finished_before_the_preemption_was_abandoned(story):
    evicting(story, tasks=2)
    story.exits("low", 0, task=0)
    story.cancel("high")
    story.expect("EvictionCancelled", job="low", notified=False)
    assert story.job("low").phase == "running"
    story.releases("low", task=0)
    story.ends("low", 0, task=1)
    story.expect("JobEnded", job="low", outcome="succeeded")


def test_a_reserved_preemptor_is_preempted_and_its_victims_keep_running(story):
    for name in ("n1", "n2"):
        story.node(name, gpus=8)
    story.runs("low-1", gpus=8)
    story.runs("steady", gpus=4, cls="inference")
    story.runs("low-2", gpus=4, after=MINUTE)
    story.submit("mid", gpus=8, cls="interactive", tasks=1)
    story.propose()
    assert [choice.job for choice in story.expect("PreemptionDecided").victims] == ["low-1"]
    story.submit("small", gpus=4, cls="inference")
    story.propose()
    decided = story.expect("PreemptionDecided")
    # The reservation costs nothing, so it is dropped first; half of low-1's resources are allocated to small.
    assert [(choice.job, choice.reserved) for choice in decided.victims] == [("mid", True)]
    assert story.job("mid").phase == "pending"
    assert story.job("low-1").phase == "evicting"
    story.yields("low-1")
    story.expect("JobStarting", job="small")


def test_only_evictions_whose_resources_are_not_needed_are_cancelled(story):
    for name in ("n1", "n2"):
        story.node(name, gpus=8)
    story.runs("low-1", gpus=8)
    story.runs("low-2", gpus=8)
    story.submit("mid", gpus=8, tasks=2, cls="interactive")
    story.propose()
    assert len(story.expect("PreemptionDecided").victims) == 2
    story.submit("top", gpus=8, cls="inference")
    story.propose()
    decided = story.expect("PreemptionDecided")
    assert [choice.job for choice in decided.victims] == ["mid"]
    needed = story.state.nodes[decided.placement[0].node].name.replace("n", "low-")
    other = {"low-1": "low-2", "low-2": "low-1"}[needed]
    story.expect("EvictionCancelled", job=other, notified=False)
    assert story.job(needed).phase == "evicting"
    assert story.job("top").phase == "reserved"
    story.yields(needed)
    story.expect("JobStarting", job="top")


def test_resources_of_a_cancelled_eviction_are_not_allocated_to_another_job(tell):
    story = tell(DEFAULT_POLICY.model_copy(update={"backfill": "greedy"}))
    for name in ("n1", "n2"):
        story.node(name, gpus=8)
    story.runs("low-1", gpus=8)
    story.runs("low-2", gpus=8)
    story.submit("waits", gpus=8)
    story.submit("mid", gpus=8, tasks=2, cls="interactive")
    story.propose()
    story.submit("top", gpus=8, cls="inference")
    story.propose()
    story.expect_only("PreemptionDecided", "EvictionCancelled", "JobPending", "PreemptionRequested")
    assert story.job("waits").phase == story.job("mid").phase == "pending"


def test_an_inherited_victim_keeps_running_when_its_new_preemption_is_abandoned(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("mid", gpus=8, cls="interactive")
    story.propose()
    story.begin("low")
    story.submit("top", gpus=8, cls="inference")
    story.propose()
    assert story.job("low").eviction.for_job == "top"
    story.cancel("mid")
    story.cancel("top")
    withdrawn = story.expect("EvictionCancelled", job="low", notified=True)
    assert withdrawn.reason == "top no longer needs the resources"


def test_a_job_cancelled_during_the_cancellation_of_its_eviction_ends(story):
    evicting(story)
    story.cancel("low")
    story.cancel("high")
    story.expect("EvictionDecided", job="low", cause="cancelled")
    story.yields("low")
    story.expect("JobEnded", job="low", outcome="cancelled")


def test_a_job_whose_eviction_is_cancelled_while_starting_runs_once_all_its_tasks_do(story):
    story.node("n1", gpus=8)
    story.submit("low", gpus=4, tasks=2)
    story.started("low", task=0)
    story.submit("high", gpus=8, cls="interactive")
    story.propose()
    story.started("low", task=1, after=SECOND)
    assert story.job("low").phase == "evicting"
    story.cancel("high", after=SECOND)
    assert story.job("low").phase == "running"
    assert story.job("low").last_start == story.time - SECOND


def test_an_acknowledgement_of_a_cancelled_notice_does_not_count_for_a_later_eviction(story):
    """Its agent has withdrawn the notice, so a new one is sent; the earlier acknowledgement excuses no failure now."""
    evicting(story, tasks=2)
    story.begin("low")
    story.staged("low", "noticed")
    story.staged("low", "acknowledged")
    story.cancel("high")
    story.eviction_cancelled("low", task=0)
    story.cancel_eviction_refused("low", task=1)
    pending_notices = {(body.tasks, body.ordered_by.seq) for body in pending_commands(story.state) if isinstance(body, Evict)}
    assert pending_notices == {((0,), story.job("low").eviction.started_seq)}


def test_a_job_that_fails_after_a_cancelled_eviction_has_failed(story):
    evicting(story)
    story.begin("low")
    story.staged("low", "noticed")
    story.staged("low", "acknowledged")
    story.cancel("high")
    story.eviction_cancelled("low")
    story.ends("low", 1)
    story.expect("JobEnded", job="low", outcome="failed")


def test_a_partly_started_preemption_that_is_abandoned_cancels_evictions_without_notice_at_once(story):
    """The eviction of one victim of two has started when the preemptor is cancelled; the other gets no notice."""
    for name in ("n1", "n2"):
        story.node(name, gpus=8)
    story.runs("notified", gpus=8)
    story.runs("untold", gpus=8)
    story.submit("high", gpus=8, tasks=2, cls="interactive", after=MINUTE)
    story.propose()
    story.begin("notified")
    story.cancel("high")
    taken_back = {entry.job: entry.notified for entry in story.decisions("EvictionCancelled")}
    assert taken_back == {"notified": True, "untold": False}
    assert (story.job("untold").phase, story.job("notified").phase) == ("running", "evicting")
    assert [(type(body).__name__, body.job) for body in pending_commands(story.state)] == [("CancelEviction", "notified")]
    story.eviction_cancelled("notified")
    assert story.job("notified").phase == "running"
