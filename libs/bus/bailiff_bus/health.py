"""`/healthz`, `/readyz` and `/metrics` over plain HTTP: GET only, small requests only, one answer per connection.

It runs in the service's own event loop on purpose: a loop that is stuck does not answer, and that is the truth.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Self

Readiness = Callable[[], Mapping[str, str | None]]

MAX_REQUEST_BYTES = 8192
MAX_CONNECTIONS = 64
REQUEST_TIMEOUT = 5.0
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}

Reply = tuple[int, str, bytes]


class HealthServer:
    """The HTTP side of a service. Use it as an async context manager; `address` is then the one chosen."""

    def __init__(self, host: str, port: int, readiness: Readiness, metrics: Callable[[], bytes]) -> None:
        self._host, self._port, self._readiness, self._metrics = host, port, readiness, metrics
        self._open = 0
        self.address = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=MAX_REQUEST_BYTES)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open > MAX_CONNECTIONS:
                return
            async with asyncio.timeout(REQUEST_TIMEOUT):
                head_only, reply = await self._answer(reader)
                writer.write(_as_bytes(reply, head_only=head_only))
                await writer.drain()
        except (OSError, TimeoutError):
            pass  # the caller is gone or too slow, and has lost nothing
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[bool, Reply]:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return False, _plain(431, f"at most {MAX_REQUEST_BYTES} bytes")
        except asyncio.IncompleteReadError:
            return False, _plain(400, "not a whole HTTP request")
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return False, _plain(400, "not an HTTP/1.x request")
        method, target = words[0], words[1].split(b"?")[0]
        if method not in {b"GET", b"HEAD"}:
            return False, _plain(405, "GET and HEAD only")
        return method == b"HEAD", self._page(target)

    def _page(self, target: bytes) -> Reply:
        if target == b"/healthz":
            return _plain(200, "alive")
        if target == b"/readyz":
            return self._ready()
        if target == b"/metrics":
            return 200, "text/plain; version=0.0.4; charset=utf-8", self._metrics()
        return _plain(404, "here are /healthz, /readyz and /metrics")

    def _ready(self) -> Reply:
        try:
            checks = dict(self._readiness())
        except Exception as error:  # noqa: BLE001 - a check that fails to answer is a check that is not passed
            checks = {"readiness": f"could not be told: {error}"}
        ready = not any(checks.values())
        body = json.dumps({"ready": ready, "checks": checks}, ensure_ascii=False, indent=1) + "\n"
        return 200 if ready else 503, "application/json", body.encode()


def _plain(status: int, text: str) -> Reply:
    return status, "text/plain; charset=utf-8", f"{text}\n".encode()


def _as_bytes(reply: Reply, *, head_only: bool) -> bytes:
    status, media_type, body = reply
    lines = [
        f"HTTP/1.1 {status} {REASONS[status]}",
        f"content-type: {media_type}",
        f"content-length: {len(body)}",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "connection: close",
    ]
    if status == 405:
        lines.append("allow: GET, HEAD")
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if head_only else body)
