"""Resending of starts that no agent has confirmed: when, and to which incarnation."""

from tests.unit.admission.kit import Watch, announced

from bailiff_admission.pending_commands import RESEND_AFTER, PendingStarts
from bailiff_admission.request_handlers.reports import facts_of_report


def due(starts, story):
    return [(job.id, node.incarnation) for job, node, _ in starts.due(story.state)]


def test_a_start_is_resent_with_exponential_backoff(story):
    watch = Watch()
    starts = PendingStarts(watch.clock_and_ids)
    story.submit("new")
    for pause in (RESEND_AFTER, 2 * RESEND_AFTER):
        assert due(starts, story) == [("new", "n2-life-1")]
        watch.passes(pause - 1)
        assert due(starts, story) == []
        watch.passes(1)


def test_a_restarted_agent_is_sent_the_start_at_once(story):
    starts = PendingStarts(Watch().clock_and_ids)
    story.submit("new")
    assert due(starts, story) == [("new", "n2-life-1")]
    story.cycle(*facts_of_report(story.state, announced("n2")))
    assert due(starts, story) == [("new", "n2-life-2")]
    assert due(starts, story) == []
