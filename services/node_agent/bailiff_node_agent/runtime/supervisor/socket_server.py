"""The Unix socket on which the job sends its messages; it also serves the task's terminal, where it has one."""

import contextlib
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from . import safe_open
from .journal import Journal, error_reply
from .terminal import Terminal

MAX_LINE_BYTES = 4096
MAX_CONNECTIONS, BACKLOG, BURST_LINES, LINES_PER_S = 16, 128, 100, 20
MAX_SOCKET_PATH = 107
TOO_LONG = f"the line is longer than {MAX_LINE_BYTES} bytes"


class ControlDir:
    """Where the job finds `steps`, `notice.json` and `socket`: the task folder, or a folder of the user it runs as."""

    def __init__(self, task_dir: str, folder: str, user: dict[str, Any] | None) -> None:
        self.task_dir, self.folder, self.user = task_dir, folder, user


class SocketServer:
    """Rate-limited; an invalid message is answered with an error. attached: the job has sent `hello`."""

    def __init__(self, control_dir: ControlDir) -> None:
        self.control_dir = control_dir
        self.attached = False
        self._journal = Journal(f"{control_dir.task_dir}/messages.jsonl")
        self._poll = select.poll()
        self._connections: dict[int, tuple[socket.socket, bytearray]] = {}
        self._tokens, self._counted_at = float(BURST_LINES), time.monotonic()
        self._wakeup, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        self._poll.register(self._wakeup, select.POLLIN)
        self.folder = os.open(control_dir.folder, os.O_RDONLY | os.O_DIRECTORY)
        self._listener = self._listen()
        self._terminal: Terminal | None = None

    def open_terminal(self, log: str) -> Terminal:
        """The task's pseudo-terminal, served from now on. log: where its output goes."""
        self._terminal = Terminal(self._poll, self.control_dir.task_dir, log, self.control_dir.user)
        return self._terminal

    def watch(self, handle: int) -> None:
        """End waits when something can be read here, too."""
        self._poll.register(handle, select.POLLIN)

    def unwatch(self, handle: int) -> None:
        """No longer."""
        self._poll.unregister(handle)

    def path(self) -> str:
        """The socket's path for the job. One that is too long for an address goes through /proc, closed to other users."""
        path = f"{self.control_dir.folder}/socket"
        short = self.control_dir.user is not None or len(os.fsencode(path)) <= MAX_SOCKET_PATH
        return path if short else f"/proc/{os.getpid()}/fd/{self.folder}/socket"

    def wait(self, timeout_s: float) -> None:
        """Until a child has exited, a client connects or sends, or the time is over. Messages are written to the journal."""
        throttled = not self._has_tokens()
        if throttled:
            timeout_s = min(timeout_s, 1 / LINES_PER_S)
        for handle in self._connections:
            self._poll.modify(handle, 0 if throttled else select.POLLIN)
        for handle, event in self._poll.poll(max(0.0, timeout_s) * 1000):
            if handle == self._wakeup:
                with contextlib.suppress(BlockingIOError):
                    os.read(handle, 1024)
            elif handle in self._connections:
                self._receive(handle, event)
            elif self._terminal is not None and handle in self._terminal:
                self._terminal.handle(handle, event)
            elif self._listener is not None and handle == self._listener.fileno():
                self._accept(self._listener)

    def drain(self) -> None:
        """Take the messages that were sent before the end, then close: the journal is complete."""
        for _ in range(3):  # accept, receive, see the end of the connection
            self.wait(0)
        if self._terminal is not None:
            self._terminal.drain()
            self._terminal = None
        for handle in [*self._connections]:
            self._disconnect(handle)
        if self._listener is not None:
            self._poll.unregister(self._listener.fileno())
            self._listener.close()
            self._listener = None

    def _listen(self) -> socket.socket | None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        user = self.control_dir.user
        try:
            listener.bind(f"/proc/self/fd/{self.folder}/socket")
            safe_open.set_mode(self.folder, "socket", 0o600)
            if user is not None:
                os.chown("socket", user["uid"], user["gid"], dir_fd=self.folder, follow_symlinks=False)
            listener.listen(BACKLOG)
        except OSError as problem:  # the job runs without it
            sys.stderr.write(f"no socket: {problem.strerror}\n")
            listener.close()
            return None
        self._poll.register(listener.fileno(), select.POLLIN)
        return listener

    def _has_tokens(self) -> bool:
        now = time.monotonic()
        self._tokens = min(BURST_LINES, self._tokens + (now - self._counted_at) * LINES_PER_S)
        self._counted_at = now
        return self._tokens >= 1

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        if len(self._connections) >= MAX_CONNECTIONS:
            self._disconnect(next(iter(self._connections)))
        connection.setblocking(False)
        self._connections[connection.fileno()] = connection, bytearray()
        self._poll.register(connection.fileno(), select.POLLIN)

    def _disconnect(self, handle: int) -> None:
        connection, _ = self._connections.pop(handle)
        self._poll.unregister(handle)
        connection.close()

    def _receive(self, handle: int, event: int) -> None:
        connection, buffer = self._connections[handle]
        try:
            data = connection.recv(MAX_LINE_BYTES)
        except BlockingIOError:
            if not event & (select.POLLHUP | select.POLLERR):
                return
            data = b""
        except OSError:
            data = b""
        buffer += data
        replies = b""
        while (end := buffer.find(b"\n")) >= 0:  # every received line gets a reply; a client over the limit is read again later
            self._tokens -= 1
            replies += self._reply(bytes(buffer[:end]))
            del buffer[: end + 1]
        too_long = len(buffer) > MAX_LINE_BYTES
        if too_long:
            replies += error_reply(TOO_LONG)
        try:
            if replies and connection.send(replies) != len(replies):
                raise BlockingIOError
        except OSError:  # the client does not read the replies, or is gone
            data = b""
        if not data or too_long:
            self._disconnect(handle)

    def _reply(self, line: bytes) -> bytes:
        if len(line) > MAX_LINE_BYTES:
            return error_reply(TOO_LONG)
        reply, kind = self._journal.answer(line, self.control_dir.folder)
        self.attached = self.attached or kind == "hello"
        return reply
