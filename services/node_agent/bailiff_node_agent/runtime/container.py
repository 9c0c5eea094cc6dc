"""The small process that stands between the agent and one container, and outlives the agent.

What `supervisor` is to a task that is a process, this is to one that is a container: it holds the lock, serves the socket,
keeps the lease and the deadlines, and writes `exit.json` only when nothing of the container is left. It also has the image
pulled, and writes what the container prints to the task's log, at the pace at which the disk takes it.

All that waits for the engine happens in threads, so that an engine that is away delays no deadline: what the engine
does not end, this process ends by itself where it may.
"""

import calendar
import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from bailiff_node_agent.runtime.engine import Engine, EngineAway, EngineRefuses, pids_of
from bailiff_node_agent.runtime.supervisor.ear import Wall
from bailiff_node_agent.runtime.supervisor.host import boottime_us, write_json
from bailiff_node_agent.runtime.supervisor.lease import LEASE_OVER, Lease
from bailiff_node_agent.runtime.supervisor.life import stand_alone, tell_end, tell_running
from bailiff_node_agent.runtime.supervisor.processes import read_process, send
from bailiff_node_agent.runtime.supervisor.watch import Watch

AGAIN_S = 1.0
START_PATIENCE_S = 10.0
LOST_AFTER_S = 300.0  # an engine that is away, with nothing left of the container: so long its exit code is waited for
REMOVE_PATIENCE_S = 60.0
CANNOT_START, NO_SUCH_COMMAND = 126, 127
Answer = TypeVar("Answer")


class _CannotStart(Exception):
    """In words."""


class _Ended(Exception):
    """It was ended before it began, by this signal."""


class Output:
    """The container's output in the task's log: each piece once, also when the engine broke off and begins again.

    The engine tells again all that was printed since a second; of that so many pieces are here already. Output and errors are
    timed one beside the other, so a piece may come behind a later one: the engine begins a second before the newest.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.since = 0
        self._taken: dict[int, int] = {}
        """How many pieces of each second, from `since` on."""

    def take(self, pieces: Iterable[bytes]) -> None:
        """Write what is new among them."""
        known = sum(self._taken.values())
        for piece in pieces:
            if known:
                known -= 1
                continue
            told, _, data = piece.partition(b" ")
            self._count(_second(told))
            self._write(data)

    def _count(self, second: int) -> None:
        if second > self.since + 1:
            self.since = second - 1
            self._taken = {each: taken for each, taken in self._taken.items() if each >= self.since}
        if second >= self.since:
            self._taken[second] = self._taken.get(second, 0) + 1

    def _write(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._file, data) :]
            except OSError:  # a full disk: the engine waits, and in the end the container
                time.sleep(AGAIN_S)


class Container:
    """One task's container, from the pull of its image to its removal."""

    def __init__(self, control: str, orders: dict[str, Any], wake: Callable[[], None]) -> None:
        self._control, self._wake = control, wake
        self._url, self._name, self._config = orders["engine"], orders["name"], orders["config"]
        self._log = orders["log"]
        self.id: str | None = None
        self.pid: int | None = None
        self.code = -int(signal.SIGKILL)
        self.error: str | None = None
        self.begun, self.lasts, self.over = threading.Event(), threading.Event(), threading.Event()
        self._asked: int | None = None
        self._ending: threading.Thread | None = None

    def run(self) -> None:
        """All of its life; `over` is set, whatever happens."""
        engine = Engine(self._url)
        try:
            self._start(engine)
            self._follow(engine)
        except _Ended:
            self.code = -(self._asked or signal.SIGKILL)
        except _CannotStart as problem:
            self.error = str(problem)[:900]
            self.code = NO_SUCH_COMMAND if "executable file not found" in self.error else CANNOT_START
        except Exception as problem:  # noqa: BLE001 - whatever it is, the container must not be left alone
            self.error = f"its supervisor failed: {type(problem).__name__}: {problem}"[:900]
        with contextlib.suppress(EngineRefuses, EngineAway):
            # One that was made though nobody heard so never began; the agent takes it away with the task.
            self._insist(lambda: engine.remove(self._name), for_s=REMOVE_PATIENCE_S if self.id else 0)
        self.end_left()
        self.over.set()
        self._wake()

    def ask_to_end(self) -> None:
        """TERM, once."""
        if self._asked is None:
            self._asked = int(signal.SIGTERM)
            threading.Thread(target=self._say_term, daemon=True).start()

    def end(self) -> bool:
        """KILL; whether there was anything left to end."""
        self._asked = int(signal.SIGKILL)
        if self.over.is_set():
            return False
        if self._ending is None or not self._ending.is_alive():
            self._ending = threading.Thread(target=self._say_kill, daemon=True)
            self._ending.start()
        return True

    # --- its life, in a thread

    def _start(self, engine: Engine) -> None:
        image = self._config["Image"]
        try:
            if not self._insist(lambda: engine.has_image(image)):
                self._pull(engine, image)
            self.id = self._insist(lambda: engine.create(self._name, self._config))
            write_json(f"{self._control}/container.json", {"id": self.id})
            if self._was_asked():
                raise _Ended
            self._insist(lambda: self._started(engine))
        except EngineRefuses as refusal:
            raise _CannotStart(f"the container of image {image} could not be started: {refusal}") from None
        about = self._insist(lambda: engine.inspect(self._name)) or {}
        self.pid = about.get("State", {}).get("Pid") or None
        self.begun.set()
        self._wake()
        if self._was_asked():
            self._say_term()  # it was said when there was nobody yet

    def _pull(self, engine: Engine, image: str) -> None:
        self.lasts.set()
        try:
            self._insist(lambda: self._pulled(engine, image))
        except EngineRefuses as refusal:
            raise _CannotStart(f"image {image} is not on this node and cannot be pulled: {refusal}") from None

    def _pulled(self, engine: Engine, image: str) -> None:
        for _ in engine.pull(image):
            if self._was_asked():
                raise _Ended

    def _started(self, engine: Engine) -> None:
        """One that has run is not started again, though nobody heard that it was."""
        about = engine.inspect(self._name)
        if about is None or about["State"]["StartedAt"].startswith("0001"):
            engine.start(self._name)

    def _was_asked(self) -> bool:
        return self._asked is not None

    def _follow(self, engine: Engine) -> None:
        """Until it has ended, however often the engine goes away meanwhile."""
        output, away_since = Output(self._log), None
        while True:
            try:
                about = engine.inspect(self._name)
                if about is None:
                    self.error = None if self._was_asked() else "somebody has removed its container"
                    return
                state = about["State"]
                if not state["Running"]:
                    with contextlib.suppress(EngineRefuses):
                        output.take(engine.output(self._name, output.since))
                    self.code = state["ExitCode"]
                    self.error = "it used more memory than it was given" if state.get("OOMKilled") else state.get("Error") or None
                    return
                output.take(engine.output(self._name, output.since))
                away_since = None
            except (EngineAway, EngineRefuses):  # an engine that goes refuses what it has begun
                engine.close()
                away_since = away_since or time.monotonic()
                if not self.left() and time.monotonic() - away_since > LOST_AFTER_S:
                    self.error = "it has ended, and the Docker engine was not there to tell how"
                    return
                time.sleep(AGAIN_S)

    def _insist(self, call: Callable[[], Answer], for_s: float | None = None) -> Answer:
        """The engine's answer, once it gives one."""
        began = time.monotonic()
        while True:
            try:
                return call()
            except EngineAway:
                self.lasts.set()
                if for_s is not None and time.monotonic() - began > for_s:
                    raise
                if for_s is None and self._was_asked() and not self.begun.is_set():
                    raise _Ended from None
                time.sleep(AGAIN_S)

    # --- its end, in threads of their own

    def _say_term(self) -> None:
        engine = Engine(self._url)
        while self.begun.is_set() and not self.over.is_set():
            try:
                engine.signal(self._name, signal.SIGTERM)
            except EngineAway:
                if not self._signal_main(signal.SIGTERM):
                    time.sleep(AGAIN_S)
                    continue
            return

    def _say_kill(self) -> None:
        with contextlib.suppress(EngineAway):
            Engine(self._url).signal(self._name, signal.SIGKILL)
        self.end_left()
        time.sleep(AGAIN_S)  # until it is said again

    def _signal_main(self, number: int) -> bool:
        main = read_process(self.pid) if self.pid else None
        if main is None or main.pid not in self.left():
            return False
        try:
            send(main, number)
        except PermissionError:
            return False
        return True

    def left(self) -> tuple[int, ...]:
        """Its living processes, as this machine numbers them."""
        return pids_of(self.id) if self.id else ()

    def end_left(self) -> None:
        """KILL to each of them, without the engine."""
        for process in map(read_process, self.left()):
            if process is not None:
                with contextlib.suppress(PermissionError):
                    send(process, signal.SIGKILL)


