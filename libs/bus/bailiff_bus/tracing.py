"""Traces of preemptions (OpenTelemetry): off unless somebody says where they go, and then no part of any decision.

Which trace and span something belongs to follows from pool, job and seq. So whoever needs a context can say it, also hours
later and after any crash; headers carry it beside that, for whoever reads the topics.
"""

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
EXPORT_WITHIN_S = 5
HEADER = "traceparent"
_PARENT = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")

_endpoint: str | None = None


def configure(endpoint: str | None) -> None:
    """Where traces of this process go, as `http://host:4318`; None: where OpenTelemetry's own variable says, or nowhere."""
    global _endpoint
    _endpoint = endpoint or os.environ.get(VARIABLE) or None


def endpoint() -> str | None:
    """Where traces go; None: there are none."""
    return _endpoint


def trace_of(domain: str, job: str) -> str:
    """The trace of all that this job asks for, 32 hex digits."""
    return hashlib.sha256(f"bailiff trace\0{domain}\0{job}".encode()).hexdigest()[:32]


def span_of(trace: str, *what: object) -> str:
    """The span of this trace that is about this, 16 hex digits."""
    return hashlib.sha256("\0".join((trace, *map(str, what))).encode()).hexdigest()[:16]


def header(domain: str, job: str | None, *what: object) -> str:
    """`traceparent` of a message about this span of the job's trace; empty where there are no traces."""
    if _endpoint is None or job is None:
        return ""
    trace = trace_of(domain, job)
    return f"00-{trace}-{span_of(trace, *what)}-01"


def parent_in(headers: Sequence[tuple[str, bytes]]) -> tuple[str, str] | None:
    """Trace and span that a message's headers name."""
    for name, value in headers:
        found = _PARENT.fullmatch(value or b"") if name == HEADER else None
        if found is not None:
            return found[1].decode(), found[2].decode()
    return None


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of work of one service, µs UTC. parent: a span of the same trace; empty for the first one."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    events: Sequence[tuple[str, int]] = ()


def export(spans: Sequence[Span]) -> bool:
    """Send them to the collector by OTLP over HTTP; whether it took them. Blocks for some seconds at most."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # here: half a second that few pay
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.trace import SpanContext, TraceFlags

    if _endpoint is None or not spans:
        return True
    resources: dict[str, Resource] = defaultdict(lambda: Resource({}))
    for span in spans:
        resources[span.service] = Resource({"service.name": span.service, "service.namespace": "bailiff"})

    def context(trace: str, span: str) -> SpanContext:
        return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    exporter = OTLPSpanExporter(f"{_endpoint.rstrip('/')}/v1/traces", timeout=EXPORT_WITHIN_S)
    try:
        taken = exporter.export([
            ReadableSpan(
                span.name, context(span.trace, span.id), context(span.trace, span.parent) if span.parent else None,
                resources[span.service], dict(span.attributes),
                [Event(name, None, at * 1_000) for name, at in span.events],
                start_time=span.start * 1_000, end_time=max(span.start, span.end) * 1_000,
            )
            for span in spans
        ])  # fmt: skip
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
    return taken is SpanExportResult.SUCCESS
