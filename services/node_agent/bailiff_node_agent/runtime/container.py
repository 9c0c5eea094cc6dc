"""The supervisor of a task that is a container; it outlives the agent.

Like `supervisor` for processes, it holds the task's lock, serves the socket, enforces lease and deadlines, and writes `exit.json`
only when nothing of the container is left. It also pulls the image, and copies the container's output to the task's log at the
pace at which the disk accepts it.

Every call to the engine runs in a thread, so that an unavailable engine delays no deadline. This
process kills what the engine does not stop, where it has permission.
"""

import calendar
import contextlib
import functools
import json
import os
import select
import signal
import socket
import threading
import time
import tty
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from bailiff_node_agent.runtime.supervisor import safe_open
from bailiff_node_agent.runtime.supervisor.daemon import await_task, write_exit, write_running
from bailiff_node_agent.runtime.supervisor.host import boottime_us, write_json
from bailiff_node_agent.runtime.supervisor.lease import LEASE_EXPIRED, Lease
from bailiff_node_agent.runtime.supervisor.processes import read_process, send
from bailiff_node_agent.runtime.supervisor.socket_server import ControlDir
from bailiff_node_agent.runtime.supervisor.terminal import DEFAULT_SIZE, READ_BYTES, Terminal
from bailiff_node_agent.runtime.supervisor.watchdog import Watchdog

from .docker_engine import Engine, EngineError, EngineUnavailable, pids_of
from .port import OUT_OF_MEMORY

RETRY_S = 1.0
START_TIMEOUT_S = 10.0
LOST_AFTER_S = 300.0  # how long to query an unavailable engine for the exit code of a removed container
REMOVE_TIMEOUT_S = 60.0
CANNOT_START, NO_SUCH_COMMAND = 126, 127
Reply = TypeVar("Reply")


class _CannotStart(Exception):
    """The container cannot be started; the message has the reason."""


class _Stopped(Exception):
    """The task was stopped before it started."""


class Output:
    """Copies the container's output to the task's log, each chunk once, also when the connection to the engine is interrupted.

    The engine repeats all output since a given second; chunks that are in the log already are counted and skipped. Standard
    output and errors are timed separately, so a chunk may follow a later one: one more second of output is requested.
    """

    def __init__(self, path: str) -> None:
        self._file = safe_open.open_log(path)
        self.since = 0
        self._written: dict[int, int] = {}
        """How many chunks of each second, from `since` on, are in the log."""

    def write(self, chunks: Iterable[bytes]) -> None:
        """Write the chunks that are new."""
        known = sum(self._written.values())
        for chunk in chunks:
            if known:
                known -= 1
                continue
            timestamp, _, data = chunk.partition(b" ")
            self._count(_second(timestamp))
            self._append(data)

    def _count(self, second: int) -> None:
        if second > self.since + 1:
            self.since = second - 1
            self._written = {each: count for each, count in self._written.items() if each >= self.since}
        if second >= self.since:
            self._written[second] = self._written.get(second, 0) + 1

    def _append(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._file, data) :]
            except OSError:  # a full disk: the engine waits, and in the end the container
                time.sleep(RETRY_S)


class TerminalRelay:
    """Carries bytes between the terminal of a container, which the engine makes, and the task's own, which has log and clients.

    The task's own changes nothing on the way. What the container prints while the engine is unavailable is lost; what is typed is
    kept.
    """

    def __init__(self, url: str, container: str, terminal: Terminal) -> None:
        self._url, self._container, self._slave = url, container, terminal.slave
        tty.setraw(terminal.slave)
        self._size, (self._resized, self._resizes) = DEFAULT_SIZE, os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stream: socket.socket | None = None
        self._typed = bytearray()
        terminal.resized = self._resize

    def attach(self, engine: Engine) -> None:
        """Before the container starts, so that nothing is missed."""
        self._stream = engine.attach(self._container)

    def copy(self, engine: Engine, *, attach: bool) -> None:
        """Until the container closes its end, or the connection breaks. attach: anew, where it is not attached."""
        if self._stream is None and attach:
            self.attach(engine)
        if self._stream is None:
            return
        with self._stream as stream, contextlib.suppress(OSError):
            self._stream = None
            self._carry(engine, stream)

    def _carry(self, engine: Engine, stream: socket.socket) -> None:
        """Output goes on while the job reads no input."""
        typed = self._typed
        stream.setblocking(False)
        engine.resize(self._container, *self._size)
        poll = select.poll()
        poll.register(self._resized, select.POLLIN)
        while True:
            poll.register(stream, select.POLLIN | (select.POLLOUT if typed else 0))
            poll.register(self._slave, 0 if typed else select.POLLIN)
            found = dict(poll.poll())
            if self._resized in found:
                os.read(self._resized, READ_BYTES)
                engine.resize(self._container, *self._size)
            if found.get(self._slave, 0) & select.POLLIN:
                typed += os.read(self._slave, READ_BYTES)
            at_stream = found.get(stream.fileno(), 0)
            if at_stream & select.POLLOUT:
                del typed[: stream.send(typed)]
            if at_stream & ~select.POLLOUT:
                data = stream.recv(READ_BYTES)
                if not data:
                    return
                while data:
                    data = data[os.write(self._slave, data) :]

    def _resize(self, rows: int, columns: int) -> None:
        self._size = rows, columns
        with contextlib.suppress(BlockingIOError):
            os.write(self._resizes, b"x")