def guard(control: str, orders: dict[str, Any], lease: Lease, ready: int) -> None:
    """From its start to its end."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watch = Watch(Wall(control, orders["wall"], orders["user"]), lease, orders["alone"])
    container = Container(control, orders, lambda: os.kill(os.getpid(), signal.SIGCHLD))
    started = boottime_us()
    if lease.is_over():
        lease.killed_at_start, container.error = True, LEASE_OVER
    else:
        threading.Thread(target=container.run, daemon=True).start()
        _until_begun(container)
    tell_running(control, container.pid or os.getpid(), started)
    os.close(ready)
    while not container.over.is_set() and not lease.killed_at_start:
        watch.enforce(container)
        _obey(control, container)
        watch.wait()
    while container.left():
        container.end_left()
        watch.wait(0.05)
    tell_end(control, watch, container.code, 0, container.error)


def _until_begun(container: Container) -> None:
    """Or until it is clear that this takes a while: then the task counts as running, and can be told to leave."""
    until = time.monotonic() + START_PATIENCE_S
    while time.monotonic() < until:
        if container.begun.wait(0.02) or container.lasts.is_set() or container.over.is_set():
            return


def _obey(control: str, container: Container) -> None:
    """What the agent has written down that it wants."""
    with contextlib.suppress(OSError, ValueError):
        with open(f"{control}/terminating.json") as file:  # noqa: PTH123 - as a supervisor does
            asked = json.load(file)
        if asked.get("kill"):
            container.end()
        else:
            container.ask_to_end()


def _second(told: bytes) -> int:
    """`2026-11-22T05:00:00.123456789Z` in seconds since 1970; 0 for what is no time."""
    try:
        return calendar.timegm(time.strptime(told[:19].decode(), "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return 0


def main() -> None:
    control, lock, lease = sys.argv[1], int(sys.argv[2]), Lease(sys.argv[3], sys.argv[1])
    orders = json.load(sys.stdin)
    guard(control, orders, lease, stand_alone(lock))
