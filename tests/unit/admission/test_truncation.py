"""A truncated log: how it is detected, and when reconciliation is over."""

import pytest
from tests.kits.log_builder import DAY, NEW_YEAR
from tests.kits.log_builder import Story as LogStory
from tests.kits.memory_bus import MemoryCluster
from tests.unit.admission.kit import announced, report

from bailiff_admission.agent_values import MAX_OF_NODE
from bailiff_admission.truncation import (
    TruncationDetected,
    TruncationReconciliation,
    beyond_log_end,
    check_command,
    check_report,
    detect_truncation,
    newest,
)
from bailiff_bus import topics
from bailiff_bus.envelope import InvalidMessage, unwrap, wrap
from bailiff_bus.messages.commands import CommandBody, Evict, Fence, RecordRef, SendInventory
from bailiff_bus.messages.reports import FenceStatus, NodeHeartbeat
from bailiff_bus.port import Message
from bailiff_core.canonical import canonical_json
from bailiff_core.model.document import MAX_INTEGER
from bailiff_core.records.facts import LogTruncated, NodeLost
from bailiff_log.credentials import make_credentials
from bailiff_log.keys import new_private_key
from bailiff_log.message_signatures import wrap_signed
from bailiff_log.order_evidence import evidence_of, subject_of

ROOT = new_private_key()

NOW = 1_800_000_000_000_000  # µs UTC


def sent(body: CommandBody) -> Message:
    return Message("bailiff.node-commands", 0, 0, 0, None, (), canonical_json(body.to_data()))


def fence(epoch):
    return Fence(node="n1", incarnation="n1-life-1", sender="admission", sender_epoch=epoch)


def evict(epoch, seq):
    return Evict(
        node="n1",
        incarnation="n1-life-1",
        sender="executor",
        sender_epoch=epoch,
        ordered_by=RecordRef(epoch=epoch, seq=seq),
        job="low",
        attempt=1,
        tasks=(0,),
        grace=0,
        cause="preemption",
    )


def test_a_record_that_an_agent_has_obeyed_is_in_the_log_or_lost(story):
    state = story.state
    assert not beyond_log_end(state, state.epoch, state.seq)
    assert beyond_log_end(state, state.epoch, state.seq + 1)
    assert beyond_log_end(state, state.epoch + 1, state.seq), "the same number, of a writer that the log does not know"
    check_report(state, report(NodeHeartbeat, fence=FenceStatus(epoch=state.epoch, seq=state.seq)))
    with pytest.raises(TruncationDetected, match=rf"n1 .*#{state.seq + 1} of epoch {state.epoch}"):
        check_report(state, report(NodeHeartbeat, fence=FenceStatus(epoch=state.epoch, seq=state.seq + 1)))


def test_an_earlier_writer_that_sent_no_command_is_detected_too(story):
    """Its successor would take its epoch again, and agents would refuse all that it says."""
    state = story.state
    check_report(state, report(NodeHeartbeat, fence=FenceStatus(newest_epoch=state.epoch)))
    with pytest.raises(TruncationDetected) as found:
        check_report(state, report(NodeHeartbeat, fence=FenceStatus(newest_epoch=state.epoch + 1)))
    assert (found.value.epoch, found.value.seq) == (state.epoch + 1, 0)


def test_commands_prove_lost_records_before_any_agent_report(story):
    state = story.state
    check_command(state, sent(evict(state.epoch, state.seq)))
    check_command(state, Message("bailiff.node-commands", 0, 0, 0, None, (), b"[1]"))
    for lost in (evict(state.epoch, state.seq + 5), fence(state.epoch + 2)):
        with pytest.raises(TruncationDetected):
            check_command(state, sent(lost))


def test_an_accepted_truncation_is_no_loss_any_more(story):
    state = story.state
    end = state.seq
    story.cycle(LogTruncated(request=story.request(), epoch=state.epoch + 1, seq=end + 50))
    check_command(state, sent(evict(state.epoch + 1, end + 50)))
    check_command(state, sent(fence(state.epoch + 1)))
    with pytest.raises(TruncationDetected):
        check_command(state, sent(fence(state.epoch + 2)))


