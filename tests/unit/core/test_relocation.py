"""Relocated jobs, and relocated surplus tasks of jobs that continue: eviction with a reservation elsewhere."""

import pytest
from tests.log_builder import HOUR, MINUTE, policy

from bailiff_core.decision_cycle import wake_at
from bailiff_core.records.facts import ClockAdvanced


def moving(story):
    """`low` runs on n1, `high` requests all of n1, and `low` fits on n2."""
    story.node("n1", gpus=8)
    story.runs("low", gpus=4)
    story.submit("high", gpus=8, cls="interactive")
    story.node("n2", gpus=4)
    story.propose()
    (choice,) = story.expect("PreemptionDecided").victims
    assert [(share.node, share.devices) for share in choice.moved_to] == [(1, "0-3")]


def test_the_reservation_is_kept_during_the_eviction(story):
    moving(story)
    assert [task.node for task in story.job("low").reservation] == [1]
    assert story.state.nodes[1].reserved.devices == 0b1111
    story.submit("other", gpus=2)
    story.expect("JobPending", job="other")


def test_it_starts_on_its_reservation(story):
    moving(story)
    story.yields("low")
    story.expect("JobRequeued", job="low", cause="preemption")
    placed = story.expect("JobPlaced", job="low")
    assert (placed.attempt, placed.reserved, placed.action) == (2, True, "preempt")
    story.expect("JobStarting", job="low")
    story.expect("JobStarting", job="high")
    assert story.job("low").reservation == []


def test_an_abandoned_preemption_frees_the_reservation(story):
    moving(story)
    story.cancel("high")
    story.expect("EvictionCancelled", job="low")
    assert (story.job("low").reservation, story.state.nodes[1].reserved.devices) == ([], 0)


def test_the_reservation_is_lost(story):
    moving(story)
    story.silent("n2")
    story.expect("ReservationDropped", job="low", reason="resources-lost")
    assert story.job("low").reservation == []


def test_the_reservation_ends_at_its_expiry_and_not_before(tell):
    story = tell(policy(preemption={"reservation_expiry": "1m"}))
    moving(story)
    story.begin("low")
    until = story.job("low").reservation_until
    story.cycle(ClockAdvanced(), after=until - story.time - 1)
    assert story.job("low").reservation
    assert wake_at(story.state) == until
    story.cycle(ClockAdvanced(), after=1)
    story.expect("ReservationDropped", job="low", reason="expired")
    assert story.job("low").reservation == []


def test_the_reservation_expires(tell):
    story = tell(policy(preemption={"reservation_expiry": "1m"}))
    moving(story)
    story.begin("low")
    story.wait(HOUR)
    dropped = [decision.job for decision in story.decisions("ReservationDropped")]
    assert dropped[:1] == ["high"] or story.job("low").reservation == []
    assert story.job("low").reservation == []


def test_a_cancelled_job_loses_its_reservation(story):
    moving(story)
    story.cancel("low", after=MINUTE)
    assert story.state.nodes[1].reserved.devices == 0


def test_a_scaled_job_is_placed_anew(story):
    moving(story)
    story.scale("low", 2)
    assert (story.job("low").reservation, story.state.nodes[1].reserved.devices) == ([], 0)


def test_its_reservation_may_be_on_resources_of_another_victim_of_the_decision(story):
    """`pair` is reserved on n2 and on the resources of `lower` on n1; `urgent` takes n1 from everyone, and `low` gets n2."""
    story.node("n1", gpus=8)
    story.runs("low", gpus=4)
    story.runs("lower", gpus=4)
    story.node("n2", gpus=4)
    story.submit("pair", gpus=4, tasks=2, cls="interactive")
    story.propose()
    assert {task.node for task in story.job("pair").tasks} == {0, 1}
    story.submit("urgent", gpus=8, cls="inference")
    story.propose()
    assert story.job("pair").phase == "pending"
    assert [task.node for task in story.job("low").reservation] == [1]
    assert story.state.nodes[1].reserved.devices == 0b1111


def shrinking(story):
    """`wide` may lose three of its four tasks, all on n1; `high` requests half of n1, and one of them fits on n2."""
    story.node("n1", gpus=8)
    story.runs("wide", gpus=2, tasks=4, min_tasks=1)
    story.submit("high", gpus=4, cls="interactive")
    story.node("n2", gpus=2)
    story.propose()
    (choice,) = story.expect("PreemptionDecided").victims
    assert (choice.tasks, [(share.node, share.tasks) for share in choice.moved_to]) == ("2-3", [(1, "2")])


