"""Health endpoints of a service: `/healthz`, `/readyz` and `/metrics` on Starlette, GET and HEAD only.

The server runs in the service's own event loop, so that a blocked loop does not answer.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Self

import h11
import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from .web_server import Server, address_of, open_socket

Readiness = Callable[[], Mapping[str, str | None]]

MAX_REQUEST_BYTES = 8192
MAX_CONNECTIONS = 64
REQUEST_TIMEOUT_S = 5
HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff", "connection": "close"}


class TimedProtocol(H11Protocol):
    """Closes a connection that has sent no whole request within `REQUEST_TIMEOUT_S`: uvicorn itself has no such timeout."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares it
        super().connection_made(transport)
        self._deadline = self.loop.call_later(REQUEST_TIMEOUT_S, self._close_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def _close_if_silent(self) -> None:
        if self.conn.their_state is h11.IDLE:
            self.transport.close()


def health_app(readiness: Readiness, metrics: Callable[[], bytes]) -> Starlette:
    """The application. readiness: returns each check by name: None if it passed, else the reason."""

    def alive(_: Request) -> Response:
        return PlainTextResponse("alive\n", headers=HEADERS)

    def ready(_: Request) -> Response:
        try:
            checks = dict(readiness())
        except Exception as error:  # noqa: BLE001 - a check that raises has failed
            checks = {"readiness": f"failed: {error}"}
        passed = not any(checks.values())
        body = orjson.dumps({"ready": passed, "checks": checks}, option=orjson.OPT_INDENT_2) + b"\n"
        return Response(body, 200 if passed else 503, HEADERS, "application/json")

    def prometheus(_: Request) -> Response:
        return Response(metrics(), headers=HEADERS, media_type="text/plain; version=0.0.4; charset=utf-8")

    def rejected(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        text = "GET and HEAD only" if error.status_code == 405 else "not found: use /healthz, /readyz or /metrics"
        return PlainTextResponse(f"{text}\n", error.status_code, {**HEADERS, **(error.headers or {})})

    return Starlette(
        routes=[Route("/healthz", _inline(alive)), Route("/readyz", _inline(ready)), Route("/metrics", _inline(prometheus))],
        exception_handlers={HTTPException: rejected},
    )


def _inline(endpoint: Callable[[Request], Response]) -> Callable[[Request], object]:
    """The endpoint on the event loop: Starlette runs plain functions in threads."""

    async def run(request: Request) -> Response:
        return endpoint(request)

    return run


def small_server(app: Any) -> Server:
    """A server of few and short requests: each connection is closed after one that does not come at once."""
    return Server(
        app,
        at_once=MAX_CONNECTIONS,
        end_s=1,
        http=TimedProtocol,
        h11_max_incomplete_event_size=MAX_REQUEST_BYTES,
        timeout_keep_alive=REQUEST_TIMEOUT_S,
    )


class HealthServer:
    """Serves the health endpoints while used as an async context manager; `address` is then set. port: 0 for a free one."""

    def __init__(self, host: str, port: int, readiness: Readiness, metrics: Callable[[], bytes]) -> None:
        self._host, self._port = host, port
        self._app = health_app(readiness, metrics)
        self.address = ""

    async def __aenter__(self) -> Self:
        listening = open_socket(self._host, self._port)
        self.address = address_of(listening)
        self._server = small_server(self._app)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listening]))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.stop()
        await self._serving
