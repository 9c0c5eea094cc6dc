"""The sockets on which jobs in pods send their messages. The agent serves them itself: while it is away, the job library retries.

The rules are those of a supervisor's socket: every line is answered, at a limited rate, and what is acknowledged is on disk.
"""

import asyncio
import contextlib
import os
import socket
from pathlib import Path

from bailiff_node_agent.runtime.supervisor import safe_open
from bailiff_node_agent.runtime.supervisor.journal import Journal, error_reply
from bailiff_node_agent.runtime.supervisor.socket_server import (
    BACKLOG,
    BURST_LINES,
    LINES_PER_S,
    MAX_CONNECTIONS,
    MAX_LINE_BYTES,
    TOO_LONG,
)


class ControlServer:
    """The socket of one task. folder: its control directory; journal: where its messages are kept, under `writing`."""

    def __init__(self, folder: Path, journal: Journal, writing: asyncio.Lock) -> None:
        self._folder, self._journal, self._writing = folder, journal, writing
        self._tokens, self._counted_at = float(BURST_LINES), 0.0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()

    async def start(self) -> str | None:
        """Serve from now on. Returns why that is not possible; the job then runs without it."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink("socket", dir_fd=folder)
            listener.bind(f"/proc/self/fd/{folder}/socket")  # the path itself may be too long for an address
            safe_open.set_mode(folder, "socket", 0o666)  # only the pod sees it, and its user is any
        except OSError as problem:
            listener.close()
            return problem.strerror
        finally:
            os.close(folder)
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=MAX_LINE_BYTES, backlog=BACKLOG)
        return None

    async def close(self) -> None:
        """Stop serving. The socket's file stays, and the next agent replaces it."""
        if self._server is not None:
            self._server.close()
        for writer in self._connections:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            next(iter(self._connections)).close()
        self._connections.add(writer)
        try:
            while line := await reader.readuntil(b"\n"):
                await self._wait_for_token()
                async with self._writing:
                    reply, _ = await asyncio.to_thread(self._journal.answer, line, str(self._folder))
                    writer.write(reply)
                await writer.drain()
        except asyncio.LimitOverrunError:
            writer.write(error_reply(TOO_LONG))
        except (asyncio.IncompleteReadError, OSError):
            pass  # the job has closed it
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _wait_for_token(self) -> None:
        now = asyncio.get_running_loop().time()
        self._tokens = min(BURST_LINES, self._tokens + (now - self._counted_at) * LINES_PER_S)
        self._counted_at = now
        self._tokens -= 1
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / LINES_PER_S)
