"""Truncated logs: detecting missing records, and reconciling with agents (docs/reference/log-protocol-fences.md#truncation)."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Literal

from bailiff_bus import topics
from bailiff_bus.envelope import InvalidMessage, pool_of, unwrap
from bailiff_bus.messages.commands import CommandBody
from bailiff_bus.messages.reports import NodeHeartbeat, NodeInventory, ReportBody
from bailiff_bus.port import Bus, Message, OffsetOutOfRange
from bailiff_core.admission import Evidence, ReceivedRequest, admit_received
from bailiff_core.model.state import PoolState
from bailiff_core.records.payload import Fact
from bailiff_core.records.pool_requests import AcceptTruncation
from bailiff_core.records.request import RequestBody
from bailiff_log.keys import known_keys
from bailiff_log.message_signatures import check_sender, trust_of
from bailiff_log.order_evidence import InvalidEvidence, shown_positions
from bailiff_log.signatures import Identity, verify

from .agent_values import AgentValues
from .log_bounds import is_plausible
from .request_handlers.enrolment import is_of_newest_agent

NEWEST_REPORTS, NEWEST_COMMANDS = 20_000, 5_000
"""Of each partition: seconds of work. Whoever floods a topic with more hides what is older until the agents' next heartbeats."""
LONGEST_WAIT = 0.2

Position = tuple[int, int]


class TruncationDetected(Exception):
    """A node refers to a record that the log lacks: the log was truncated. (epoch, seq): the record; seq 0: a writer's epoch."""

    def __init__(self, node: str, epoch: int, seq: int) -> None:
        super().__init__(f"{node} refers to #{seq} of epoch {epoch}, which this log does not contain: the log was truncated")
        self.node, self.epoch, self.seq = node, epoch, seq


def beyond_log_end(state: PoolState, epoch: int, seq: int) -> bool:
    """Whether the log lacks record `seq` of that epoch and no operator has accepted the loss. seq 0: the epoch's writer."""
    if (epoch, seq) <= state.accepted_truncation or (epoch, seq) == (0, 0):
        return False
    if seq == 0:
        return epoch > max(state.epoch, state.accepted_truncation[0])
    return seq > state.seq or state.epoch_of(seq) != epoch


async def detect_truncation(state: PoolState, bus: Bus, positions: dict[str, int], observe: Callable[[str, str], None]) -> None:
    """Check recent reports and commands for records that the log lacks. Raises `TruncationDetected`.

    observe: called with node and incarnation of each report, in a signed pool only of those that the node itself has signed.
    """
    farthest: TruncationDetected | None = None

    async def search(topic: str, count: int, since: dict[str, int], check: Callable[[Message], None]) -> None:
        nonlocal farthest
        async with aclosing(newest(bus, topic, state.pool, count, since)) as found:
            async for message in found:
                try:
                    check(message)
                except TruncationDetected as loss:
                    farthest = max(farthest or loss, loss, key=lambda each: (each.epoch, each.seq))

    def check_reported(message: Message) -> None:
        with suppress(InvalidMessage):
            envelope = unwrap(message, accept=(ReportBody,))
            report = envelope.body
            check_report(state, report)
            if isinstance(report, ReportBody) and is_of_newest_agent(state, envelope, report, message.time):
                observe(report.node, report.incarnation)

    await search(topics.NODE_REPORTS.name, NEWEST_REPORTS, positions, check_reported)
    await search(topics.NODE_COMMANDS.name, NEWEST_COMMANDS, {}, lambda message: check_command(state, message))
    if farthest is not None:
        raise farthest


def check_report(state: PoolState, report: object) -> None:
    """Raise `TruncationDetected` if the agent has obeyed a record that the log lacks.

    Raises `InvalidMessage` for a claim that is not believed: in a signed pool, one without the signed command that named the
    record.
    """
    if not isinstance(report, NodeInventory | NodeHeartbeat):
        return
    fence = report.fence
    beyond = _beyond(state, report.node, [(fence.epoch, fence.seq), (fence.newest_epoch or 0, 0)])
    if not beyond:
        return
    if state.root_key:
        shown = _shown(state, report)
        beyond = [position for position in beyond if position in shown]
    if beyond:
        raise TruncationDetected(report.node, *max(beyond))


