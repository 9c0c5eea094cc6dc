"""Exports spans to the trace collector, best effort: spans are dropped while it is unavailable."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic, time_ns

from bailiff_bus import topics
from bailiff_bus.port import Bus, OffsetOutOfRange
from bailiff_service import tracing
from bailiff_service.logs import logger
from bailiff_service.tracing import Span

from .traces import RequestSpan

QUIET_S = 30.0  # pause after a failed export, because each attempt may take seconds
OLDEST = 24 * 3600 * 1_000_000  # µs: older spans are dropped when a long log is read for the first time
READ_WITHIN = 1.0
CAUSE = re.compile(rf"{re.escape(topics.REQUESTS.name)}/([0-9]{{1,9}})/([0-9]{{1,18}})")


class SpanSender:
    """Sends spans that ended within the last day. A request span starts at the append time of its request message."""

    def __init__(self, bus: Bus) -> None:
        self._bus, self._quiet_until = bus, 0.0

    async def send(self, ended: Sequence[Span | RequestSpan]) -> None:
        """Send these spans, or drop them."""
        not_before, spans = time_ns() // 1_000 - OLDEST, []
        for each in ended if monotonic() >= self._quiet_until else ():
            span = each.span if isinstance(each, RequestSpan) else each
            if span.end > not_before:
                spans.append(await _with_request(self._bus, each) if isinstance(each, RequestSpan) else span)
        if spans and not await asyncio.to_thread(tracing.export, spans):
            self._quiet_until = monotonic() + QUIET_S
            logger().warning(
                "the trace collector rejected spans or is unavailable", endpoint=tracing.endpoint(), spans=len(spans)
            )


async def _with_request(bus: Bus, request: RequestSpan) -> Span:
    """The span with start and parent of its request message; unchanged if Kafka no longer has the message."""
    found = CAUSE.fullmatch(request.cause)
    partition, offset = (int(found[1]), int(found[2])) if found else (-1, 0)
    if partition not in await bus.spans(topics.REQUESTS.name):
        return request.span  # of another topic, or not written by a Bailiff service
    reader = await bus.reader([(topics.REQUESTS.name, partition, offset)])
    try:
        for message in await reader.read(limit=1, wait=READ_WITHIN):
            if message.offset == offset:
                trace = request.span.trace
                client = (trace, tracing.span_of(trace, "request"))  # no other: anybody can write this header
                parent = client[1] if tracing.parent_in(message.headers) == client else ""
                return replace(request.span, parent=parent, start=min(message.time, request.span.start))
    except OffsetOutOfRange:
        pass
    finally:
        await reader.close()
    return request.span
