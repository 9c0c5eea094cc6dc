"""Starts child processes, waits until they are ready, and stops them.

For the demo, for tests that kill services, and for `make up`. Each child has a session of its own, a log file, and a
record on disk (identity.py) by which a later process can adopt or stop it. Nothing is restarted here.
"""

import contextlib
import http.client
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from bailiff_node_agent.runtime.fork_server import ForkServer

from .forked import ForkedProcess, start_forked
from .identity import Identity, drop_record, read_record, wait_until, write_record

_LAUNCH = Path(__file__).with_name("_launch.py")


class ProcessDiedError(RuntimeError):
    """A child exited unexpectedly."""


@dataclass(frozen=True)
class Death:
    """How a child exited: its exit code (-9 is SIGKILL, as in subprocess) and the last lines of its log."""

    name: str
    code: int
    last_lines: str

    def __str__(self) -> str:
        return f"{self.name} exited with {self.code}; the end of its log:\n{self.last_lines}"


class AdoptedProcess:
    """A process that another one has started, with the methods of `subprocess.Popen` that the devstack uses.

    Its exit code is not known: it reads as that of a kill.
    """

    def __init__(self, identity: Identity) -> None:
        self.identity, self.pid = identity, identity.pid

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return None if self.identity.alive() else -signal.SIGKILL

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it exits. Raises `subprocess.TimeoutExpired`."""
        if not wait_until(lambda: not self.identity.alive(), threading.TIMEOUT_MAX if timeout is None else timeout):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return -signal.SIGKILL

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has exited."""
        self.identity.signal(number)

    def kill(self) -> None:
        """SIGKILL, unless it has exited."""
        self.identity.signal(signal.SIGKILL)


Child = subprocess.Popen[bytes] | ForkedProcess | AdoptedProcess


@dataclass
class _Child:
    popen: Child
    identity: Identity
    log: Path
    ready_url: str | None