def check_command(state: PoolState, message: Message) -> None:
    """Raise `TruncationDetected` if the command refers to a record beyond the log. Only its positions are parsed.

    In a signed pool, a command that no certified key of admission or the executor has signed counts for nothing.
    """
    try:
        data = json.loads(message.value)
        order = data.get("ordered_by") or {"epoch": 0, "seq": 0}
        positions = [(int(order["epoch"]), int(order["seq"])), (int(data["sender_epoch"]), 0)]
    except (ValueError, TypeError, KeyError, AttributeError):
        return  # not written by a Bailiff service
    with suppress(InvalidMessage):
        beyond = _beyond(state, str(data.get("node")), positions)
        if beyond and state.root_key:
            check_sender(
                unwrap(message, accept=(CommandBody,)), trust_of(state), ("admission", "eviction-executor"), message.time
            )
        if beyond:
            raise TruncationDetected(str(data.get("node")), *max(beyond))


def _beyond(state: PoolState, node: str, positions: list[Position]) -> list[Position]:
    """Those of these positions that the log lacks. Raises `InvalidMessage` if it never can have had one of them."""
    beyond = [position for position in positions if beyond_log_end(state, *position)]
    for epoch, seq in beyond:
        if not is_plausible(state, epoch, seq):
            raise InvalidMessage("beyond-log", f"{node} names #{seq} of epoch {epoch}, which no log of this pool can have had")
    return beyond


def _shown(state: PoolState, report: NodeInventory | NodeHeartbeat) -> set[Position]:
    """The positions that the report's evidence shows. Raises `InvalidMessage` if it shows none of those that it names."""
    shown, reason = set[Position](), "it has no evidence"
    for each in report.fence.evidence:
        try:
            shown.update(
                shown_positions(each, pool=state.pool, node=report.node, root_keys=(state.root_key,), revoked=state.revoked_keys)
            )
        except InvalidEvidence as error:
            reason = str(error)
    fence = report.fence
    if not shown & {(fence.epoch, fence.seq), (fence.newest_epoch or 0, 0)}:
        named = f"#{fence.seq} of epoch {fence.epoch}, and writer epoch {fence.newest_epoch}"
        raise InvalidMessage("beyond-log", f"{report.node} names {named}, which is beyond the log: {reason}")
    return shown


async def newest(bus: Bus, topic: str, pool: str, count: int, positions: dict[str, int]) -> AsyncGenerator[Message, None]:
    """The newest messages of the pool, at most `count` per partition, none before these positions."""
    spans = await bus.spans(topic)
    begins = {at: max(positions.get(f"{topic}/{at}", 0), span.begin, span.end - count) for at, span in spans.items()}
    async with aclosing(_between(bus, topic, begins, {at: span.end for at, span in spans.items()})) as found:
        async for message in found:
            if pool_of(message) == pool:
                yield message


async def oldest_append_time(bus: Bus, topic: str, now: int) -> int:
    """Append time, µs, from which all partitions are complete: the latest of their oldest messages; `now` without any.

    0 if nothing was deleted.
    """
    begins = {at: span.begin for at, span in (await bus.spans(topic)).items() if span.begin > 0}
    oldest = dict.fromkeys(begins, now)
    async with aclosing(_between(bus, topic, begins, {at: begin + 1 for at, begin in begins.items()})) as found:
        async for message in found:
            oldest[message.partition] = min(message.time, oldest[message.partition])
    return max(oldest.values(), default=0)


async def _between(bus: Bus, topic: str, begins: dict[int, int], ends: dict[int, int]) -> AsyncGenerator[Message, None]:
    """Messages from `begins` at least up to `ends`; fewer if the topic is truncated meanwhile."""
    unread = [(topic, at, begin) for at, begin in begins.items() if begin < ends[at]]
    if not unread:
        return
    reader = await bus.reader(unread)
    try:
        while any(reader.position(topic, at) < ends[at] for _, at, _ in unread):
            messages = await reader.read(wait=LONGEST_WAIT)
            for message in messages:
                yield message
            if not messages:  # the topic may have been truncated, too
                ends = {at: min(ends[at], span.end) for at, span in (await bus.spans(topic)).items() if at in ends}
    except OffsetOutOfRange:
        pass  # the rest is read later
    finally:
        await reader.close()


