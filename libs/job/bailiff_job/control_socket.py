"""Messages from the job to its node: one JSON object per line over a Unix socket, acknowledged once the node has it on disk.

Sending never fails the job. After a failure the socket is not tried again for `RETRY_AFTER_S`; the node still sees `steps`, the
checkpoints and the exit.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from pathlib import Path
from typing import Any

from .clock import monotonic

VERSION = 1
TIMEOUT_S = 5.0
RETRY_AFTER_S = 15.0
MAX_SOCKET_PATH = 100  # a socket's address holds 107 bytes
MAX_REPLY_BYTES = 65_536
log = logging.getLogger("bailiff_job")


class ControlSocket:
    """Connects at the first message, and reconnects after a failure."""

    def __init__(self, path: str, rank: int) -> None:
        self._path, self._rank = path, rank
        self._socket: socket.socket | None = None
        self._retry_at = 0.0
        self._lock = threading.Lock()

    def hello(self) -> bool:
        """Send `hello` with rank and pid. Whether the node acknowledged it."""
        return bool(self._path) and self._send(None, urgent=True)

    def send(self, kind: str, *, urgent: bool = True, **fields: Any) -> bool:
        """Whether the node has the message on disk. Messages that are not urgent are dropped until the next retry."""
        return bool(self._path) and self._send({"type": kind, **fields}, urgent=urgent)

    def _send(self, message: dict[str, Any] | None, *, urgent: bool) -> bool:
        with self._lock:
            if not urgent and monotonic() < self._retry_at:
                return False
            was_open = self._socket is not None
            reply = self._attempt(message)
            if isinstance(reply, Exception) and was_open:  # the connection may have been closed meanwhile: try once on a new one
                reply = self._attempt(message)
            if isinstance(reply, bool):
                return reply
            self._retry_at = monotonic() + RETRY_AFTER_S
            log.warning(
                "message %r was not delivered to the node: %s: %s",
                (message or {}).get("type", "hello"),
                type(reply).__name__,
                reply,
            )
            return False

    def _attempt(self, message: dict[str, Any] | None) -> bool | Exception:
        try:
            return self._send_once(message)
        except (OSError, ValueError) as problem:
            self._close()
            return problem

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._socket:
            self._socket.close()
        self._socket = None

    def _send_once(self, message: dict[str, Any] | None) -> bool:
        acknowledged = True
        if not self._socket:
            self._socket = _connect(self._path)
            acknowledged = self._exchange({"type": "hello", "v": VERSION, "rank": self._rank, "pid": os.getpid()})
        return acknowledged if message is None else self._exchange(message)

    def _exchange(self, message: dict[str, Any]) -> bool:
        assert self._socket
        self._socket.sendall(json.dumps(message).encode() + b"\n")
        reply = b""
        while not reply.endswith(b"\n"):
            part = self._socket.recv(4096)
            if not part or len(reply) > MAX_REPLY_BYTES:
                raise ConnectionError("the node closed the connection before it answered")
            reply += part
        reply = json.loads(reply)
        if not (isinstance(reply, dict) and reply.get("ok") is True):
            log.warning("the node refused %s: %s", json.dumps(message), reply)
            return False
        return True


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(TIMEOUT_S)
    folder = -1
    try:
        if len(os.fsencode(path)) > MAX_SOCKET_PATH:
            folder = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            path = f"/proc/self/fd/{folder}/{Path(path).name}"
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    finally:
        if folder >= 0:
            os.close(folder)
    return connection
