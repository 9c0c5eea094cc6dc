"""Spans on their way to the collector. Where it is away they are lost, and nothing waits for it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic, time_ns

from bailiff_bus import tracing
from bailiff_bus.logs import logger
from bailiff_bus.port import Bus, OffsetGone
from bailiff_bus.tracing import Span

from .traces import Asked

QUIET_S = 30.0  # a collector that did not answer is not asked again so soon: each try may take seconds
OLDEST = 24 * 3600 * 1_000_000  # µs: who counts a log of years for the first time tells no traces of years
READ_WITHIN = 1.0


class Sender:
    """Sends what has ended within the last day; what was asked for by a message begins with it."""

    def __init__(self, bus: Bus) -> None:
        self._bus, self._quiet_until = bus, 0.0

    async def send(self, traced: Sequence[Span | Asked]) -> None:
        """Send these, or lose them."""
        after, spans = time_ns() // 1_000 - OLDEST, []
        for each in traced if monotonic() >= self._quiet_until else ():
            span = each.span if isinstance(each, Asked) else each
            if span.end > after:
                spans.append(await _as_asked(self._bus, each) if isinstance(each, Asked) else span)
        if spans and not await asyncio.to_thread(tracing.export, spans):
            self._quiet_until = monotonic() + QUIET_S
            logger().warning("the collector of traces did not take them", endpoint=tracing.endpoint(), spans=len(spans))


async def _as_asked(bus: Bus, asked: Asked) -> Span:
    """With the beginning and the parent that the request gives it; without them where Kafka has it no more."""
    topic, partition, offset = asked.cause.split("/") if asked.cause.count("/") == 2 else ("", "", "")
    if not topic:
        return asked.span
    reader = await bus.reader([(topic, int(partition), int(offset))])
    try:
        for message in await reader.read(limit=1, wait=READ_WITHIN):
            if message.offset == int(offset):
                parent = tracing.parent_in(message.headers)
                span = parent[1] if parent is not None and parent[0] == asked.span.trace else ""
                return replace(asked.span, parent=span, start=min(message.time, asked.span.start))
    except OffsetGone:
        pass
    finally:
        await reader.close()
    return asked.span