def cut_short(story):
    """The operator has accepted that a part of the log is lost."""
    story.cycle(LogTruncated(request=story.request(), epoch=story.state.epoch, seq=story.state.seq + 9))
    return story.state


def inventory(pool, node, incarnation, known_epoch=None):
    body = announced(node)
    seen = FenceStatus(newest_epoch=pool.epoch if known_epoch is None else known_epoch)
    return body.model_copy(update={"incarnation": incarnation, "fence": seen})


def all_answer(reconciliation, pool):
    for node in pool.nodes.values():
        assert reconciliation.observe(pool, inventory(pool, node.name, node.incarnation), NOW)


def longest_life(pool):
    """Without a word to Kafka, of an agent's tasks."""
    return pool.rules.nodes.lease + pool.rules.nodes.lost_margin


def test_a_log_has_settled_when_every_node_has_answered_this_writer_and_what_came_before_was_read(story):
    pool, reconciliation = cut_short(story), TruncationReconciliation(until={"bailiff.node-reports/0": 7})
    nodes = [node for node in pool.nodes.values() if node.state != "lost"]

    def says(node, known_epoch):
        return reconciliation.observe(pool, inventory(pool, node.name, node.incarnation, known_epoch), NOW)

    before = [says(node, known_epoch=pool.epoch - 1) for node in nodes]
    assert not any(before), "they said it to another writer: they are to be asked"
    assert not reconciliation.is_over(pool, {"bailiff.node-reports/0": 7}, NOW)
    now = [says(node, known_epoch=pool.epoch) for node in nodes]
    assert all(now)
    assert not reconciliation.is_over(pool, {"bailiff.node-reports/0": 6}, NOW)
    assert reconciliation.is_over(pool, {"bailiff.node-reports/0": 7}, NOW)


def test_reconciliation_waits_for_a_node_missing_from_the_log_once_it_has_reported(story):
    pool, reconciliation = cut_short(story), TruncationReconciliation()
    all_answer(reconciliation, pool)
    assert not reconciliation.observe(pool, report(NodeHeartbeat, node="n9"), NOW), "it is to be asked"
    assert not reconciliation.is_over(pool, {}, NOW)
    assert reconciliation.observe(pool, inventory(pool, "n9", "n9-life-1"), NOW + 1)
    assert reconciliation.is_over(pool, {}, NOW + 1)


def test_of_the_incarnations_that_a_node_invents_few_inventories_are_remembered(story):
    pool, reconciliation = cut_short(story), TruncationReconciliation()
    for number in range(100):
        assert reconciliation.observe(pool, inventory(pool, "n9", f"n9-life-{number}"), NOW)
    remembered = [
        number for number in range(100) if reconciliation.observe(pool, report(NodeHeartbeat, node="n9", life=number), NOW)
    ]
    assert remembered == [*range(100 - MAX_OF_NODE, 100)]


def test_reconciliation_waits_for_a_silent_node_missing_from_the_log_until_its_leases_expired(story):
    pool, reconciliation = cut_short(story), TruncationReconciliation()
    all_answer(reconciliation, pool)
    reconciliation.observe(pool, report(NodeHeartbeat, node="n9"), NOW)
    assert not reconciliation.is_over(pool, {}, NOW + longest_life(pool) - 1)
    assert reconciliation.is_over(pool, {}, NOW + longest_life(pool))


def test_reconciliation_waits_for_a_node_whose_rejoin_was_lost_although_its_name_is_known(story):
    pool, reconciliation = cut_short(story), TruncationReconciliation()
    all_answer(reconciliation, pool)
    reconciliation.observe(pool, report(NodeHeartbeat, node="n1", life=7), NOW)
    assert not reconciliation.is_over(pool, {}, NOW)