class Processes:
    """Named child processes, their logs (`NAME.log`) and records in one folder.

    A context manager: leaving it stops them all. With `die_with_parent=False` they may outlive this process; then
    `stop_recorded(folder)` stops them.
    """

    def __init__(self, folder: Path, *, die_with_parent: bool = True) -> None:
        self.folder = folder
        self._die_with_parent = die_with_parent
        self._children: dict[str, _Child] = {}

    def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        ready_url: str | None = None,
    ) -> int:
        """Start a child and return its pid at once; `wait_ready` waits until its `ready_url` answers 2xx.

        `env` is added to this process's environment. A name whose process has ended may be started again; its output is
        appended to the same log.
        """
        self._refuse_running(name)
        environment = {**os.environ, **(env or {})}
        popen = spawn(argv, log=self.log(name), env=environment, cwd=cwd, die_with_parent=self._die_with_parent)
        return self._started(name, popen, Identity.of(popen.pid), ready_url)

    def start_forked(
        self, name: str, module: str, server: ForkServer, *, env: Mapping[str, str], ready_url: str | None = None
    ) -> int:
        """As `start`, for `python -m MODULE`, forked from a process that has imported it."""
        self._refuse_running(name)
        environment = {**os.environ, **env}
        child = start_forked(server, module, log=self.log(name), env=environment, die_with_parent=self._die_with_parent)
        return self._started(name, child, child.identity, ready_url)

    def adopt(self, name: str, ready_url: str | None = None) -> bool:
        """Take over the recorded process of this name, if it runs."""
        earlier = read_record(self.folder, name)
        if earlier is None or not earlier.alive():
            return False
        self._children[name] = _Child(AdoptedProcess(earlier), earlier, self.log(name), ready_url)
        return True

    def _refuse_running(self, name: str) -> None:
        earlier = read_record(self.folder, name)
        if earlier is not None and earlier.alive():
            raise ValueError(f"{name} is already running; stop it first (records are in {self.folder})")

    def _started(self, name: str, popen: Child, identity: Identity, ready_url: str | None) -> int:
        self._children[name] = _Child(popen, identity, self.log(name), ready_url)
        write_record(self.folder, name, identity)
        return popen.pid

    def wait_ready(self, *names: str, timeout_s: float = 30.0, broker: Callable[[], bool] = lambda: True) -> None:
        """Wait until each of these (or all) answers at its URL.

        Args:
            broker: Whether the broker runs, without which no service becomes ready.

        Raises:
            ProcessDiedError: One of them, or the broker, has ended.
            TimeoutError: They are not ready within `timeout_s`.
        """
        unready = {name: url for name in names or self._children if (url := self._children[name].ready_url)}

        def all_ready() -> bool:
            if not broker():
                raise ProcessDiedError("Kafka has ended")
            for name, url in list(unready.items()):
                self.check(name)
                if _answers(url):
                    del unready[name]
            return not unready

        if not wait_until(all_ready, timeout_s):
            logs = "\n".join(f"{name}:\n{tail(self.log(name))}" for name in unready)
            raise TimeoutError(f"not ready within {timeout_s:g} s: {', '.join(unready)}\n{logs}")

    def log(self, name: str) -> Path:
        """The child's log file: what it wrote to stdout and stderr."""
        return self.folder / f"{name}.log"

    def pid(self, name: str) -> int:
        """The child's pid, also after its end."""
        return self._children[name].popen.pid

    def running(self) -> list[str]:
        """Names of the running children."""
        return [name for name, child in self._children.items() if child.popen.poll() is None]

    def deaths(self) -> list[Death]:
        """Children that exited by themselves or by `kill9`, and were not started again."""
        return [
            Death(name, code, tail(child.log))
            for name, child in self._children.items()
            if (code := child.popen.poll()) is not None
        ]

    def check(self, *names: str) -> None:
        """Raise if one of these (or any) has exited."""
        dead = [death for death in self.deaths() if not names or death.name in names]
        if dead:
            raise ProcessDiedError("\n\n".join(map(str, dead)))

    def wait(self, name: str, *, timeout_s: float = 60.0) -> int:
        """Wait until the child exits by itself; its exit code."""
        return self._children[name].popen.wait(timeout_s)

    def kill9(self, name: str) -> None:
        """SIGKILL to the child alone, as in a crash: its own children keep running."""
        child = self._children[name]
        child.popen.kill()
        reap(child.popen)

    def stop(self, name: str, *, grace_s: float = 10.0) -> Death:
        """TERM to the child's whole session, wait, KILL to the rest; how it exited."""
        child = self._children.pop(name)
        child.identity.end(grace_s)
        code = reap(child.popen)
        drop_record(self.folder, name)
        return Death(name, code, tail(child.log))

    def stop_all(self, *, grace_s: float = 10.0) -> list[Death]:
        """Stop all children concurrently."""
        names = list(self._children)
        threads = [threading.Thread(target=self._children[name].identity.end, args=(grace_s,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [self.stop(name, grace_s=grace_s) for name in names]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_all()


def _answers(url: str) -> bool:
    """One GET, without the proxies that urllib would take from the environment."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port or 80, timeout=1.0)
    with contextlib.closing(connection):
        try:
            connection.request("GET", parts.path or "/")
            return 200 <= connection.getresponse().status < 300
        except (OSError, http.client.HTTPException):
            return False


def reap(popen: Child) -> int:
    """The exit code of a child that has exited or was just killed."""
    try:
        return popen.wait(5.0)
    except subprocess.TimeoutExpired:  # a Ctrl-C inside poll() leaves its lock held forever
        if not isinstance(popen, subprocess.Popen):
            raise
        _, status = os.waitpid(popen.pid, 0)
        popen.returncode = os.waitstatus_to_exitcode(status)
        return popen.returncode


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log, for an error message; of a service's log the sentences."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16_384))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(map(_sentence, text.splitlines()[-lines:]))


def _sentence(line: str) -> str:
    try:
        entry = json.loads(line)
        return f"{entry['timestamp']} {entry['level']}: {entry['event']}"
    except (ValueError, TypeError, KeyError):
        return line


_Start = Callable[[], subprocess.Popen[bytes]]
_Requests = queue.SimpleQueue[tuple[_Start, Future[subprocess.Popen[bytes]]]]


def spawn(
    argv: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    die_with_parent: bool = True,
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, its output appended to the log.

    With `die_with_parent` the kernel kills it when this process exits for any reason.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    command = list(argv)
    if die_with_parent:
        command = [sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()), *command]

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                command,
                env=None if env is None else dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    if not die_with_parent or threading.current_thread() is threading.main_thread():
        return start()
    return _on_persistent_thread(start)


_spawner: tuple[int, _Requests] | None = None
_spawner_lock = threading.Lock()


def _on_persistent_thread(start: _Start) -> subprocess.Popen[bytes]:
    """Start from a thread that runs until the process exits.

    For the kernel, the parent is the *thread* that started the child: a child started from a worker thread (such as
    asyncio.to_thread) would be killed when that thread ends.
    """
    global _spawner
    with _spawner_lock:
        if _spawner is None or _spawner[0] != os.getpid():
            requests: _Requests = queue.SimpleQueue()
            threading.Thread(target=_serve, args=(requests,), name="devstack-spawn", daemon=True).start()
            _spawner = (os.getpid(), requests)
    result: Future[subprocess.Popen[bytes]] = Future()
    _spawner[1].put((start, result))
    return result.result()


def _serve(requests: _Requests) -> None:
    while True:
        start, result = requests.get()
        try:
            result.set_result(start())
        except OSError as error:
            result.set_exception(error)
