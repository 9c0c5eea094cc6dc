"""What the job says to its node: one JSON object per line over a Unix socket, each answered once it is on disk there.

Saying never fails the job: where nobody answers, the line rests for a while and the node sees by the board, the
checkpoints and the exit what it did not hear.
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
PATIENCE_S = 5.0
RESTS_S = 15.0
LONGEST_PATH = 100  # a socket's address holds 107 bytes
LONGEST_ANSWER = 65_536
log = logging.getLogger("bailiff_job")


class Line:
    """A connection that is made when there is something to say, and made again after it broke."""

    def __init__(self, path: str, rank: int) -> None:
        self._path, self._rank = path, rank
        self._socket: socket.socket | None = None
        self._rests_until = 0.0
        self._lock = threading.Lock()

    def hello(self) -> bool:
        """Say who speaks, before anything else is said."""
        return bool(self._path) and self._send(None, urgent=True)

    def say(self, what: str, *, urgent: bool = True, **facts: Any) -> bool:
        """Whether the node has it on disk. What is not urgent is not said while the line rests."""
        return bool(self._path) and self._send({"say": what, **facts}, urgent=urgent)

    def _send(self, message: dict[str, Any] | None, *, urgent: bool) -> bool:
        with self._lock:
            if not urgent and monotonic() < self._rests_until:
                return False
            was_open = self._socket is not None
            answer = self._tried(message)
            if isinstance(answer, Exception) and was_open:  # it may have been closed since, so once more on a new one
                answer = self._tried(message)
            if isinstance(answer, bool):
                return answer
            self._rests_until = monotonic() + RESTS_S
            log.warning("the node did not hear %r: %s: %s", (message or {}).get("say", "hello"), type(answer).__name__, answer)
            return False

    def _tried(self, message: dict[str, Any] | None) -> bool | Exception:
        try:
            return self._asked(message)
        except (OSError, ValueError) as problem:
            self._close()
            return problem

    def close(self) -> None:
        """Nothing more is to be said."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._socket:
            self._socket.close()
        self._socket = None

    def _asked(self, message: dict[str, Any] | None) -> bool:
        welcome = True
        if not self._socket:
            self._socket = _connected(self._path)
            welcome = self._answered({"say": "hello", "v": VERSION, "rank": self._rank, "pid": os.getpid()})
        return welcome if message is None else self._answered(message)

    def _answered(self, message: dict[str, Any]) -> bool:
        assert self._socket
        self._socket.sendall(json.dumps(message).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            part = self._socket.recv(4096)
            if not part or len(answer) > LONGEST_ANSWER:
                raise ConnectionError("the node hung up before it answered")
            answer += part
        said = json.loads(answer)
        if not (isinstance(said, dict) and said.get("ok") is True):
            log.warning("the node refused %s: %s", json.dumps(message), said)
            return False
        return True


def _connected(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(PATIENCE_S)
    folder = -1
    try:
        if len(os.fsencode(path)) > LONGEST_PATH:
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
