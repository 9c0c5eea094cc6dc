"""Tasks that are only times: thousands in one process, on the event loop's clock, which may be a virtual one.

A launch says in its environment how the task behaves: `BAILIFF_SIM_RUN_FOR` (seconds until it ends with 0; without
it, it runs until stopped), and `BAILIFF_SIM_ON_TERM` and `BAILIFF_SIM_ON_NOTICE`: `exit` (at once; by the signal
itself on TERM, with 85 on a notice), `ignore`, or `exit:CODE:AFTER_S`. Left out, TERM is obeyed and a notice ignored.
`BAILIFF_SIM_TALKS=PACE:SAVE_S` is a job that uses the job library: PACE steps a second, and SAVE_S seconds to save
one. It goes on from what was saved, acknowledges a notice, saves (a gang at the step agreed on, or after the soft
deadline without) and leaves with 85. It ignores TERM unless something else is said.

What says something else ends at once with 126: a job's environment must not end the agent.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from signal import SIGKILL, SIGTERM
from typing import Any

from bailiff_node_agent.runtime.contract import (
    DeviceHolds,
    Exit,
    Launch,
    Running,
    Said,
    Steps,
    TaskKey,
    TaskStillRuns,
    UnknownTask,
)

YIELDED = 85
UNREADABLE = 126
LONGEST_S = 1e9
ABOVE_ALL_PIDS = 1 << 22
"""Linux gives out none from here on, so a simulated pid is never taken for a real one."""


@dataclass(frozen=True)
class _Reaction:
    code: int
    after_s: float


@dataclass(frozen=True)
class _Talks:
    pace: float
    save_s: float


@dataclass
class _Task:
    running: Running
    on_term: _Reaction | None
    on_notice: _Reaction | None
    notice: Mapping[str, Any] | None = None
    timers: list[asyncio.TimerHandle] = field(default_factory=list)
    exit: Exit | None = None
    error: str | None = None
    talks: _Talks | None = None
    alone: bool = True
    first_step: int = 0
    lines: list[Said] = field(default_factory=list)
    confirmed: int | None = None
    saves: bool = False
    before_notice: int = 0

    def step(self) -> int:
        """The last step that it has done."""
        ran = _now_us() - self.running.started_boottime_us
        return self.first_step + int(self.talks.pace * ran / 1_000_000) if self.talks else 0


class SimulatedMachine:
    """What outlives the agent: keep the machine, and the next runtime on it adopts what runs there."""

    def __init__(self, *, devices: DeviceHolds | None = None) -> None:
        self._devices = devices
        self._tasks: dict[TaskKey, _Task] = {}
        self._last_pid = ABOVE_ALL_PIDS
        self._living: set[int] = set()
        self._tell: Callable[[Exit], None] | None = None
        self._hear: Callable[[TaskKey], None] | None = None
        self.saved: dict[tuple[str, str], tuple[int, int]] = {}
        """The newest checkpoint of each job's task, (attempt, step): on a disk that outlives everything."""
        self.boots = 1

    def attach_devices(self, devices: DeviceHolds) -> None:
        """For an inventory that in turn needs this machine's `identify`."""
        self._devices = devices

    def identify(self, pid: int) -> int | None:
        """Which process a pid is, for a simulated inventory; None when it is gone. No pid is used twice."""
        return pid if pid in self._living else None

    def crash(self) -> None:
        """The host goes down, the agent with it. The next agent finds that every task was lost."""
        self.boots += 1
        self._tell = self._hear = None
        for task in self._tasks.values():
            if task.exit is None:
                self._end(task, -SIGKILL, supervisor_lost=True)

    def notice_of(self, key: TaskKey) -> Mapping[str, Any] | None:
        """What the job finds in its notice file."""
        return self._known(key).notice

    def _listen(self, tell: Callable[[Exit], None] | None, hear: Callable[[TaskKey], None] | None) -> None:
        self._tell, self._hear = tell, hear

    def _states(self) -> list[Running | Exit]:
        return [self._state(key) for key in sorted(self._tasks)]

    def _state(self, key: TaskKey) -> Running | Exit:
        task = self._known(key)
        return task.exit or task.running

    def _start(self, launch: Launch) -> Running | Exit:
        if launch.key in self._tasks:
            return self._state(launch.key)
        self._last_pid += 1
        task = _Task(Running(launch.key, self._last_pid, _now_us(), launch.device_ids, launch.order), None, None)
        try:
            task.talks = _talks(launch.env.get("BAILIFF_SIM_TALKS"))
            by_default = "exit" if task.talks is None else "ignore"
            task.on_term = _reaction(launch.env.get("BAILIFF_SIM_ON_TERM", by_default), at_once=-SIGTERM)
            task.on_notice = _reaction(launch.env.get("BAILIFF_SIM_ON_NOTICE", "ignore"), at_once=YIELDED)
            run_for = launch.env.get("BAILIFF_SIM_RUN_FOR")
            ends_by_itself = None if run_for is None else _Reaction(0, _seconds(run_for))
        except ValueError:
            task.error = "BAILIFF_SIM_…: run for SECONDS; exit, ignore or exit:CODE:AFTER_S; talks PACE:SAVE_S"
            ends_by_itself = _Reaction(UNREADABLE, 0.0)
        self._tasks[launch.key] = task
        self._living.add(task.running.pid)
        if self._devices:
            for device_id in launch.device_ids:
                self._devices.hold(device_id, task.running.pid)
        self._react(task, ends_by_itself)
        if task.talks is not None:
            task.alone = launch.alone
            self._greet(task)
        return task.running

    def _greet(self, task: _Task) -> None:
        key = task.running.key
        self._say(task, "hello", v=1, rank=0, pid=task.running.pid)
        attempt, task.first_step = self.saved.get((key.job, key.task), (None, 0))
        if attempt is not None:
            self._say(task, "resumed", step=task.first_step, from_attempt=attempt, passed_over=0)

    def _say(self, task: _Task, say: str, **content: Any) -> None:
        task.lines.append(Said(len(task.lines) + 1, _now_us(), {"say": say, **content}))
        if self._hear is not None:
            self._hear(task.running.key)

    def _propose(self, key: TaskKey, step: int, *, agreed: bool) -> None:
        task = self._known(key)
        if task.talks is None or task.exit is not None or task.saves:
            return
        if agreed:
            self._at(task, max(0, step - task.step()) / task.talks.pace, self._save, step, True)
            return
        task.confirmed = step if task.step() <= step else task.step() + 2
        if self._hear is not None:
            self._hear(key)

    def _save(self, task: _Task, step: int, agreed: bool) -> None:
        if task.saves or task.exit is not None:
            return
        task.saves = True
        assert task.talks is not None
        self._say(task, "checkpoint_started", step=step)
        self._at(task, task.talks.save_s, self._saved, step, agreed)

    def _saved(self, task: _Task, step: int, agreed: bool) -> None:
        assert task.talks is not None
        key, took = task.running.key, int(task.talks.save_s * 1_000_000)
        if agreed or task.alone:
            self.saved[key.job, key.task] = key.attempt, step
        self._say(task, "checkpoint_committed", step=step, bytes=1 << 20, microseconds=took, sha256="0" * 64, agreed=agreed)
        self._say(task, "yielding")
        self._end(task, YIELDED)

    def _at(self, task: _Task, after_s: float, call: Callable[..., None], *arguments: Any) -> None:
        task.timers.append(asyncio.get_running_loop().call_later(after_s, call, task, *arguments))

    def _notice(self, key: TaskKey, payload: Mapping[str, Any]) -> None:
        task = self._known(key)
        again = task.notice is not None
        if not again:
            task.before_notice = len(task.timers)
        task.notice = dict(payload)
        self._react(task, task.on_notice)
        if task.talks is None or again or task.exit is not None:
            return
        self._say(task, "acknowledged", step=task.step())
        soft_s = 0.0 if task.alone else float(payload.get("soft_s", 0))
        self._at(task, soft_s + 1 / task.talks.pace, lambda task: self._save(task, task.step(), task.alone))

    def _spare(self, key: TaskKey) -> None:
        """What it was about to do because of the notice, it does not."""
        task = self._known(key)
        if task.notice is None or task.exit is not None:
            return
        task.notice, task.confirmed, task.saves = None, None, False
        for timer in task.timers[task.before_notice :]:
            timer.cancel()
        del task.timers[task.before_notice :]

    def _terminate(self, key: TaskKey) -> None:
        task = self._known(key)
        self._react(task, task.on_term)

    def _kill(self, key: TaskKey) -> None:
        task = self._known(key)
        if task.exit is None:
            self._end(task, -SIGKILL)

    def _forget(self, key: TaskKey) -> None:
        if self._known(key).exit is None:
            raise TaskStillRuns(f"{key} has not ended")
        del self._tasks[key]

    def _pids(self, key: TaskKey) -> tuple[int, ...]:
        task = self._tasks.get(key)
        return () if task is None or task.exit else (task.running.pid,)

    def _known(self, key: TaskKey) -> _Task:
        try:
            return self._tasks[key]
        except KeyError:
            raise UnknownTask(f"there is no task {key} here") from None

    def _react(self, task: _Task, reaction: _Reaction | None) -> None:
        if reaction is not None and task.exit is None:
            loop = asyncio.get_running_loop()
            task.timers.append(loop.call_later(reaction.after_s, self._end, task, reaction.code))

    def _end(self, task: _Task, code: int, supervisor_lost: bool = False) -> None:
        for timer in task.timers:
            timer.cancel()
        running = task.running
        error = None if supervisor_lost else task.error
        task.exit = Exit(
            running.key, code, _now_us(), running.device_ids, error=error, supervisor_lost=supervisor_lost, order=running.order
        )
        self._living.discard(running.pid)
        if self._devices:
            for device_id in running.device_ids:
                self._devices.let_go(device_id, running.pid)
        if self._tell:
            self._tell(task.exit)