class Container:
    """One task's container, from the pull of its image to its removal.

    started: it runs. is_slow: its start takes long, as with an image that is pulled. finished: it is gone. terminal: the task's
    own, if it has one.
    """

    def __init__(
        self, task_dir: str, launch_input: dict[str, Any], wake: Callable[[], None], terminal: Terminal | None = None
    ) -> None:
        self._task_dir, self._wake = task_dir, wake
        self._url, self._name, self._config = launch_input["engine"], launch_input["name"], launch_input["config"]
        self._log = launch_input["log"]
        self._relay = TerminalRelay(self._url, self._name, terminal) if terminal is not None else None
        self.id: str | None = None
        self.pid: int | None = None
        self.code = -int(signal.SIGKILL)
        self.error: str | None = None
        self.started, self.is_slow, self.finished = threading.Event(), threading.Event(), threading.Event()
        self._stop_signal: int | None = None
        self._killing: threading.Thread | None = None

    def run(self) -> None:
        """Run the container from start to removal; sets `finished` even if this fails."""
        engine = Engine(self._url)
        try:
            self._start(engine)
            self._follow(engine)
        except _Stopped:
            self.code = -(self._stop_signal or signal.SIGKILL)
        except _CannotStart as problem:
            self.error = str(problem)[:900]
            self.code = NO_SUCH_COMMAND if "executable file not found" in self.error else CANNOT_START
        except Exception as problem:  # noqa: BLE001 - whatever it is, the container must not be left running
            self.error = f"its supervisor failed: {type(problem).__name__}: {problem}"[:900]
        with contextlib.suppress(EngineError, EngineUnavailable):
            # A container whose creation was not confirmed was never started; the agent removes it with the task.
            self._retry(lambda: engine.remove(self._name), for_s=REMOVE_TIMEOUT_S if self.id else 0)
        self.kill_remaining()
        self.finished.set()
        self._wake()

    def terminate(self) -> None:
        """TERM, once."""
        if self._stop_signal is None:
            self._stop_signal = int(signal.SIGTERM)
            threading.Thread(target=self._send_term, daemon=True).start()

    def kill(self) -> bool:
        """KILL; whether anything was left to kill."""
        self._stop_signal = int(signal.SIGKILL)
        if self.finished.is_set():
            return False
        if self._killing is None or not self._killing.is_alive():
            self._killing = threading.Thread(target=self._send_kill, daemon=True)
            self._killing.start()
        return True

    def has_begun(self) -> bool:
        """Whether its program ran, or is none that the image has: that is the job's own failure."""
        return self.started.is_set() or self.code == NO_SUCH_COMMAND

    # --- start and run, in a thread

    def _start(self, engine: Engine) -> None:
        image = self._config["Image"]
        try:
            if not self._retry(lambda: engine.has_image(image)):
                self._pull(engine, image)
            self.id = self._retry(lambda: engine.create(self._name, self._config))
            write_json(f"{self._task_dir}/container.json", {"id": self.id})
            if self._is_stopping():
                raise _Stopped
            if self._relay is not None:
                self._retry(functools.partial(self._relay.attach, engine))
            self._retry(lambda: self._start_once(engine))
        except EngineError as refusal:
            raise _CannotStart(f"the container of image {image} could not be started: {refusal}") from None
        description = self._retry(lambda: engine.inspect(self._name)) or {}
        self.pid = description.get("State", {}).get("Pid") or None
        self.started.set()
        self._wake()
        if self._is_stopping():
            self._send_term()  # TERM was requested before there was a process to send it to

    def _pull(self, engine: Engine, image: str) -> None:
        self.is_slow.set()
        try:
            self._retry(lambda: self._pull_once(engine, image))
        except EngineError as refusal:
            raise _CannotStart(f"image {image} is not on this node and cannot be pulled: {refusal}") from None

    def _pull_once(self, engine: Engine, image: str) -> None:
        for _ in engine.pull(image):
            if self._is_stopping():
                raise _Stopped

    def _start_once(self, engine: Engine) -> None:
        """A container that ran already is not started again, even if the answer to its start was lost."""
        description = engine.inspect(self._name)
        if description is None or description["State"]["StartedAt"].startswith("0001"):
            engine.start(self._name)

    def _is_stopping(self) -> bool:
        return self._stop_signal is not None

    def _follow(self, engine: Engine) -> None:
        """Until it has exited, however often the engine is unavailable meanwhile."""
        copy, unavailable_since = self._copier(engine), None
        while True:
            try:
                description = engine.inspect(self._name)
                if description is None:
                    self.error = None if self._is_stopping() else "its container was removed by someone else"
                    return
                state = description["State"]
                if not state["Running"]:
                    with contextlib.suppress(EngineError):
                        copy(running=False)
                    self.code = state["ExitCode"]
                    self.error = OUT_OF_MEMORY if state.get("OOMKilled") else state.get("Error") or None
                    return
                copy(running=True)
                unavailable_since = None
            except (EngineUnavailable, EngineError):  # an engine that shuts down aborts running calls
                engine.close()
                unavailable_since = unavailable_since or time.monotonic()
                if not self.pids() and time.monotonic() - unavailable_since > LOST_AFTER_S:
                    self.error = "it has exited; its exit code is unknown because the Docker engine was unavailable"
                    return
                time.sleep(RETRY_S)

    def _copier(self, engine: Engine) -> Callable[..., None]:
        """What copies the container's output until that ends."""
        relay, output = self._relay, Output(self._log)
        if relay is not None:
            return lambda *, running: relay.copy(engine, attach=running)
        return lambda *, running: output.write(engine.output(self._name, output.since))  # noqa: ARG005 - the other's

    def _retry(self, call: Callable[[], Reply], for_s: float | None = None) -> Reply:
        """The engine's reply; repeats the call while the engine is unavailable."""
        began = time.monotonic()
        while True:
            try:
                return call()
            except EngineUnavailable:
                self.is_slow.set()
                if for_s is not None and time.monotonic() - began > for_s:
                    raise
                if for_s is None and self._is_stopping() and not self.started.is_set():
                    raise _Stopped from None
                time.sleep(RETRY_S)

    # --- stop, each call in its own thread

    def _send_term(self) -> None:
        engine = Engine(self._url)
        while self.started.is_set() and not self.finished.is_set():
            try:
                engine.signal(self._name, signal.SIGTERM)
            except EngineUnavailable:
                if not self._signal_main(signal.SIGTERM):
                    time.sleep(RETRY_S)
                    continue
            return

    def _send_kill(self) -> None:
        with contextlib.suppress(EngineUnavailable):
            Engine(self._url).signal(self._name, signal.SIGKILL)
        self.kill_remaining()
        time.sleep(RETRY_S)  # until it may be sent again

    def _signal_main(self, number: int) -> bool:
        main = read_process(self.pid) if self.pid else None
        if main is None or main.pid not in self.pids():
            return False
        try:
            send(main, number)
        except PermissionError:
            return False
        return True

    def pids(self) -> tuple[int, ...]:
        """Its living processes, as this machine numbers them."""
        return pids_of(self.id) if self.id else ()

    def kill_remaining(self) -> None:
        """KILL to each of its processes, without the engine."""
        for process in map(read_process, self.pids()):
            if process is not None:
                with contextlib.suppress(PermissionError):
                    send(process, signal.SIGKILL)


