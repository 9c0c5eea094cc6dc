"""OpenTelemetry traces of preemptions; off without an endpoint, never part of a decision.

Trace and span ids are derived from pool, job and seq, so that every service can compute them, also after a restart; message
headers carry them as well, for other consumers.
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
    """Set the endpoint of this process, such as `http://host:4318`; None: OpenTelemetry's variable, else no traces."""
    global _endpoint
    _endpoint = endpoint or os.environ.get(VARIABLE) or None


def endpoint() -> str | None:
    """The endpoint; None: tracing is off."""
    return _endpoint


def trace_of(pool: str, job: str) -> str:
    """The trace id of all spans that this job causes, 32 hex digits."""
    return hashlib.sha256(f"bailiff trace\0{pool}\0{job}".encode()).hexdigest()[:32]


def span_of(trace: str, *what: object) -> str:
    """The span id for this key within the trace, 16 hex digits."""
    return hashlib.sha256("\0".join((trace, *map(str, what))).encode()).hexdigest()[:16]


def header(pool: str, job: str | None, *what: object) -> str:
    """`traceparent` header for this span of the job's trace; empty if tracing is off."""
    if _endpoint is None or job is None:
        return ""
    trace = trace_of(pool, job)
    return f"00-{trace}-{span_of(trace, *what)}-01"


def parent_in(headers: Sequence[tuple[str, bytes]]) -> tuple[str, str] | None:
    """Trace and span id from a message's headers; None without them."""
    for name, value in headers:
        found = _PARENT.fullmatch(value or b"") if name == HEADER else None
        if found is not None:
            return found[1].decode(), found[2].decode()
    return None


@dataclass(frozen=True, slots=True)
class Span:
    """A span of one service, times in µs UTC. parent: span id in the same trace; empty for the root."""

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
    """Send spans to the collector by OTLP over HTTP; returns success. Blocks for at most a few seconds."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # imported here: takes half a second
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
        result = exporter.export(
            [
                ReadableSpan(
                    span.name,
                    context(span.trace, span.id),
                    context(span.trace, span.parent) if span.parent else None,
                    resources[span.service],
                    dict(span.attributes),
                    [Event(name, None, at * 1_000) for name, at in span.events],
                    start_time=span.start * 1_000,
                    end_time=max(span.start, span.end) * 1_000,
                )
                for span in spans
            ]
        )
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
    return result is SpanExportResult.SUCCESS
