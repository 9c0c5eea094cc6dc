"""Rejections as facts, limited per sender: beyond the limit one record per minute counts the rest.

Whoever has proven by a signature who it is has a limit of its own. Claims never count there: nobody uses up another's part.
"""

import hashlib

from bailiff_bus.port import Message
from bailiff_core.admission.rejected import Rejected
from bailiff_core.fold.log import rejections_key
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import InputRejected

from .clock import LogClock
from .input_decoder import DecodedInput

MINUTE = 60_000_000


class RejectionLimiter:
    """The limiter of one writer incarnation. Times are log time."""

    def __init__(self) -> None:
        self._limited: dict[str, tuple[int, InputRejected]] = {}

    def take(
        self, state: PoolState, clock: LogClock, message: Message, rejected: Rejected, decoded: DecodedInput
    ) -> list[InputRejected]:
        """The rejection as a fact, unless its sender is over the limit."""
        fact = InputRejected(
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            digest=hashlib.sha256(message.value).hexdigest(),
            code=rejected.code,
            reason=rejected.text,
            source=decoded.source,
            id=decoded.id,
            sender=decoded.sender,
            job=rejected.job,
            rule=rejected.rule,
            retry_at=rejected.retry_at,
        )
        key = rejections_key(state, fact)
        recent = state.rejections.get(key)
        if recent is None or recent.count < state.rules.max_rejections_per_minute:
            return [fact]
        if clock.now() - recent.since >= MINUTE and key not in self._limited:
            return [fact]
        count = self._limited[key][0] if key in self._limited else 0
        self._limited[key] = (count + 1, fact)
        return []

    def due(self, state: PoolState, clock: LogClock) -> list[InputRejected]:
        """One record per limited sender with the number of its rejections, when its minute is over."""
        found = []
        for key in list(self._limited):
            recent = state.rejections.get(key)
            if recent is None or clock.now() - recent.since >= MINUTE:
                count, newest = self._limited.pop(key)
                found.append(newest.model_copy(update={"count": count}))
        return found
