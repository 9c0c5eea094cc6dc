"""The HTTP server of the services: uvicorn without signal handlers, and its listening socket."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from .exit_code import ExitCode, MustStop

BACKLOG = 1024
SEND_BUFFER = 128 * 1024


TICK_S = 1.0
"""How often the `Date` header changes."""


class Server(uvicorn.Server):
    """A uvicorn server without signal handlers and logs: the service has its own.

    app: an ASGI application without a lifespan. at_once: connections; more are refused. end_s: so long open requests are answered
    once it is to stop. options: others of uvicorn's.
    """

    def __init__(self, app: Any, *, at_once: int, end_s: int, **options: Any) -> None:
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            ws="none",
            limit_concurrency=at_once,
            timeout_graceful_shutdown=end_s,
            **options,
        )
        super().__init__(config)
        self._asked_to_stop = asyncio.Event()

    def stop(self) -> None:
        """Let `serve` return as soon as the open requests are answered."""
        self.should_exit = True
        self._asked_to_stop.set()

    async def main_loop(self) -> None:
        """As uvicorn's own, which wakes up ten times a second to see whether it is to stop."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked_to_stop.wait(), TICK_S)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def open_socket(host: str, port: int) -> socket.socket:
    """A listening TCP socket. port: 0 for a free one. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def address_of(listening: socket.socket) -> str:
    """The socket's address as a URL, such as `http://127.0.0.1:8620`."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen(host: str, port: int, settings: str) -> tuple[socket.socket, str]:
    """A listening socket for browsers and API clients, and its URL. port: 0 for a free one.

    settings: the names of the settings that give host and port. Raises `MustStop` if the address cannot be bound.
    """
    try:
        listening = open_socket(host, port)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)  # inherited by each connection
    except OSError as error:
        text = f"cannot listen on {host}:{port} ({settings}): {error.strerror or error}"
        raise MustStop(ExitCode.SETTINGS, text) from None
    return listening, address_of(listening)
