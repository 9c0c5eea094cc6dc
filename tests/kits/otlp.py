"""A trace collector in the test's process: OTLP over HTTP, protobuf."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse


@dataclass(frozen=True)
class Seen:
    """A received span; ids in hex, times in ns."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    events: tuple[str, ...]


@dataclass
class Collector:
    """Stores each span by its id; a repeat must be identical. bodies: all that was sent, as received."""

    address: str
    bodies: list[bytes] = field(default_factory=list)
    spans: dict[str, Seen] = field(default_factory=dict)
    disagreements: list[tuple[Seen, Seen]] = field(default_factory=list)

    def of(self, trace: str) -> dict[str, Seen]:
        """The spans of a trace, by name."""
        return {span.name: span for span in list(self.spans.values()) if span.trace == trace}

    def take(self, body: bytes) -> None:
        self.bodies.append(body)
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            service = next(entry.value.string_value for entry in resource.resource.attributes if entry.key == "service.name")
            for scope in resource.scope_spans:
                for span in scope.spans:
                    seen = Seen(
                        service,
                        span.name,
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        tuple(event.name for event in span.events),
                    )
                    before = self.spans.setdefault(seen.id, seen)
                    if before != seen:
                        self.disagreements.append((before, seen))


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free loopback port."""
    found: list[Collector] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            found[0].take(self.rfile.read(int(self.headers["content-length"])))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.append(Collector(f"http://127.0.0.1:{server.server_port}"))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found[0]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
