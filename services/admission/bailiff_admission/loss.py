"""A log that was cut short (log protocol §8): what tells of records that it lacks, and what has to be known before it goes on."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from bailiff_bus import topics
from bailiff_bus.envelope import Unacceptable, domain_of, unwrap
from bailiff_bus.identity import Identity, verify
from bailiff_bus.messages import AcceptTruncation, NodeAnnounced, NodeHeartbeat, ReportBody, RequestBody
from bailiff_bus.messages.commands import CommandBody
from bailiff_bus.port import Bus, Message, OffsetGone
from bailiff_core.model.pool import Pool
from bailiff_core.records.payload import Fact

from .intake import facts_of_request
from .intake.requests import Asked

NEWEST_REPORTS = 2_000  # of each partition; every living agent has said something among them
NEWEST_COMMANDS = 500
LONGEST_WAIT = 0.2

Position = tuple[int, int]


class BeyondTheLog(Exception):
    """A node was told what the log does not hold: the log was cut short. (epoch, seq): the record, or a writer's epoch and 0."""

    def __init__(self, node: str, epoch: int, seq: int) -> None:
        super().__init__(f"{node} has obeyed, or was told of, #{seq} of epoch {epoch}, which this log does not hold")
        self.node, self.epoch, self.seq = node, epoch, seq


def beyond_log(pool: Pool, epoch: int, seq: int) -> bool:
    """Whether the log does not hold record `seq` of that epoch, and no operator has given it up. seq 0: the epoch's writer."""
    if (epoch, seq) <= pool.accepted_loss or (epoch, seq) == (0, 0):
        return False
    if seq == 0:
        return epoch > max(pool.epoch, pool.accepted_loss[0])
    return seq > pool.seq or pool.epoch_of(seq) != epoch


async def look_for_loss(pool: Pool, bus: Bus, positions: dict[str, int], heard: Callable[[str, str], None]) -> None:
    """Was anybody told, or has an agent obeyed, what the log does not hold? Raises `BeyondTheLog`.

    heard: is told which incarnation spoke for which node.
    """
    losses = []
    for message in await newest(bus, topics.NODE_REPORTS.name, pool.domain, NEWEST_REPORTS, positions):
        try:
            with suppress(Unacceptable):
                report = unwrap(message, accept=(ReportBody,)).body
                look_at_report(pool, report)
                if isinstance(report, ReportBody):
                    heard(report.node, report.incarnation)
        except BeyondTheLog as loss:
            losses.append(loss)
    for message in await newest(bus, topics.NODE_COMMANDS.name, pool.domain, NEWEST_COMMANDS, {}):
        try:
            look_at_command(pool, message)
        except BeyondTheLog as loss:
            losses.append(loss)
    if losses:
        raise max(losses, key=lambda loss: (loss.epoch, loss.seq))


def look_at_report(pool: Pool, report: object) -> None:
    """Raise `BeyondTheLog` if the agent has obeyed, or heard of, what the log does not hold."""
    if isinstance(report, NodeAnnounced | NodeHeartbeat):
        fence = report.fence
        _look(pool, report.node, [(fence.epoch, fence.seq), (fence.heard or 0, 0)])


def look_at_command(pool: Pool, message: Message) -> None:
    """Raise `BeyondTheLog` if the log does not hold what a service has ordered by it. Only its numbers are looked at."""
    try:
        said = json.loads(message.value)
        order = said.get("order") or {"epoch": 0, "seq": 0}
        told = [(int(order["epoch"]), int(order["seq"])), (int(said["sender_epoch"]), 0)]
    except (ValueError, TypeError, KeyError, AttributeError):
        return  # nothing that one of our services has written
    _look(pool, str(said.get("node")), told)


def _look(pool: Pool, node: str, told: list[Position]) -> None:
    beyond = [position for position in told if beyond_log(pool, *position)]
    if beyond:
        raise BeyondTheLog(node, *max(beyond))


async def newest(bus: Bus, topic: str, domain: str, count: int, positions: dict[str, int]) -> list[Message]:
    """The last messages about the domain, `count` at most of each partition, none before these positions."""
    spans = await bus.spans(topic)
    begins = {at: max(positions.get(f"{topic}/{at}", 0), span.begin, span.end - count) for at, span in spans.items()}
    found = await _between(bus, topic, begins, {at: span.end for at, span in spans.items()})
    return [message for message in found if domain_of(message) == domain]


async def kept_since(bus: Bus, topic: str, now: int) -> int:
    """When the oldest message that is left was appended, µs, in the partition that goes back least; now where none is left.

    0 where nothing was ever deleted.
    """
    begins = {at: span.begin for at, span in (await bus.spans(topic)).items() if span.begin > 0}
    oldest = dict.fromkeys(begins, now)
    for message in await _between(bus, topic, begins, {at: begin + 1 for at, begin in begins.items()}):
        oldest[message.partition] = min(message.time, oldest[message.partition])
    return max(oldest.values(), default=0)