def supervise(task_dir: str, launch_input: dict[str, Any], lease: Lease, ready: int) -> None:
    """Run the container from its start to its exit."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watchdog = Watchdog(
        ControlDir(task_dir, launch_input["control_dir"], launch_input["user"]), lease, launch_input["is_only_task"]
    )
    terminal = watchdog.server.open_terminal(launch_input["log"]) if launch_input.get("tty") else None
    container = Container(task_dir, launch_input, lambda: os.kill(os.getpid(), signal.SIGCHLD), terminal)
    if lease.has_expired():
        lease.killed_at_start, container.error = True, LEASE_EXPIRED
    else:
        threading.Thread(target=container.run, daemon=True).start()
        _wait_started(container)
    is_known = container.started.is_set()
    write_running(task_dir, container.pid or os.getpid(), boottime_us(), begun=is_known)
    os.close(ready)
    while not container.finished.is_set() and not lease.killed_at_start:
        if container.started.is_set() and not is_known:
            with contextlib.suppress(OSError):  # a full disk: again with the next event
                write_running(task_dir, container.pid or os.getpid(), boottime_us())
                is_known = True
        watchdog.enforce(container)
        _carry_out_requests(task_dir, container)
        watchdog.wait()
    while container.pids():
        container.kill_remaining()
        watchdog.wait(0.05)
    write_exit(task_dir, watchdog, container.code, 0, container.error, begun=container.has_begun())


def _wait_started(container: Container) -> None:
    """Or until the start turns out to be slow: the agent does not wait for it, since the task can be evicted meanwhile."""
    until = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until:
        if container.started.wait(0.02) or container.is_slow.is_set() or container.finished.is_set():
            return


def _carry_out_requests(task_dir: str, container: Container) -> None:
    """TERM or KILL, as the agent has requested in `terminating.json`."""
    with contextlib.suppress(OSError, ValueError):
        with open(f"{task_dir}/terminating.json") as file:  # noqa: PTH123 - as a supervisor does
            request = json.load(file)
        if request.get("kill"):
            container.kill()
        else:
            container.terminate()


def _second(timestamp: bytes) -> int:
    """`2026-11-22T05:00:00.123456789Z` in seconds since 1970; 0 for anything else."""
    try:
        return calendar.timegm(time.strptime(timestamp[:19].decode(), "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return 0


def main() -> None:
    task_dir, lease, launch_input, ready = await_task()
    supervise(task_dir, launch_input, lease, ready)