def test_reconciliation_does_not_wait_again_for_a_node_declared_lost(story):
    story.cycle(NodeLost(node="n2", last_contact=0))
    pool, reconciliation = cut_short(story), TruncationReconciliation()
    reconciliation.observe(pool, report(NodeHeartbeat, node="n2"), NOW)
    reconciliation.observe(pool, inventory(pool, "n1", "n1-life-1"), NOW)
    assert reconciliation.is_over(pool, {}, NOW)


HEARTBEAT = report(NodeHeartbeat, node="n9")
QUESTION = SendInventory(node="n9", incarnation="n9-life-1", sender="admission", sender_epoch=1)


@pytest.mark.parametrize(("topic", "body"), [(topics.NODE_REPORTS, HEARTBEAT), (topics.NODE_COMMANDS, QUESTION)])
async def test_reconciliation_waits_for_a_node_known_only_to_an_earlier_writer(story, topic, body):
    pool, bus, reconciliation = cut_short(story), Topics(), TruncationReconciliation()
    bus.put(topic, body, at=NOW - 5)
    await reconciliation.begin(pool, bus.client("admission"), NOW)
    all_answer(reconciliation, pool)
    assert not reconciliation.is_over(pool, reconciliation.until, NOW - 5 + longest_life(pool) - 1)
    assert reconciliation.is_over(pool, reconciliation.until, NOW - 5 + longest_life(pool))


@pytest.mark.parametrize(("left", "since"), [(0, NOW), (1, NOW - 20)])
async def test_where_reports_are_lost_too_reconciliation_waits_for_every_possible_sender(story, left, since):
    pool, bus = cut_short(story), Topics()
    for at in (NOW - 30, NOW - 20):
        bus.put(topics.NODE_REPORTS, report(NodeHeartbeat, node="n1"), at=at)
    bus.keep_newest(topics.NODE_REPORTS, left)
    reconciliation = TruncationReconciliation()
    await reconciliation.begin(pool, bus.client("admission"), NOW)
    all_answer(reconciliation, pool)
    assert reconciliation.until == {"bailiff.node-reports/0": 2}
    assert not reconciliation.is_over(pool, reconciliation.until, since + longest_life(pool) - 1)
    assert reconciliation.is_over(pool, reconciliation.until, since + longest_life(pool))


async def test_the_newest_messages_are_found_where_the_oldest_are_gone():
    bus = Topics()
    for number in range(5):
        bus.put(topics.NODE_REPORTS, report(NodeHeartbeat, number=number), at=NOW)
    bus.keep_newest(topics.NODE_REPORTS, 2)
    for count, positions, offsets in ((100, {}, [3, 4]), (1, {}, [4]), (100, {"bailiff.node-reports/0": 4}, [4])):
        found = newest(bus.client("admission"), topics.NODE_REPORTS.name, "test", count, positions)
        assert [message.offset async for message in found] == offsets


async def test_nobody_hides_a_report_by_thousands_of_others_after_it(story):
    bus, state = Topics(), story.state
    ahead = FenceStatus(epoch=state.epoch, seq=state.seq + 1)
    bus.put(topics.NODE_REPORTS, report(NodeHeartbeat, fence=ahead), at=NOW)
    for number in range(3_000):
        bus.put(topics.NODE_REPORTS, report(NodeHeartbeat, number=number, node=f"invented-{number}"), at=NOW)
    with pytest.raises(TruncationDetected, match=rf"n1 .*#{state.seq + 1} "):
        await detect_truncation(state, bus.client("admission"), {}, lambda *_: None)


class Topics(MemoryCluster):
    """Reports and commands, each appended when the story says."""

    def __init__(self):
        super().__init__(lambda: self.at)
        self.at = NOW
        for topic in (topics.NODE_REPORTS, topics.NODE_COMMANDS):
            self.add_partitions(topic.name, 1)

    def put(self, topic, body, at):
        self.at = at
        self.store(topic.name, 0, None, *wrap(body, source="/some", id="1", pool="test", time_us=at))

    def keep_newest(self, topic, left):
        """Retention deletes the others."""
        self.trim(topic.name, 0, self.partitions(topic.name)[0].end - left)