async def _between(bus: Bus, topic: str, begins: dict[int, int], ends: dict[int, int]) -> list[Message]:
    """What these partitions hold from `begins` on, at least up to `ends`; less where they are cut short meanwhile."""
    unread = [(topic, at, begin) for at, begin in begins.items() if begin < ends[at]]
    if not unread:
        return []
    found: list[Message] = []
    reader = await bus.reader(unread)
    try:
        while any(reader.position(topic, at) < ends[at] for _, at, _ in unread):
            messages = await reader.read(wait=LONGEST_WAIT)
            found += messages
            if not messages:  # that topic may have been cut short, too
                ends = {at: min(ends[at], span.end) for at, span in (await bus.spans(topic)).items() if at in ends}
    except OffsetGone:
        pass  # what is left of them comes in its turn
    finally:
        await reader.close()
    return found


@dataclass(slots=True)
class Settling:
    """Which agents have said what they run since this writer spoke to them; until all have, nobody is started.

    What they had said before is read anew meanwhile, so the log learns again what it has forgotten. What it cannot learn
    (attempts that it never placed, as far as it knows) is ended.

    Where reports are lost, too, the log may have forgotten an agent altogether. One that was heard of is waited for until its
    lease is over, and the margin: then none of its tasks lives. Where the reports that are kept do not go back so far, there may
    be agents that nobody has heard of, and these are waited for, too.

    until: where the reports ended when this writer began. kept_since: what was said before may be lost. Times on the broker's
    clock, µs.
    """

    until: dict[str, int] = field(default_factory=dict)
    kept_since: int = 0
    _spoke: dict[str, tuple[int, str]] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)

    async def begin(self, pool: Pool, bus: Bus, now: int) -> None:
        """Look for agents in what is kept of reports and commands."""
        self.until = await ends_of_reports(bus)
        self.kept_since = await kept_since(bus, topics.NODE_REPORTS.name, now)
        for topic, count in ((topics.NODE_REPORTS, NEWEST_REPORTS), (topics.NODE_COMMANDS, NEWEST_COMMANDS)):
            for message in await newest(bus, topic.name, pool.domain, count, {}):
                with suppress(Unacceptable):
                    body = unwrap(message, accept=(ReportBody, CommandBody)).body
                    assert isinstance(body, ReportBody | CommandBody)
                    self._note(body.node, body.incarnation, message.time)

    def heard(self, pool: Pool, report: ReportBody, append_time: int) -> bool:
        """Take the report into account. False where the agent has to be asked for an inventory."""
        if not pool.unsettled:
            return True
        self._note(report.node, report.incarnation, append_time)
        if isinstance(report, NodeAnnounced) and (report.fence.heard is None or report.fence.heard >= pool.epoch):
            self._said.add(report.incarnation)
        return report.incarnation in self._said

    def is_over(self, pool: Pool, positions: dict[str, int], now: int) -> bool:
        """All reports from before were read, and every node has said what it runs, was declared lost, or can run nothing now."""
        if any(positions.get(name, 0) < end for name, end in self.until.items()):
            return False
        if any(node.state != "lost" and node.incarnation not in self._said for node in pool.nodes.values()):
            return False
        answered = self._said | {node.incarnation for node in pool.nodes.values()}
        forgotten = [at for at, incarnation in self._spoke.values() if incarnation not in answered]
        longest = pool.rules.nodes.lease + pool.rules.nodes.lost_margin
        return all(at + longest <= now for at in (self.kept_since, *forgotten))

    def _note(self, node: str, incarnation: str, at: int) -> None:
        """The last incarnation of each node counts: its inventory tells of what the ones before have left."""
        self._spoke[node] = max((at, incarnation), self._spoke.get(node, (0, "")))


async def ends_of_reports(bus: Bus) -> dict[str, int]:
    """Where the node reports end now, by `topic/partition`."""
    topic = topics.NODE_REPORTS.name
    return {f"{topic}/{partition}": span.end for partition, span in (await bus.spans(topic)).items()}


def accepted(pool: Pool, message: Message, loss: BeyondTheLog, unsigned: Literal["none", "acl"]) -> tuple[Fact, Identity] | None:
    """The operator's word that the log may go on without what it lost, as a fact; None for any other message."""
    if message.topic != topics.REQUESTS.name or domain_of(message) != pool.domain:
        return None
    try:
        envelope = unwrap(message, accept=(RequestBody,))
        identity = verify(envelope, pool.rules.identity.keys, unsigned=unsigned)
    except Unacceptable:
        return None
    body = envelope.body
    if not isinstance(body, AcceptTruncation) or (body.epoch, body.seq) < (loss.epoch, loss.seq):
        return None
    asked = Asked(envelope.source, envelope.id, envelope.digest, envelope.time, identity.actor, identity.auth, body)
    facts = facts_of_request(pool, asked)
    return (facts[0], identity) if isinstance(facts, list) and facts else None
