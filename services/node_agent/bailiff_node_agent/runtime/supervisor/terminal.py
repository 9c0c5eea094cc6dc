"""The pseudo-terminal of a task, and the socket through which the agent's clients use it.

The supervisor owns the terminal, so that it survives the agent. Output goes to the log and to every client; a client that does
not read misses output, but never blocks the job. Input waits in a bounded buffer: while that is full, clients are not read.

A frame is a type, a length of four bytes (big-endian), and the content. From clients: `I` input, `R` rows and columns. To
clients: `O` output, `S` how many bytes of output were left out.
"""

import contextlib
import fcntl
import os
import select
import socket
import struct
import termios
from typing import TYPE_CHECKING, Any

from . import safe_open

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER = struct.Struct(">cI")
SIZE, COUNT = struct.Struct(">HH"), struct.Struct(">Q")
INPUT, RESIZE, OUTPUT, SKIPPED = b"I", b"R", b"O", b"S"
MAX_FRAME = 64 * 1024
MAX_CLIENTS, MAX_WAITING, MAX_INPUT, SHOWN_AGAIN = 16, 256 * 1024, 64 * 1024, 64 * 1024
READS_AT_ONCE, READ_BYTES = 32, 8192
SOCKET = "terminal"
DEFAULT_SIZE = 24, 80  # rows, columns


def frame(kind: bytes, content: bytes) -> bytes:
    return HEADER.pack(kind, len(content)) + content


class BadFrame(ValueError):
    """The client does not follow the protocol."""