@dataclass(slots=True)
class TruncationReconciliation:
    """Tracks which agents have sent an inventory to this writer; until all have, no task is started.

    Earlier reports are read again meanwhile, so that the log recovers lost facts. Tasks unknown to the log are evicted.

    If reports are lost as well, the log may lack an agent completely. Admission waits for a known agent until its lease and
    margin are over: then none of its tasks runs. If the retained reports are younger than that, there may be unknown agents,
    and admission waits for them in the same way.

    until: end of the reports when this writer started. oldest_append_time: reports before it may be lost. Times on the
    broker's clock, µs.
    """

    until: dict[str, int] = field(default_factory=dict)
    oldest_append_time: int = 0
    _last_seen: dict[str, tuple[int, str]] = field(default_factory=dict)
    _inventoried: AgentValues[bool] = field(default_factory=AgentValues)

    async def begin(self, state: PoolState, bus: Bus, now: int) -> None:
        """Collect agents from the retained reports and commands."""
        self.until = await ends_of_reports(bus)
        self.oldest_append_time = await oldest_append_time(bus, topics.NODE_REPORTS.name, now)
        for topic, count in ((topics.NODE_REPORTS, NEWEST_REPORTS), (topics.NODE_COMMANDS, NEWEST_COMMANDS)):
            async with aclosing(newest(bus, topic.name, state.pool, count, {})) as found:
                async for message in found:
                    with suppress(InvalidMessage):
                        body = unwrap(message, accept=(ReportBody, CommandBody)).body
                        assert isinstance(body, ReportBody | CommandBody)
                        self._note(body.node, body.incarnation, message.time)

    def observe(self, state: PoolState, report: ReportBody, append_time: int) -> bool:
        """Track the report. Returns False if an inventory of the agent is needed."""
        if not state.truncation_unreconciled:
            return True
        agent = report.node, report.incarnation
        self._note(*agent, append_time)
        if isinstance(report, NodeInventory) and (report.fence.newest_epoch is None or report.fence.newest_epoch >= state.epoch):
            self._inventoried.put(state, *agent, True)
        return self._has_answered(*agent)

    def is_over(self, state: PoolState, positions: dict[str, int], now: int) -> bool:
        """All earlier reports were read, and every node has sent an inventory, is lost, or cannot run tasks any more."""
        if any(positions.get(name, 0) < end for name, end in self.until.items()):
            return False
        joined = {node.name: node.incarnation for node in state.nodes.values()}
        if any(node.state != "lost" and not self._has_answered(node.name, node.incarnation) for node in state.nodes.values()):
            return False
        forgotten = [
            at
            for node, (at, incarnation) in self._last_seen.items()
            if joined.get(node) != incarnation and not self._has_answered(node, incarnation)
        ]
        longest = state.rules.nodes.lease + state.rules.nodes.lost_margin
        return all(at + longest <= now for at in (self.oldest_append_time, *forgotten))

    def _has_answered(self, node: str, incarnation: str) -> bool:
        return self._inventoried.get(node, incarnation) is not None

    def _note(self, node: str, incarnation: str, at: int) -> None:
        """Only the last incarnation of a node counts: its inventory includes tasks of earlier ones."""
        self._last_seen[node] = max((at, incarnation), self._last_seen.get(node, (0, "")))


async def ends_of_reports(bus: Bus) -> dict[str, int]:
    """End offsets of the node reports, by `topic/partition`."""
    topic = topics.NODE_REPORTS.name
    return {f"{topic}/{partition}": span.end for partition, span in (await bus.spans(topic)).items()}


def accepted(
    state: PoolState, message: Message, loss: TruncationDetected, unsigned: Literal["none", "acl"]
) -> tuple[Fact, Identity] | None:
    """An operator's `AcceptTruncation` of this loss as a fact, with the identity; None for any other message.

    One that is refused here is rejected on record once the log continues.
    """
    if message.topic != topics.REQUESTS.name or pool_of(message) != state.pool:
        return None
    try:
        envelope = unwrap(message, accept=(RequestBody,))
        identity = verify(envelope, known_keys(state), unsigned=unsigned)
    except InvalidMessage:
        return None
    body = envelope.body
    if not isinstance(body, AcceptTruncation):
        return None
    request = ReceivedRequest(envelope.source, envelope.id, envelope.digest, envelope.time, identity.actor, identity.auth, body)
    facts = admit_received(state, request, Evidence(missing=(loss.epoch, loss.seq)))
    return (facts[0], identity) if isinstance(facts, list) and facts else None
