"""Jobs that leave for a place that is kept for them."""

from tests.log_builder import HOUR, MINUTE, policy


def moving(story):
    """`low` runs on n1, `high` wants all of n1, and n2 has room for `low`."""
    story.node("n1", gpus=8)
    story.runs("low", gpus=4)
    story.submit("high", gpus=8, cls="interactive")
    story.node("n2", gpus=4)
    story.propose()
    (choice,) = story.expect("PreemptionDecided").victims
    assert [(share.node, share.devices) for share in choice.moved] == [(1, "0-3")]


def test_the_place_is_kept_while_it_leaves(story):
    moving(story)
    assert [task.node for task in story.job("low").promise] == [1]
    assert story.pool.nodes[1].reserved.devices == 0b1111
    story.submit("other", gpus=2)
    story.expect("JobWaits", job="other")


def test_it_goes_straight_to_its_new_place(story):
    moving(story)
    story.yields("low")
    story.expect("JobRequeued", job="low", cause="preemption")
    placed = story.expect("JobPlaced", job="low")
    assert (placed.attempt, placed.reserved, placed.verb) == (2, True, "preempt")
    story.expect("JobStartOrdered", job="low")
    story.expect("JobStartOrdered", job="high")
    assert story.job("low").promise == []


def test_given_up_the_place_is_free_again(story):
    moving(story)
    story.cancel("high")
    story.expect("EvictionWithdrawn", job="low")
    assert (story.job("low").promise, story.pool.nodes[1].reserved.devices) == ([], 0)


def test_the_place_is_gone(story):
    moving(story)
    story.silent("n2")
    story.expect("ReservationDropped", job="low", reason="room-gone")
    assert story.job("low").promise == []


def test_the_place_is_not_kept_for_ever(tell):
    story = tell(policy(preemption={"reservation_expiry": "1m"}))
    moving(story)
    story.begin("low")
    story.wait(HOUR)
    assert [dropped.job for dropped in story.decisions("ReservationDropped")][:1] == ["high"] or story.job("low").promise == []
    assert story.job("low").promise == []


def test_cancelled_it_needs_no_place(story):
    moving(story)
    story.cancel("low", after=MINUTE)
    assert story.pool.nodes[1].reserved.devices == 0


def test_scaled_it_is_placed_anew(story):
    moving(story)
    story.scale("low", 2)
    assert (story.job("low").promise, story.pool.nodes[1].reserved.devices) == ([], 0)


def test_its_new_place_may_be_what_another_loses_by_the_same_decision(story):
    """`pair` was promised n2 and what `lower` leaves on n1; `urgent` takes n1 from everyone, and `low` gets n2."""
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
    assert [task.node for task in story.job("low").promise] == [1]
    assert story.pool.nodes[1].reserved.devices == 0b1111