class Frames:
    """Frames out of a stream of bytes."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> "list[tuple[bytes, bytes]]":
        """The frames that are complete now. Raises `BadFrame`."""
        self._data += data
        found = []
        while len(self._data) >= HEADER.size:
            kind, length = HEADER.unpack_from(self._data)
            if length > MAX_FRAME:
                raise BadFrame(f"a frame of {length} bytes")
            if len(self._data) < HEADER.size + length:
                break
            found.append((kind, bytes(self._data[HEADER.size : HEADER.size + length])))
            del self._data[: HEADER.size + length]
        return found


class _Client:
    def __init__(self, connection: socket.socket, shown: bytes) -> None:
        self.connection, self.frames = connection, Frames()
        self.waiting = bytearray(frame(OUTPUT, shown) if shown else b"")
        self.skipped = 0

    def show(self, data: bytes) -> None:
        """Queue output, or count it where the client is too slow."""
        if len(self.waiting) + len(data) > MAX_WAITING:
            self.skipped += len(data)
            return
        self._say_skipped()
        self.waiting += frame(OUTPUT, data)

    def send(self) -> None:
        """Send what the client takes. It learns what was left out once it has read the rest, even if no output follows."""
        del self.waiting[: self.connection.send(self.waiting)]
        if not self.waiting:
            self._say_skipped()

    def _say_skipped(self) -> None:
        if self.skipped:
            self.waiting += frame(SKIPPED, COUNT.pack(self.skipped))
            self.skipped = 0


class Terminal:
    """A pseudo-terminal whose clients connect to `<task_dir>/terminal`. poll: watches its handles. log: open for appending.

    slave: the job's end. It stays open here, so that the terminal outlives the processes that use it. resized: called with rows
    and columns, where the job has another terminal than this one.
    """

    def __init__(self, poll: "select.poll", task_dir: str, log: str, user: "dict[str, Any] | None") -> None:
        self._poll = poll
        self.resized: Callable[[int, int], None] | None = None
        self.master, self.slave = os.openpty()
        os.set_blocking(self.master, False)
        self._resize(*DEFAULT_SIZE)
        self._log = safe_open.open_log(log)
        if user is not None:
            os.fchown(self.slave, user["uid"], user["gid"])
        self._clients: dict[int, _Client] = {}
        self._shown, self._input = bytearray(), bytearray()
        self._listener = self._listen(task_dir)
        self._poll.register(self.master, select.POLLIN)
        self._poll.register(self._listener.fileno(), select.POLLIN)

    def __contains__(self, handle: int) -> bool:
        return handle in (self.master, self._listener.fileno()) or handle in self._clients

    def handle(self, handle: int, event: int) -> None:
        """Something can be read or written."""
        if handle == self.master:
            if event & select.POLLOUT:
                self._write_input()
            if event & select.POLLIN:
                self._read_output()
        elif handle == self._listener.fileno():
            self._accept()
        else:
            self._serve(handle, event)
        self._watch()

    def drain(self, timeout_ms: int = 500) -> None:
        """Pass on what the job has written before its end, then close. A slow client has this long to read it.

        What the kernel holds of a terminal fits into one reading. Who still writes is none of the task's processes: another of
        its user may have opened the terminal, and must not keep the task's end from being recorded.
        """
        self._read_output()
        self._poll.unregister(self.master)
        self._input.clear()
        poll = select.poll()
        while timeout_ms > 0 and (waiting := {at for at, client in self._clients.items() if client.waiting}):
            for at in waiting:
                poll.register(at, select.POLLOUT)
            for at, _ in poll.poll(50):
                self._serve(at, select.POLLOUT)
            for at in waiting:
                poll.unregister(at)
            timeout_ms -= 50
        for at in [*self._clients]:
            self._disconnect(at)
        self._poll.unregister(self._listener.fileno())
        self._listener.close()

    # --- the job's end

    def _read_output(self) -> bool:
        """Whether there was any. A job that writes without end is interrupted, so that deadlines are kept."""
        for number in range(READS_AT_ONCE):
            try:
                data = os.read(self.master, READ_BYTES)
            except OSError:
                data = b""
            if not data:
                return number > 0
            with contextlib.suppress(OSError):  # a full disk loses log, as for any job
                os.write(self._log, data)
            self._shown += data
            del self._shown[:-SHOWN_AGAIN]
            for client in self._clients.values():
                client.show(data)
        return True

    def _write_input(self) -> None:
        try:
            written = os.write(self.master, self._input)
        except BlockingIOError:
            return
        except OSError:
            written = len(self._input)
        del self._input[:written]

    def _resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if self.resized is not None:
            self.resized(rows, columns)

    # --- clients

    def _listen(self, task_dir: str) -> socket.socket:
        """Only the agent's user can pass through the task folder. The path may be too long for an address."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        folder = os.open(task_dir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            listener.bind(f"/proc/self/fd/{folder}/{SOCKET}")
            os.chmod(SOCKET, 0o600, dir_fd=folder)
        finally:
            os.close(folder)
        listener.listen(MAX_CLIENTS)
        return listener

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if len(self._clients) >= MAX_CLIENTS:
            connection.close()
            return
        connection.setblocking(False)
        self._clients[connection.fileno()] = _Client(connection, bytes(self._shown))
        self._poll.register(connection.fileno(), select.POLLIN)

    def _serve(self, handle: int, event: int) -> None:
        client = self._clients.get(handle)
        if client is None:
            return
        try:
            if event & select.POLLOUT and client.waiting:
                client.send()
            if event & (select.POLLIN | select.POLLHUP | select.POLLERR):
                data = client.connection.recv(READ_BYTES)
                if not data:
                    raise ConnectionResetError
                for kind, content in client.frames.feed(data):
                    self._take(kind, content)
        except BlockingIOError:
            return
        except (OSError, ValueError, struct.error):
            self._disconnect(handle)

    def _take(self, kind: bytes, content: bytes) -> None:
        if kind == INPUT:
            self._input += content
            self._write_input()
        elif kind == RESIZE:
            rows, columns = SIZE.unpack(content)
            if rows and columns:
                self._resize(rows, columns)
        else:
            raise BadFrame("an unknown type of frame")

    def _disconnect(self, handle: int) -> None:
        self._poll.unregister(handle)
        self._clients.pop(handle).connection.close()

    def _watch(self) -> None:
        """Wait for what can be handled: no more input than the job takes, no writing without output."""
        self._poll.modify(self.master, select.POLLIN | (select.POLLOUT if self._input else 0))
        reading = select.POLLIN if len(self._input) < MAX_INPUT else 0
        for handle, client in self._clients.items():
            self._poll.modify(handle, reading | (select.POLLOUT if client.waiting else 0))
