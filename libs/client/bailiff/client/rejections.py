"""What a pool has rejected and refused, by code and source: inputs, commands, records, proposals, seals.

Rejected inputs are in the state of the log. What agents, the auditor and readers refuse is not in the log; it is in
`bailiff.alarms`, of which only the end is read.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from bailiff_bus import topics
from bailiff_bus.envelope import InvalidMessage, unwrap
from bailiff_bus.messages.dead_letters import Alarm
from bailiff_bus.port import AccessDenied, Bus, Message, OffsetOutOfRange, Span
from bailiff_core.fold.log import is_proven
from bailiff_core.humanize import user_text
from bailiff_core.model.certificate import Role
from bailiff_core.model.state import PoolState
from bailiff_log.message_signatures import check_sender, trust_of
from bailiff_log.reader import AuditReader

MAX_ALARMS = 500  # of each partition
READ_S = 0.5
REFUSALS = frozenset(
    {
        "commands-refused",
        "record-not-signed",
        "proposal-not-reproduced",
        "request-not-verified",
        "log-truncated",
        "spec-replaced",
        "eviction-not-ordered",
        "seal-foreign",
        "seal-key-unknown",
        "witness-refused",
        "archive-forked",
        "archive-log-broken",
        "archive-log-lost",
        "state-diverged",
    }
)
"""Alarms about messages that somebody sent who may not, or that are not true."""
SENDERS: tuple[Role, ...] = ("admission", "victim-selection", "eviction-executor", "auditor")


@dataclass(frozen=True, slots=True)
class Rejection:
    """One code of one source.

    Attributes:
        kind: Rejected: an input of admission, on record; alarm: what others have refused; orphan: messages in the log's
            partition that do not continue it.
        source: Whose they are; `(not verified)` where no signature proves it.
        last: When the newest one was recorded, µs UTC.
        seq: Number of the newest one's record.
        text: The newest one's text.
    """

    kind: Literal["rejected", "alarm", "orphan"]
    code: str
    source: str
    count: int
    last: int | None
    seq: int | None
    text: str


def rejected_inputs(state: PoolState) -> list[Rejection]:
    """Rejected inputs, newest first."""
    return [
        Rejection(
            "rejected",
            each.code,
            user_text(each.source, verified=is_proven(key.partition(" ")[2])),
            each.count,
            each.last,
            each.seq,
            each.reason,
        )
        for key, each in reversed(state.rejected.items())
    ]


def orphans(reader: AuditReader) -> list[Rejection]:
    """Messages that do not continue the log, and why the newest does not."""
    if not reader.orphans:
        return []
    newest = reader.latest_orphans[-1] if reader.latest_orphans else None
    text = f"the newest, at offset {newest.offset}: {newest.reason}" if newest is not None else ""
    return [Rejection("orphan", "orphan", topics.AUDIT.name, reader.orphans, None, None, text)]


async def all_rejections(bus: Bus, state: PoolState, reader: AuditReader) -> tuple[list[Rejection], bool]:
    """Alarms, then orphans, then rejected inputs: however many sources somebody invents for these, alarms come first.

    Second: whether `bailiff.alarms` could be read.
    """
    alarms = await refusal_alarms(bus, state)
    return [*(alarms or ()), *orphans(reader), *rejected_inputs(state)], alarms is not None


async def refusal_alarms(bus: Bus, state: PoolState) -> list[Rejection] | None:
    """Alarms of the pool about refused messages, by code and sender, newest first; None: this user may not read them."""
    alarms = await pool_alarms(bus, state)
    return None if alarms is None else [each for each in alarms if each.code in REFUSALS]


async def pool_alarms(bus: Bus, state: PoolState) -> list[Rejection] | None:
    """All alarms of the pool, by code and sender, newest first; None: this user may not read them."""
    found: dict[tuple[str, str], Rejection] = {}
    try:
        messages = await _newest(bus)
    except AccessDenied:
        return None
    for message in messages:
        try:
            envelope = unwrap(message, accept=(Alarm,))
        except InvalidMessage:
            continue
        body = envelope.body
        if envelope.pool != state.pool or not isinstance(body, Alarm):
            continue
        source = _sender(state, message)
        known = found.pop((body.code, source), None)
        count = 1 + (known.count if known is not None else 0)
        found[body.code, source] = Rejection("alarm", body.code, source, count, message.time, body.seq, body.text)
    return list(reversed(found.values()))


def _sender(state: PoolState, message: Message) -> str:
    """The role whose key signed the alarm; in a pool with a root key `not verified` where none did."""
    envelope = unwrap(message, accept=(Alarm,))
    try:
        certificate = check_sender(envelope, trust_of(state), SENDERS, message.time)
    except InvalidMessage:
        return "not verified"
    return certificate.role if certificate is not None else envelope.source


async def _newest(bus: Bus) -> list[Message]:
    """The end of the topic of alarms, in order of time."""
    try:
        spans = await bus.spans(topics.ALARMS.name)
    except KeyError:
        return []
    tails = {number: Span(max(span.begin, span.end - MAX_ALARMS), span.end) for number, span in spans.items()}
    return sorted(await _between(bus, tails), key=lambda message: message.time)


async def _between(bus: Bus, tails: dict[int, Span]) -> Collection[Message]:
    unread = [(topics.ALARMS.name, number, span.begin) for number, span in tails.items() if span.begin < span.end]
    found: list[Message] = []
    if not unread:
        return found
    reader = await bus.reader(unread)
    try:
        while any(reader.position(topic, number) < tails[number].end for topic, number, _ in unread):
            found += await reader.read(wait=READ_S)
    except OffsetOutOfRange:
        pass  # retention deleted them meanwhile
    finally:
        await reader.close()
    return found
