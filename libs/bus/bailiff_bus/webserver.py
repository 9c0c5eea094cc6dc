"""What services that answer people over HTTP share: the address at which they listen, and a server that leaves signals alone."""

import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from .runtime import ExitCode, MustStop

SEND_BUFFER = 128 * 1024


class Server(uvicorn.Server):
    """Without handlers of its own for signals: those are the runtime's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(host: str, port: int, settings: str) -> tuple[socket.socket, str]:
    """The listening socket, and its address as in `http://127.0.0.1:8620`. port: 0 for a free one.

    settings: which say host and port. Raises `MustStop` where the address cannot be had.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=1024)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)  # of each connection, with them all
    except OSError as error:
        text = f"the address {host}:{port} ({settings}) cannot be used: {error.strerror or error}"
        raise MustStop(ExitCode.SETTINGS, text) from None
    found = listening.getsockname()[1]
    return listening, f"http://[{host}]:{found}" if ":" in host else f"http://{host}:{found}"
