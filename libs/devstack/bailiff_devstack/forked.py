"""Services that are forked from a process that has imported all of them.

A service starts in a fraction of the time, and its modules are in memory once for all services. The forking process runs `main`
and exits with this process.
"""

import ctypes
import importlib
import os
import runpy
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bailiff_node_agent.runtime.fork_server import ForkServer, shared_fork_server
from bailiff_node_agent.runtime.supervisor.forking import STATUS, requests_socket, serve, set_command

from .identity import Identity

_PR_SET_PDEATHSIG = 1
_PROGRAM = ("-c", "from bailiff_devstack.forked import main; main()")


class ForkedProcess:
    """A service that was forked, with the methods of `subprocess.Popen` that the devstack uses."""

    def __init__(self, identity: Identity, status: int) -> None:
        self.identity, self.pid = identity, identity.pid
        self.returncode: int | None = None
        self._status, self._lock = status, threading.Lock()

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
                poll.register(self._status, select.POLLIN)
                if poll.poll(None if timeout_s is None else timeout_s * 1000):
                    status = os.read(self._status, STATUS.size)
                    os.close(self._status)
                    # Without a status the fork server is gone, and the kernel has killed its children with it.
                    self.returncode = STATUS.unpack(status)[0] if status else -signal.SIGKILL
            return self.returncode


def fork_server(modules: Sequence[str]) -> ForkServer:
    """This process's fork server for these services. It imports them in the background."""
    return shared_fork_server(_PROGRAM, modules)


def start_forked(
    server: ForkServer, module: str, *, log: Path, env: Mapping[str, str], cwd: Path | None = None, die_with_parent: bool = True
) -> ForkedProcess:
    """Run a module as `__main__` in a session of its own, its output appended to the log. Raises `ForkServerDied`.

    With `die_with_parent` the kernel kills it when the fork server exits, which it does with this process.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    request = {"module": module, "env": dict(env), "cwd": str(cwd or Path.cwd()), "dies": die_with_parent}
    with log.open("ab") as output:
        pid, started, status = server.fork(request, [output.fileno()])
    return ForkedProcess(Identity.started_at(pid, started), status)


def main() -> None:
    """The forking process: import the modules in its arguments, and run the requested module in each child."""
    requests, modules, server = requests_socket(), sys.argv[2:-1], os.getpid()
    for module in modules:
        importlib.import_module(f"{module}.__main__")
        del sys.modules[f"{module}.__main__"]  # runpy executes it again, as `__main__`
        if module.startswith("bailiff"):
            importlib.import_module("bailiff_service.main").build_models()
    if threading.active_count() > 1:
        raise RuntimeError(f"a module started threads when it was imported: {threading.enumerate()}")
    set_command(sys.executable, *_PROGRAM)
    request, (output,) = serve(requests)
    if request["dies"]:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != server:  # it exited before prctl took effect
            os._exit(1)
    set_command(sys.executable, "-m", request["module"])
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.argv[:] = [request["module"]]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