def test_evicted_surplus_has_a_reservation_while_its_job_continues(story):
    shrinking(story)
    assert story.job("wide").phase == "running"
    assert [(task.index, task.node) for task in story.job("wide").reservation] == [(2, 1)]
    story.submit("other", gpus=2)
    story.expect("JobPending", job="other")


def test_relocated_surplus_rejoins_its_job_in_the_same_attempt(story):
    shrinking(story)
    story.yields("wide")
    story.expect("JobShrunk", job="wide", tasks="2-3")
    grown = story.expect("JobGrown", job="wide")
    assert (grown.attempt, grown.reserved, grown.action) == (1, True, "preempt")
    story.expect("JobStarting", job="wide", tasks="2")
    story.expect("JobStarting", job="high")
    assert (story.job("wide").reservation, story.job("wide").task(2).node) == ([], 1)
    story.started("wide")
    assert story.members("wide", "running") == [0, 1, 2]


def test_surplus_of_an_abandoned_preemption_stays_and_loses_its_reservation(story):
    shrinking(story)
    story.cancel("high")
    story.expect("EvictionCancelled", job="wide", tasks="2-3", notified=False)
    assert (story.job("wide").reservation, story.state.nodes[1].reserved.devices) == ([], 0)
    assert story.members("wide", "running") == [0, 1, 2, 3]


def test_surplus_whose_eviction_is_cancelled_after_the_notice_loses_its_reservation(story):
    shrinking(story)
    story.begin("wide")
    story.cancel("high")
    assert (story.job("wide").reservation, story.state.nodes[1].reserved.devices) == ([], 0)
    story.eviction_cancelled("wide", task=2)
    story.cancel_eviction_refused("wide", task=3)
    story.yields("wide")
    story.expect("JobShrunk", job="wide", tasks="3")


def test_the_reservation_of_surplus_is_lost_with_its_node(story):
    shrinking(story)
    story.silent("n2")
    story.expect("ReservationDropped", job="wide", reason="resources-lost", tasks="2")
    assert story.job("wide").reservation == []
    story.yields("wide")
    story.expect("JobShrunk", job="wide", tasks="2-3")
    assert story.members("wide") == [0, 1]


def test_the_reservation_of_surplus_expires(tell):
    story = tell(policy(preemption={"reservation_expiry": "1m"}))
    shrinking(story)
    story.begin("wide")
    story.wait(HOUR)
    assert story.job("wide").reservation == []


@pytest.mark.parametrize("end", ["cancel", "failure", "finish"])
def test_a_reservation_for_surplus_is_not_one_for_the_job(story, end):
    """A job never restarts on a reservation smaller than its minimum, whatever happens during the eviction of members."""
    shrinking(story)
    story.begin("wide")
    if end == "cancel":
        story.cancel("wide")
    elif end == "failure":
        story.exits("wide", 1, task=0)
        story.expect("EvictionDecided", job="wide", cause="gang-failure", tasks="")
    else:
        story.ends("wide", 85)
        again = [placed for placed in story.decisions("JobPlaced") if placed.job == "wide" and placed.attempt > 1]
        assert all(placed.action == "allocate" for placed in again)
    assert (story.job("wide").reservation, story.state.nodes[1].reserved.devices) == ([], 0)


def test_a_member_that_succeeds_during_its_eviction_loses_its_reservation(story):
    shrinking(story)
    story.begin("wide")
    story.ends("wide", 0, task=2)
    assert (story.job("wide").reservation, story.state.nodes[1].reserved.devices) == ([], 0)


def test_to_free_one_node_only_surplus_is_relocated(tell):
    story = tell(policy(preemption={"max_migrations": None}))
    story.node("n1", gpus=8)
    story.runs("wide", gpus=2, tasks=4, min_tasks=1)
    story.submit("peer", gpus=4)
    story.node("n2", gpus=2)
    story.node("n3", gpus=2)
    story.propose()
    decided = story.expect("PreemptionDecided")
    assert (decided.action, [(choice.tasks, choice.relocated) for choice in decided.victims]) == ("consolidate", [("2-3", True)])
    story.yields("wide")
    story.expect("JobStarting", job="peer")
    story.started("wide")
    assert {task.index: task.node for task in story.job("wide").tasks} == {0: 0, 1: 0, 2: 1, 3: 2}
    assert story.job("wide").attempt == 1
