"""Starts a program many times by forking a process that has imported it (`supervisor/forking.py`), as multiprocessing does."""

import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from .supervisor.forking import REQUEST_BYTES, TITLE_ROOM


class ForkServerDied(RuntimeError):
    """The forking process has exited: an import failed, or it was killed. Its standard error says why."""


class ForkServer:
    """A process that runs this Python program, which serves requests with `forking.serve`.

    python: arguments of Python, the program among them. arguments: of the program, besides its socket.
    """

    def __init__(self, python: Sequence[str], arguments: Sequence[str] = (), env: Mapping[str, str] | None = None) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._popen = subprocess.Popen(
                [sys.executable, *python, str(theirs.fileno()), *arguments, " " * TITLE_ROOM],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=None if env is None else dict(env),
                cwd="/",
                start_new_session=True,
            )
        atexit.register(self.close)

    def fork(self, content: Mapping[str, Any], handles: Sequence[int] = ()) -> tuple[int, int, int]:
        """Fork a process for this request. Raises `ForkServerDied`.

        Returns its pid, its start time in clock ticks since boot, and a handle: its `forking.STATUS` once it has exited.
        """
        status, theirs = os.pipe()
        try:
            with self._lock:
                socket.send_fds(self._socket, [json.dumps(content).encode()], [theirs, *handles])
                answer = self._socket.recv(REQUEST_BYTES)
        except OSError:
            answer = b""
        finally:
            os.close(theirs)
        if not answer:
            os.close(status)
            raise ForkServerDied(f"the process that starts others has exited with {self._popen.poll()}")
        pid, started = json.loads(answer)
        return pid, started, status

    def alive(self) -> bool:
        """Whether it can fork."""
        return self._popen.poll() is None

    def close(self) -> None:
        """End it. Its children run on, except those that asked the kernel to be killed with it."""
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(5.0)
        self._popen.kill()
        self._popen.wait()


_servers: dict[tuple[str, ...], ForkServer] = {}
_servers_lock = threading.Lock()
os.register_at_fork(after_in_child=_servers.clear)


def shared_fork_server(python: Sequence[str], arguments: Sequence[str] = (), env: Mapping[str, str] | None = None) -> ForkServer:
    """This process's server for this program, started at the first call, or again after it has died."""
    key = (*python, *arguments)
    with _servers_lock:
        found = _servers.get(key)
        if found is None or not found.alive():
            if found is not None:
                found.close()
            found = _servers[key] = ForkServer(python, arguments, env)
        return found
