"""A log that was cut short: what tells of it, and when it has settled."""

import pytest
from tests.unit.admission.test_reports import announced, report

from bailiff_admission.loss import BeyondTheLog, Settling, beyond_log, look_at_command, look_at_report
from bailiff_bus.messages import Evict, Fence, NodeHeartbeat
from bailiff_bus.messages.commands import CommandBody, Order
from bailiff_bus.messages.reports import FenceSeen
from bailiff_bus.port import Message
from bailiff_core.canonical import canonical_json
from bailiff_core.records.facts import LogTruncated


def sent(body: CommandBody) -> Message:
    return Message("bailiff.node-commands", 0, 0, 0, None, (), canonical_json(body.to_data()))


def fence(epoch):
    return Fence(node="n1", incarnation="n1-life-1", sender="admission", sender_epoch=epoch)


def evict(epoch, seq):
    return Evict(
        node="n1", incarnation="n1-life-1", sender="executor", sender_epoch=epoch, order=Order(epoch=epoch, seq=seq),
        job="low", attempt=1, tasks=(0,), grace=0, cause="preemption",
    )  # fmt: skip


def test_a_record_that_an_agent_has_obeyed_is_in_the_log_or_lost(story):
    pool = story.pool
    assert not beyond_log(pool, pool.epoch, pool.seq)
    assert beyond_log(pool, pool.epoch, pool.seq + 1)
    assert beyond_log(pool, pool.epoch + 1, pool.seq), "the same number, of a writer that the log does not know"
    look_at_report(pool, report(NodeHeartbeat, fence=FenceSeen(epoch=pool.epoch, seq=pool.seq)))
    with pytest.raises(BeyondTheLog, match=rf"n1 .*#{pool.seq + 1} of epoch {pool.epoch}"):
        look_at_report(pool, report(NodeHeartbeat, fence=FenceSeen(epoch=pool.epoch, seq=pool.seq + 1)))


def test_a_writer_that_was_heard_of_and_ordered_nothing_is_missed_too(story):
    """Its successor would take its epoch again, and agents would refuse all that it says."""
    pool = story.pool
    look_at_report(pool, report(NodeHeartbeat, fence=FenceSeen(heard=pool.epoch)))
    with pytest.raises(BeyondTheLog) as found:
        look_at_report(pool, report(NodeHeartbeat, fence=FenceSeen(heard=pool.epoch + 1)))
    assert (found.value.epoch, found.value.seq) == (pool.epoch + 1, 0)


def test_commands_tell_of_what_is_lost_before_any_agent_does(story):
    pool = story.pool
    look_at_command(pool, sent(evict(pool.epoch, pool.seq)))
    look_at_command(pool, Message("bailiff.node-commands", 0, 0, 0, None, (), b"[1]"))
    for lost in (evict(pool.epoch, pool.seq + 5), fence(pool.epoch + 2)):
        with pytest.raises(BeyondTheLog):
            look_at_command(pool, sent(lost))


def test_what_was_given_up_is_no_loss_any_more(story):
    pool = story.pool
    end = pool.seq
    story.turn(LogTruncated(request=story.request(), epoch=pool.epoch + 1, seq=end + 50))
    look_at_command(pool, sent(evict(pool.epoch + 1, end + 50)))
    look_at_command(pool, sent(fence(pool.epoch + 1)))
    with pytest.raises(BeyondTheLog):
        look_at_command(pool, sent(fence(pool.epoch + 2)))


def test_a_log_has_settled_when_every_node_has_answered_this_writer_and_what_came_before_was_read(story):
    story.turn(LogTruncated(request=story.request(), epoch=story.pool.epoch, seq=story.pool.seq + 9))
    pool, settling = story.pool, Settling(until={"bailiff.node-reports/0": 7})
    nodes = [node for node in pool.nodes.values() if node.state != "lost"]

    def says(node, heard):
        body = announced(node.name).model_copy(update={"incarnation": node.incarnation, "fence": FenceSeen(heard=heard)})
        return settling.heard(pool, body)

    before = [says(node, heard=pool.epoch - 1) for node in nodes]
    assert not any(before), "they said it to another writer: they are to be asked"
    assert not settling.is_over(pool, {"bailiff.node-reports/0": 7})
    now = [says(node, heard=pool.epoch) for node in nodes]
    assert all(now)
    assert not settling.is_over(pool, {"bailiff.node-reports/0": 6})
    assert settling.is_over(pool, {"bailiff.node-reports/0": 7})