# --- in a signed pool, a report is believed with evidence only


@pytest.fixture
def signed(tmp_path):
    """A signed pool, with the credentials of its admission."""
    owner = make_credentials(tmp_path / "a", ROOT, role="admission", name="a", not_before=0, expires=NEW_YEAR + DAY)
    story = LogStory(credentials=owner)
    story.node("n1", gpus=8)
    return story


def obeyed(owner, command, pool="test", node=None):
    """What an agent keeps of a command that this participant has sent."""
    subject = subject_of(command if node is None else command.model_copy(update={"node": node}), pool)
    headers, value = wrap_signed(owner, command, source="/a", id="1", pool=pool, time_us=NEW_YEAR, subject=subject)
    return evidence_of(unwrap(Message("bailiff.node-commands", 0, 0, 0, None, headers, value)))


def test_a_signed_command_is_evidence_that_the_log_was_cut(signed):
    state = signed.state
    lost = evict(state.epoch, state.seq + 1)
    status = FenceStatus(epoch=state.epoch, seq=state.seq + 1, evidence=(obeyed(signed.credentials, lost),))
    with pytest.raises(TruncationDetected) as found:
        check_report(state, report(NodeHeartbeat, fence=status))
    assert (found.value.epoch, found.value.seq) == (state.epoch, state.seq + 1)
    status = FenceStatus(newest_epoch=state.epoch + 1, evidence=(obeyed(signed.credentials, fence(state.epoch + 1)),))
    with pytest.raises(TruncationDetected):
        check_report(state, report(NodeHeartbeat, fence=status))


def test_a_node_without_evidence_cannot_stop_the_pool(signed, tmp_path):
    state = signed.state
    lost = evict(state.epoch, state.seq + 1)
    intruder = make_credentials(tmp_path / "b", new_private_key(), role="admission", name="b", not_before=0, expires=NEW_YEAR)
    agent = make_credentials(tmp_path / "c", ROOT, role="node", name="n1", not_before=0, expires=NEW_YEAR + DAY)
    older = obeyed(signed.credentials, evict(state.epoch, state.seq))
    for evidence, reason in [
        ((), "it has no evidence"),
        ((obeyed(intruder, lost),), "is not signed with the pool's root key"),
        ((obeyed(agent, lost),), "does not permit to act as"),
        ((obeyed(signed.credentials, lost, node="n2"),), "it is a command to n2"),
        ((obeyed(signed.credentials, lost, pool="other"),), "it is a command to n1 of other"),
        ((older,), "beyond the log"),
        ((older.model_copy(update={"subject": subject_of(lost, "test")}),), "signature is not that of the command's sender"),
    ]:
        status = FenceStatus(epoch=state.epoch, seq=state.seq + 1, evidence=evidence)
        with pytest.raises(InvalidMessage, match=reason):
            check_report(state, report(NodeHeartbeat, fence=status))


def test_a_command_counts_with_the_signature_of_who_may_send_it(signed):
    state = signed.state
    lost = evict(state.epoch, state.seq + 1)
    check_command(state, sent(lost))
    headers, value = wrap_signed(signed.credentials, lost, source="/a", id="1", pool="test", time_us=NEW_YEAR)
    with pytest.raises(TruncationDetected):
        check_command(state, Message("bailiff.node-commands", 0, 0, NEW_YEAR, None, headers, value))


@pytest.mark.parametrize(
    "far", [{"epoch": MAX_INTEGER}, {"epoch": 1, "seq": MAX_INTEGER}, {"newest_epoch": MAX_INTEGER}], ids=str
)
def test_nobody_names_a_record_that_no_log_can_have_had(story, far):
    """Recovery would continue in a higher epoch, which no record could hold."""
    with pytest.raises(InvalidMessage, match="which no log of this pool can have had"):
        check_report(story.state, report(NodeHeartbeat, fence=FenceStatus(**far)))
