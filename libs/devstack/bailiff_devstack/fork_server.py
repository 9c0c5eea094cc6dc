"""Starts services by forking a process that has imported all of them, as multiprocessing's fork server does.

A service starts in a fraction of the time, and its modules are in memory once for all services. Linux only.

`ForkServer` is used by the devstack; the forking process itself runs `main`. It
exits when the devstack's end of the socket closes, and has one thread, so that forking is safe.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from .identity import Identity

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_REQUEST_BYTES = 1 << 20
_STATUS = struct.Struct("i")


class ForkServerDiedError(RuntimeError):
    """The forking process has exited: an import failed, or it was killed. Its standard error says why."""


class ForkedProcess:
    """A service started by the fork server, with the methods of `subprocess.Popen` that the devstack uses."""

    def __init__(self, identity: Identity, status_fd: int) -> None:
        self.identity, self.pid = identity, identity.pid
        self.returncode: int | None = None
        self._status_fd, self._lock = status_fd, threading.Lock()

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._read_status(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it exits; its exit code. Raises `subprocess.TimeoutExpired`."""
        code = self._read_status(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def kill(self) -> None:
        """SIGKILL, unless it has exited."""
        self.identity.signal(signal.SIGKILL)

    def _read_status(self, timeout_s: float | None) -> int | None:
        with self._lock:
            if self.returncode is None:
                poll = select.poll()
                poll.register(self._status_fd, select.POLLIN)
                if poll.poll(None if timeout_s is None else timeout_s * 1000):
                    status = os.read(self._status_fd, _STATUS.size)
                    os.close(self._status_fd)
                    # Without a status the fork server is gone, and the kernel has killed its children with it.
                    self.returncode = _STATUS.unpack(status)[0] if status else -signal.SIGKILL
            return self.returncode


class ForkServer:
    """The devstack's end. modules: imported before the first fork. Imports begin at once, in the background."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._popen = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import main; main()", str(theirs.fileno()), *modules],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        atexit.register(self.close)

    def start(
        self, module: str, *, log: Path, env: Mapping[str, str], cwd: Path | None = None, die_with_parent: bool = True
    ) -> ForkedProcess:
        """Run a module as `__main__` in a session of its own, its output appended to the log. Raises `ForkServerDiedError`.

        With `die_with_parent` the kernel kills it when the fork server exits, which it does with this process.
        """
        request = {"module": module, "env": dict(env), "cwd": str(cwd or Path.cwd()), "die": die_with_parent}
        log.parent.mkdir(parents=True, exist_ok=True)
        status, theirs = os.pipe()
        try:
            with self._lock, log.open("ab") as output:
                socket.send_fds(self._socket, [json.dumps(request).encode()], [theirs, output.fileno()])
                answer = self._socket.recv(_REQUEST_BYTES)
        except OSError:
            answer = b""
        finally:
            os.close(theirs)
        if not answer:
            os.close(status)
            raise ForkServerDiedError(f"{module} cannot be started: the fork server has exited")
        return ForkedProcess(Identity(**json.loads(answer)), status)

    def alive(self) -> bool:
        """Whether it can start services."""
        return self._popen.poll() is None

    def close(self) -> None:
        """End it, and the services that die with it."""
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(5.0)
        self._popen.kill()
        self._popen.wait()


_server: tuple[int, ForkServer] | None = None
_server_lock = threading.Lock()


def shared_fork_server(modules: Sequence[str]) -> ForkServer:
    """This process's fork server, started at the first call, or again after it has died."""
    global _server
    with _server_lock:
        if _server is None or _server[0] != os.getpid() or not _server[1].alive():
            _server = (os.getpid(), ForkServer(modules))
        return _server[1]


def _serve(requests: socket.socket) -> str:
    """Fork for each request. Returns in the child, with the module that it has to run; the server itself exits at the end."""
    woken, wakes = socket.socketpair()
    woken.setblocking(False)
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    statuses: dict[int, int] = {}
    while True:
        readable, _, _ = select.select([requests, woken], [], [])
        if woken in readable:
            with contextlib.suppress(BlockingIOError):
                woken.recv(4096)
            _reap(statuses)
        if requests not in readable:
            continue
        data, handles, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 2)
        if not data:
            sys.exit(0)
        request, (status, output), parent = json.loads(data), handles, os.getpid()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for end in (requests, woken, wakes):
                end.close()
            for handle in (status, *statuses.values()):
                os.close(handle)
            _become(request, output, parent)
            return str(request["module"])
        os.close(output)
        statuses[pid] = status
        requests.send(json.dumps(vars(Identity.of(pid))).encode())  # not yet reaped, so the pid is still this child's


def _reap(statuses: dict[int, int]) -> None:
    """Tell the devstack how each child that has exited did so."""
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        handle = statuses.pop(pid)
        with contextlib.suppress(BrokenPipeError):  # the devstack no longer asks
            os.write(handle, _STATUS.pack(os.waitstatus_to_exitcode(status)))
        os.close(handle)


def _become(request: Mapping[str, object], output: int, parent: int) -> None:
    """Give the child its session, output, environment and folder."""
    os.setsid()
    libc = ctypes.CDLL(None)
    if request["die"]:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it exited before prctl took effect
            os._exit(1)
    libc.prctl(_PR_SET_NAME, str(request["module"]).removeprefix("bailiff_").encode(), 0, 0, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    assert isinstance(request["env"], dict)
    os.environ.update(request["env"])
    time.tzset()


def main() -> None:
    """The forking process: import the modules in its arguments, serve, and run the requested module in each child."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    requests.set_inheritable(False)
    for module in sys.argv[2:]:
        importlib.import_module(f"{module}.__main__")
        del sys.modules[f"{module}.__main__"]  # runpy executes it again, as `__main__`
    importlib.import_module("bailiff_service.main").build_models()
    if threading.active_count() > 1:
        raise RuntimeError(f"a module started threads when it was imported: {threading.enumerate()}")
    gc.collect()
    gc.freeze()  # a collection in a child would write to pages that all of them share
    module = _serve(requests)
    sys.argv[:] = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
