"""What a pool has rejected and refused, by code and source: inputs, commands, records, proposals, seals.

Rejected inputs are in the state of the log. What agents, the auditor and readers refuse is not in the log; it is in
`bailiff.alarms`, where anybody may write who may connect: whose alarm a signature proves comes first, and nobody else's hides it.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from bailiff_bus import topics
from bailiff_bus.envelope import InvalidMessage, unwrap
from bailiff_bus.messages.dead_letters import Alarm
from bailiff_bus.port import AccessDenied, Bus, Message, OffsetOutOfRange, TopicMissing
from bailiff_core.fold.log import is_proven
from bailiff_core.humanize import duration_text, user_text
from bailiff_core.model.certificate import Role
from bailiff_core.model.state import PoolState
from bailiff_log.message_signatures import Trust, check_sender, trust_of
from bailiff_log.reader import AuditReader

MAX_READ = 50_000  # messages of each partition at once: seconds
NEAR_FOR = 300_000_000
MAX_KINDS = 100  # of each proven sender, and of all others together
MAX_IDS = 1_000  # of each kind, to count an alarm that somebody sends again once
READ_S = 0.5
UNREAD = "alarms-unread"
REFUSALS = frozenset(
    {
        "inputs-lost",
        "commands-refused",
        "record-not-signed",
        "proposal-not-reproduced",
        "request-not-verified",
        "log-truncated",
        "spec-replaced",
        "spec-missing",
        "eviction-not-ordered",
        "seal-foreign",
        "seal-key-unknown",
        "witness-refused",
        "witness-silent",
        "archive-forked",
        "archive-log-broken",
        "archive-log-lost",
        "archive-not-sealed",
        "topic-made-anew",
        "state-diverged",
        UNREAD,
    }
)
"""Alarms about messages that somebody sent who may not, that are not true, or that are gone."""
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
    """Rejected inputs: those of proven senders, then of others, each newest first."""
    proven = {key: is_proven(key.partition(" ")[2]) for key in state.rejected}
    return [
        Rejection(
            "rejected", each.code, user_text(each.source, verified=proven[key]), each.count, each.last, each.seq, each.reason
        )
        for those in (True, False)
        for key, each in reversed(state.rejected.items())
        if proven[key] is those
    ]


def orphans(reader: AuditReader) -> list[Rejection]:
    """Messages that do not continue the log, and why the newest does not."""
    if not reader.orphans:
        return []
    newest = reader.latest_orphans[-1] if reader.latest_orphans else None
    text = f"the newest, at offset {newest.offset}: {newest.reason}" if newest is not None else ""
    return [Rejection("orphan", "orphan", topics.AUDIT.name, reader.orphans, None, None, text)]


async def all_rejections(alarms: "PoolAlarms", state: PoolState, reader: AuditReader) -> tuple[list[Rejection], bool]:
    """Alarms about refused messages, then orphans, then rejected inputs: whoever invents sources of these hides no alarm.

    Second: whether `bailiff.alarms` could be read.
    """
    found = await alarms.read(state)
    refusals = [each for each in found or () if each.code in REFUSALS]
    return [*refusals, *orphans(reader), *rejected_inputs(state)], found is not None


@dataclass(slots=True)
class _Kind:
    """Alarms of one code and sender."""

    newest: Rejection
    ids: dict[str, None] = field(default_factory=dict)
    about: dict[str, Rejection] = field(default_factory=dict)


class PoolAlarms:
    """All alarms of a pool, by code and sender: read once, and then what is new.

    Each proven sender has room for its kinds, and all others have some together, so nobody fills another's.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus, self._trust = bus, Trust()
        self._found: dict[str | None, dict[tuple[str, str], _Kind]] = {}  # by proven sender; None: of all others
        self._read_to: dict[tuple[str, int], int] = {}  # by the topic's id and partition
        self._unread: Rejection | None = None
        self._reading = asyncio.Lock()

    async def read(self, state: PoolState) -> list[Rejection] | None:
        """Those of proven senders, then of others, each newest first; None: this user may not read them."""
        async with self._reading:
            trust = trust_of(state)
            trust = Trust(trust.root_keys, frozenset(trust.revoked))
            if trust != self._trust:  # a key was revoked: who is proven is decided anew
                self._trust, self._found, self._read_to, self._unread = trust, {}, {}, None
            try:
                await self._read_new(state)
            except AccessDenied:
                return None
        kinds = [(sender is not None, each.newest) for sender, group in self._found.items() for each in group.values()]
        listed = sorted(kinds, key=lambda each: (each[0], each[1].last or 0), reverse=True)
        return [*((self._unread,) if self._unread is not None else ()), *(each for _, each in listed)]

    async def near_rates(self, state: PoolState, now: int, only: Collection[str] | None = None) -> list[str]:
        """Who was near a rate in the last minutes, as texts, the newest first; in a pool with a root key, as admission signed it.

        Args:
            only: Of these alone: `user NAME`, `project NAME`, `pool`.
        """
        await self.read(state)
        found = [
            (alarm.last or 0, alarm.text)
            for sender, group in self._found.items()
            for (code, _), kind in group.items()
            if code == "requests-near-limit" and sender == ("admission" if self._trust.root_keys else None)
            for about, alarm in kind.about.items()
            if (only is None or about in only) and now - (alarm.last or 0) <= NEAR_FOR
        ]
        return [f"{text[:1].upper()}{text[1:]}, {duration_text(now - at)} ago." for at, text in sorted(found, reverse=True)]

    async def _read_new(self, state: PoolState) -> None:
        topic = topics.ALARMS.name
        try:
            spans = await self._bus.spans(topic)
        except TopicMissing:
            return
        starts = {}
        for number, span in spans.items():
            read_to = self._read_to.get((span.topic_id, number), span.begin)
            known = read_to if span.begin <= read_to <= span.end else span.begin
            starts[number] = max(known, span.end - MAX_READ)
            if left := starts[number] - known:
                text = f"so many alarms came at once that these were not read: who may write to {topic}?"
                self._unread = Rejection("alarm", UNREAD, f"{topic}/{number}", left, state.now, None, text)
        unread = [(topic, number, start) for number, start in starts.items() if start < spans[number].end]
        if not unread:
            return
        reader = await self._bus.reader(unread)
        try:
            while any(reader.position(topic, number) < spans[number].end for _, number, _ in unread):
                for message in await reader.read(wait=READ_S):
                    self._take(state.pool, message)
                    self._read_to[spans[message.partition].topic_id, message.partition] = message.offset + 1
        except OffsetOutOfRange:
            self._read_to.clear()  # retention deleted them meanwhile, or the topic was made anew
        finally:
            await reader.close()

    def _take(self, pool: str, message: Message) -> None:
        try:
            envelope = unwrap(message, accept=(Alarm,))
        except InvalidMessage:
            return
        body = envelope.body
        if envelope.pool != pool or not isinstance(body, Alarm):
            return
        try:
            certificate = check_sender(envelope, self._trust, SENDERS, message.time)
        except InvalidMessage:
            proven, source = False, "not verified"
        else:
            proven, source = certificate is not None, certificate.role if certificate is not None else envelope.source
        # A proven alarm that somebody sends again is as old as its sender said, and counts once.
        last = min(message.time, envelope.time) if proven else message.time
        group = self._found.setdefault(source if proven else None, {})
        name = (body.code, source)
        kind = group.get(name) or _Kind(Rejection("alarm", body.code, source, 0, None, None, ""))
        if envelope.id in kind.ids:
            return
        group.pop(name, None)  # the newest is last
        group[name] = kind
        if len(group) > MAX_KINDS:
            del group[next(iter(group))]
        kind.ids[envelope.id] = None
        if len(kind.ids) > MAX_IDS:
            del kind.ids[next(iter(kind.ids))]
        kind.newest = Rejection("alarm", body.code, source, kind.newest.count + 1, last, body.seq, body.text)
        if body.about:
            kind.about.pop(body.about, None)
            kind.about[body.about] = kind.newest
            if len(kind.about) > MAX_KINDS:
                del kind.about[next(iter(kind.about))]