class SimulatedRuntime:
    """A new one on the same machine takes the place of the one before, as a restarted agent does."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self._machine = machine
        self._ended: asyncio.Queue[Exit] = asyncio.Queue()
        self._words: asyncio.Queue[TaskKey] = asyncio.Queue()
        machine._listen(self._ended.put_nowait, self._words.put_nowait)

    async def adopt(self) -> list[Running | Exit]:
        return self._machine._states()

    async def start(self, launch: Launch) -> Running | Exit:
        return self._machine._start(launch)

    async def notice(self, key: TaskKey, payload: Mapping[str, Any], soft_us: int = 0, hard_us: int = 0) -> None:  # noqa: ARG002
        self._machine._notice(key, payload)

    async def deadlines(self, key: TaskKey, term_us: int, kill_us: int) -> None:
        """Nothing to do: outside of a test, simulated tasks end with the agent's process."""

    async def spare(self, key: TaskKey) -> None:
        self._machine._spare(key)

    def propose(self, key: TaskKey, step: int, *, agreed: bool) -> None:
        self._machine._propose(key, step, agreed=agreed)

    def steps(self, key: TaskKey) -> Steps:
        task = self._machine._tasks.get(key)
        if task is None or task.talks is None:
            return Steps()
        return Steps(task.step(), task.confirmed, int(task.talks.pace * 1000))

    def said(self, key: TaskKey, after: int = 0) -> list[Said]:
        task = self._machine._tasks.get(key)
        return task.lines[after:] if task is not None else []

    async def wait_word(self) -> TaskKey:
        return await self._words.get()

    async def terminate(self, key: TaskKey, grace_s: float = 30.0) -> None:  # noqa: ARG002 - there are no leftovers
        self._machine._terminate(key)

    async def kill(self, key: TaskKey) -> None:
        self._machine._kill(key)

    def renew(self, until_boottime_us: int, grace_us: int) -> None:
        """Nothing to do: outside of a test, simulated tasks end with the agent's process."""

    async def wait_exit(self) -> Exit:
        return await self._ended.get()

    def pids(self, key: TaskKey) -> tuple[int, ...]:
        return self._machine._pids(key)

    def memory(self, key: TaskKey) -> int:  # noqa: ARG002 - it is only a time
        return 0

    async def forget(self, key: TaskKey) -> None:
        self._machine._forget(key)

    async def close(self) -> None:
        self._machine._listen(None, None)


def _reaction(says: str, at_once: int) -> _Reaction | None:
    match says.split(":"):
        case ["ignore"]:
            return None
        case ["exit"]:
            return _Reaction(at_once, 0.0)
        case ["exit", code, after_s]:
            return _Reaction(_code(code), _seconds(after_s))
        case _:
            raise ValueError(f"a simulated task can exit, ignore or exit:CODE:AFTER_S, not {says!r}")


def _talks(says: str | None) -> _Talks | None:
    if says is None:
        return None
    pace, _, save_s = says.partition(":")
    if not 0.001 <= float(pace) <= 1e6:
        raise ValueError(f"{says!r} is no pace")
    return _Talks(float(pace), _seconds(save_s))


def _code(says: str) -> int:
    if not -64 <= (code := int(says)) <= 255:
        raise ValueError(f"{says!r} is no exit code")
    return code


def _seconds(says: str) -> float:
    seconds = float(says)
    if not 0 <= seconds <= LONGEST_S:
        raise ValueError(f"{says!r} is no time that a task could take")
    return seconds


def _now_us() -> int:
    return int(asyncio.get_running_loop().time() * 1_000_000)
