"""Inputs that were rejected, as facts: a source that has had too many this minute gets one record for all the rest."""

import hashlib

from bailiff_bus.port import Message
from bailiff_core.model.pool import Pool
from bailiff_core.records.facts import InputRejected

from .clock import LogClock
from .intake import Rejected

MINUTE = 60_000_000


class Rejections:
    """Of one writer incarnation. Times are log time."""

    def __init__(self) -> None:
        self._muted: dict[str, tuple[int, InputRejected]] = {}

    def take(
        self, pool: Pool, clock: LogClock, message: Message, rejected: Rejected, source: str | None, message_id: str | None
    ) -> list[InputRejected]:
        """The rejection as a fact, unless its source has had too many this minute. source, message_id: where they are known."""
        fact = InputRejected(
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            digest=hashlib.sha256(message.value).hexdigest(),
            code=rejected.code,
            reason=rejected.told,
            source=source,
            id=message_id,
            job=rejected.job,
        )
        key = source or message.topic
        recent = pool.rejections.get(key)
        if recent is None or recent.count < pool.rules.max_rejections_per_minute:
            return [fact]
        if clock.now() - recent.since >= MINUTE and key not in self._muted:
            return [fact]
        count = self._muted[key][0] if key in self._muted else 0
        self._muted[key] = (count + 1, fact)
        return []

    def due(self, pool: Pool, clock: LogClock) -> list[InputRejected]:
        """One record for all that a source had rejected beyond its rate, when its minute is over."""
        found = []
        for source in list(self._muted):
            recent = pool.rejections.get(source)
            if recent is None or clock.now() - recent.since >= MINUTE:
                count, newest = self._muted.pop(source)
                found.append(newest.model_copy(update={"count": count}))
        return found
