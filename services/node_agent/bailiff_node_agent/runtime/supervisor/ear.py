"""The socket at which the job is heard."""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from .said import Journal, understood

LONGEST_LINE = 4096
MOST_CONNECTIONS, KNOCKING, LINES_AT_ONCE, LINES_PER_S = 16, 128, 100, 20
LONGEST_SOCKET_PATH = 107
TOO_LONG = f"the line is longer than {LONGEST_LINE} bytes"


class Wall:
    """Where the job finds `steps`, `notice.json` and `socket`: the control directory, or the folder of the user it runs as."""

    def __init__(self, control: str, folder: str, user: dict[str, Any] | None) -> None:
        self.control, self.folder, self.user = control, folder, user


class Ear:
    """The task's socket. Whoever floods it waits; whoever sends garbage is told what was wrong with it."""

    def __init__(self, wall: Wall) -> None:
        control = wall.control
        self.wall = wall
        self.greeted = False
        self._journal = Journal(f"{control}/said.jsonl")
        self._poll = select.poll()
        self._heard: dict[int, tuple[socket.socket, bytearray]] = {}
        self._tokens, self._counted_at = float(LINES_AT_ONCE), time.monotonic()
        self._woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        self._poll.register(self._woken, select.POLLIN)
        self.folder = os.open(wall.folder, os.O_RDONLY | os.O_DIRECTORY)
        self._door = self._open()

    def path(self) -> str:
        """Where the job finds the socket. A path may be longer than an address can be; this one's fds are no other user's."""
        path = f"{self.wall.folder}/socket"
        short = self.wall.user is not None or len(os.fsencode(path)) <= LONGEST_SOCKET_PATH
        return path if short else f"/proc/{os.getpid()}/fd/{self.folder}/socket"

    def wait(self, patience_s: float) -> None:
        """Until a child has ended, somebody knocks, or so much time has passed. What was said meanwhile is written down."""
        quiet = not self._may_speak()
        if quiet:
            patience_s = min(patience_s, 1 / LINES_PER_S)
        for handle in self._heard:
            self._poll.modify(handle, 0 if quiet else select.POLLIN)
        for handle, event in self._poll.poll(max(0.0, patience_s) * 1000):
            if handle == self._woken:
                with contextlib.suppress(BlockingIOError):
                    os.read(handle, 1024)
            elif handle in self._heard:
                self._listen(handle, event)
            elif self._door is not None:
                self._let_in(self._door)

    def hear_out(self) -> None:
        """What was said before the end counts, and then nobody is heard any more: the journal is as long as it will be."""
        for _ in range(3):  # let in, hear, hear that it hung up
            self.wait(0)
        for handle in [*self._heard]:
            self._hang_up(handle)
        if self._door is not None:
            self._poll.unregister(self._door.fileno())
            self._door.close()
            self._door = None

    def _open(self) -> socket.socket | None:
        door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            door.bind(f"/proc/self/fd/{self.folder}/socket")
            os.chmod("socket", 0o600, dir_fd=self.folder)
            if self.wall.user is not None:
                os.chown("socket", self.wall.user["uid"], self.wall.user["gid"], dir_fd=self.folder, follow_symlinks=False)
            door.listen(KNOCKING)
        except OSError as problem:  # a job that nobody hears still runs
            sys.stderr.write(f"no socket: {problem.strerror}\n")
            door.close()
            return None
        self._poll.register(door.fileno(), select.POLLIN)
        return door

    def _may_speak(self) -> bool:
        now = time.monotonic()
        self._tokens = min(LINES_AT_ONCE, self._tokens + (now - self._counted_at) * LINES_PER_S)
        self._counted_at = now
        return self._tokens >= 1

    def _let_in(self, door: socket.socket) -> None:
        try:
            connection, _ = door.accept()
        except OSError:
            return
        if len(self._heard) >= MOST_CONNECTIONS:
            self._hang_up(next(iter(self._heard)))
        connection.setblocking(False)
        self._heard[connection.fileno()] = connection, bytearray()
        self._poll.register(connection.fileno(), select.POLLIN)

    def _hang_up(self, handle: int) -> None:
        connection, _ = self._heard.pop(handle)
        self._poll.unregister(handle)
        connection.close()

    def _listen(self, handle: int, event: int) -> None:
        connection, buffer = self._heard[handle]
        try:
            data = connection.recv(LONGEST_LINE)
        except BlockingIOError:
            if not event & (select.POLLHUP | select.POLLERR):
                return
            data = b""
        except OSError:
            data = b""
        buffer += data
        answers = b""
        while (end := buffer.find(b"\n")) >= 0:  # what has come is heard; for more, who said too much has to wait
            self._tokens -= 1
            answers += self._answer(bytes(buffer[:end]))
            del buffer[: end + 1]
        too_long = len(buffer) > LONGEST_LINE
        if too_long:
            answers += _no(TOO_LONG)
        try:
            if answers and connection.send(answers) != len(answers):
                raise BlockingIOError
        except OSError:  # it does not read what it is answered, or is gone
            data = b""
        if not data or too_long:
            self._hang_up(handle)

    def _answer(self, line: bytes) -> bytes:
        if len(line) > LONGEST_LINE:
            return _no(TOO_LONG)
        try:
            said = understood(line)
            if said["say"] == "acknowledged" and not os.path.exists(f"{self.wall.folder}/notice.json"):
                raise ValueError("acknowledged: there is no notice out")
            self._journal.add(said)
        except ValueError as problem:
            return _no(str(problem))
        except OSError as problem:
            return _no(f"the node cannot write it down: {problem.strerror or problem}")
        self.greeted = self.greeted or said["say"] == "hello"
        return b'{"ok": true}\n'


def _no(why: str) -> bytes:
    return json.dumps({"ok": False, "error": why}).encode() + b"\n"
