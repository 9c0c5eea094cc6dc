"""Requests that are rejected unread, as their user sends too many: one record per user and second names their offsets."""

import hashlib
from dataclasses import dataclass, field

from bailiff_bus.envelope import ReceivedMessage
from bailiff_bus.port import Message
from bailiff_core.admission.rejected import Rejected
from bailiff_core.humanize import value_text
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.records.facts import InputRejected

from .turns import UNKNOWN, User

RECORD_EVERY = RETRY_AFTER = 1_000_000
MAX_OFFSETS = 10_000  # of one record: it stays below its limit however they are scattered


def too_many_waiting(message: Message) -> Rejected:
    """Of the newest request of whoever has most waiting, where more wait than are read ahead."""
    reason = "more requests of this user wait than the pool reads ahead"
    return Rejected.later("too-many-requests", reason, message.time + RETRY_AFTER)


def above_rate(name: str, retry_at: int, whose: str = "user") -> Rejected:
    """Of a request above a rate of the policy."""
    reason = f"{value_text(name)} sends more requests than the policy allows (limits.{whose})"
    return Rejected.later("too-many-requests", reason, retry_at)


@dataclass(slots=True)
class _Shed:
    """One user's, of one partition."""

    newest: Message
    rejected: Rejected
    offsets: list[int] = field(default_factory=list)


class ShedRequests:
    """Those of one writer that are not on record yet, so not done yet either: the next writer would read them again."""

    def __init__(self) -> None:
        self._shed: dict[tuple[User, str, int], _Shed] = {}
        self._recorded_at = 0

    def add(self, user: User, message: Message, rejected: Rejected) -> None:
        """It is rejected with the next record about this user."""
        shed = self._shed.setdefault((user, message.topic, message.partition), _Shed(message, rejected))
        if message.offset > shed.newest.offset:
            shed.newest, shed.rejected = message, rejected
        shed.offsets.append(message.offset)

    def due(self, boot: int) -> list[tuple[InputRejected, list[int]]]:
        """At most once a second: the records, and the offsets that each says are done."""
        if not self._shed or boot - self._recorded_at < RECORD_EVERY:
            return []
        self._recorded_at = boot
        shed, self._shed = self._shed, {}
        return [
            (_record(user, each, each.offsets[at : at + MAX_OFFSETS]), each.offsets[at : at + MAX_OFFSETS])
            for (user, _, _), each in shed.items()
            for at in range(0, len(each.offsets), MAX_OFFSETS)
        ]


def _record(user: User, shed: _Shed, offsets: list[int]) -> InputRejected:
    return InputRejected(
        topic=shed.newest.topic,
        partition=shed.newest.partition,
        offset=shed.newest.offset,
        digest=hashlib.sha256(shed.newest.value).hexdigest(),
        code=shed.rejected.code,
        reason=shed.rejected.text,
        source=ReceivedMessage(shed.newest).source or None,
        count=len(offsets),
        offsets=ranges(offsets),
        retry_at=shed.rejected.retry_at,
        sender=user.name if user.rank != UNKNOWN else None,
    )
