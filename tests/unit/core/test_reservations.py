"""Resources reserved for a pending gang, and how a reservation ends."""

import pytest
from tests.log_builder import HOUR, MINUTE, SECOND, policy


def promised(story):
    """`high` waits on its reservation for `low` to leave n1."""
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("high", gpus=8, cls="interactive")
    story.propose()
    story.expect("PreemptionDecided")
    assert story.job("high").phase == "reserved"


def test_reserved_resources_go_to_no_other_job(story):
    promised(story)
    story.begin("low")
    story.submit("higher", gpus=8, cls="interactive")
    story.exits("low", 85)
    story.submit("another", gpus=1)
    assert {"another", "higher"} <= set(story.state.queue)
    story.releases("low")
    story.expect("JobStarting", job="high")


def test_a_reservation_expires(story):
    promised(story)
    decided = next(story.decisions("PreemptionDecided"))
    story.begin("low", after=decided.expires - story.time - SECOND)
    story.wait(SECOND)
    story.expect("ReservationDropped", job="high", reason="expired")
    story.expect("EvictionCancelled", job="low", notified=True)


def test_a_reservation_ends_with_its_node(story):
    promised(story)
    story.silent("n1")
    story.expect("ReservationDropped", job="high", reason="resources-lost")
    story.expect("EvictionCancelled", job="low", notified=False)
    assert story.phases() == {"low": "running", "high": "pending"}


def test_a_reservation_ends_when_a_device_fails(story):
    promised(story)
    story.node("n1", gpus=8, sick=[3])
    story.expect("ReservationDropped", job="high", reason="resources-lost")


def test_an_abandoned_preemption_drops_its_reservation(story):
    promised(story)
    story.node("n2", gpus=8)
    story.abandon("high")
    story.expect("ReservationDropped", job="high", reason="abandoned")
    story.expect("EvictionCancelled", job="low", notified=False)
    story.expect("JobPlaced", job="high", reserved=False)
    assert story.phases() == {"low": "running", "high": "starting"}


def test_a_reservation_by_allocate(story):
    story.node("n1", gpus=8)
    story.runs("done", gpus=8)
    story.submit("next", gpus=8)
    story.exits("done", 0)
    placed = story.expect("JobPlaced", job="next", reserved=True)
    assert placed.expires == story.time + 600 * SECOND
    story.releases("done")
    story.expect("JobStarting", job="next")


def test_an_expired_reservation_is_made_again(story):
    story.node("n1", gpus=8)
    story.runs("done", gpus=8)
    story.exits("done", 0)
    story.submit("next", gpus=8)
    story.wait(10 * MINUTE)
    story.expect_only("ReservationDropped", "JobPlaced")
    story.releases("done")
    story.expect("JobStarting", job="next", attempt=2)


def test_a_stuck_eviction_is_not_counted_on(story):
    promised(story)
    story.begin("low")
    story.wait(150 * SECOND + 120 * SECOND)
    story.expect("EvictionStuck", job="low")
    story.expect("ReservationDropped", job="high", reason="resources-lost")
    assert story.state.nodes[0].releasing.devices == 0
    story.submit("other", gpus=1)
    story.expect("JobPending", job="other")
    story.ends("low", 85)
    assert story.job("low").phase == "pending"
    story.expect("JobPlaced", job="high", reserved=False)


def test_cpu_and_memory_are_reserved_too(story):
    from bailiff_core.model.demand import TaskGroup

    story.node("n1", gpus=0, cpu=10, gib=10)
    story.runs("low", TaskGroup(cpu_milli=8000))
    story.submit("high", TaskGroup(cpu_milli=5000), cls="interactive")
    story.propose()
    story.expect("PreemptionDecided")
    story.submit("small", TaskGroup(cpu_milli=1000))
    story.expect("JobPlaced", job="small", reserved=False)
    story.submit("more", TaskGroup(cpu_milli=2000))
    story.expect("JobPlaced", job="more", reserved=True)
    story.yields("low")
    assert {decision.job for decision in story.last_decisions if type(decision).__name__ == "JobStarting"} == {"high", "more"}


@pytest.mark.parametrize("field", ["reservation_expiry", "selection_timeout", "selection_backoff"])
def test_a_reservation_expiry_of_zero_is_an_invalid_policy(field):
    with pytest.raises(ValueError, match=field):
        policy(preemption={field: 0})


def test_a_victim_that_runs_beyond_the_reservation_expiry(story):
    promised(story)
    story.wait(HOUR)
    # Never begun: the promise expires, the victim is spared, and it is all asked again.
    story.expect("ReservationDropped", job="high", reason="expired")
    story.expect("EvictionCancelled", job="low", notified=False)
    assert story.job("low").phase == "running"
