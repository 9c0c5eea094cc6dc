"""Simulated tasks: timers on the event loop's clock, which may be virtual; thousands fit into one process.

A launch describes the task's behaviour in its environment: `BAILIFF_SIM_RUN_FOR` (seconds until it exits with 0; without it, it
runs until it is stopped), and `BAILIFF_SIM_ON_TERM` and `BAILIFF_SIM_ON_NOTICE`: `exit` (at once; by the signal on TERM,
with 85 on a notice), `ignore`, or `exit:CODE:AFTER_S`. By default TERM is obeyed and a notice ignored.
`BAILIFF_SIM_CHECKPOINTS=PACE:SAVE_S` is a job that uses the job library: it does PACE steps a second, and a checkpoint takes
SAVE_S seconds. It resumes from its newest checkpoint, acknowledges a notice, saves (a gang at the agreed step, or after the soft
deadline without agreement) and exits with 85. It ignores TERM unless BAILIFF_SIM_ON_TERM is set.
`BAILIFF_SIM_SNAPSHOT=OUTCOME:SAVE_S`: what comes of it when its node saves it, in SAVE_S seconds (0.1): `works`; `fails`, and
it can go on; `killed`: what saves it dies, and it cannot; `lost`: it is saved, but cannot be restored. A task that uses the job
library has a socket to its node, so it cannot be saved.

A task with an invalid description exits at once with 126: a job's environment must not stop the agent.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from signal import SIGKILL, SIGTERM
from typing import Any, Literal, get_args

from bailiff_node_agent.runtime import (
    DeviceUsers,
    Dumped,
    Exit,
    Image,
    JobMessage,
    Launch,
    Restored,
    Running,
    Steps,
    TaskKey,
    TaskStillRunning,
    UnknownTask,
)

YIELDED = 85
INVALID = 126
MAX_SECONDS = 1e9
SYNTAX = (
    "BAILIFF_SIM_…: RUN_FOR=SECONDS; ON_TERM, ON_NOTICE=exit, ignore or exit:CODE:AFTER_S; CHECKPOINTS=PACE:SAVE_S; "
    "SNAPSHOT=works, fails, killed or lost, :SAVE_S"
)
SnapshotOutcome = Literal["works", "fails", "killed", "lost"]
FIRST_PID = 1 << 22
"""Linux assigns no pid from here on, so a simulated pid is never mistaken for a real one."""


@dataclass(frozen=True)
class _Reaction:
    code: int
    after_s: float


@dataclass(frozen=True)
class _Checkpoints:
    """How a task that uses the job library behaves: steps per second, seconds per checkpoint."""

    pace: float
    save_s: float


@dataclass(frozen=True)
class _Snapshots:
    """What comes of saving a task, and how long it takes."""

    outcome: SnapshotOutcome = "works"
    save_s: float = 0.1


@dataclass
class _Timer:
    """Something that the task will do. left_s: while it is stopped."""

    at: float
    call: Callable[..., None]
    arguments: tuple[Any, ...]
    handle: asyncio.TimerHandle | None = None
    left_s: float = 0.0

    def start(self, after_s: float) -> None:
        loop = asyncio.get_running_loop()
        self.at, self.handle = loop.time() + after_s, loop.call_later(after_s, self.call, *self.arguments)

    def stop(self) -> None:
        """Keep what is left of it."""
        if self.handle is not None:
            self.left_s = max(0.0, self.at - asyncio.get_running_loop().time())
            self.cancel()

    def cancel(self) -> None:
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None


@dataclass
class _Task:
    running: Running
    pid: int
    on_term: _Reaction | None = None
    on_notice: _Reaction | None = None
    notice: Mapping[str, Any] | None = None
    timers: list[_Timer] = field(default_factory=list)
    own_end: _Timer | None = None
    snapshots: _Snapshots = field(default_factory=_Snapshots)
    saving: tuple[str, asyncio.Future[Dumped]] | None = None
    is_frozen: bool = False
    restored: Restored | None = None
    anew: _Reaction | None = None
    exit: Exit | None = None
    error: str | None = None
    checkpoints: _Checkpoints | None = None
    is_only_task: bool = True
    first_step: int = 0
    messages: list[JobMessage] = field(default_factory=list)
    confirmed: int | None = None
    is_saving: bool = False
    timers_before_notice: int = 0

    def step(self) -> int:
        """The last step that is done."""
        ran = _now_us() - self.running.started_at
        return self.first_step + int(self.checkpoints.pace * ran / 1_000_000) if self.checkpoints else 0


class SimulatedMachine:
    """The part that outlives the agent: keep the machine, and the next runtime on it adopts its tasks."""

    def __init__(self, *, devices: DeviceUsers | None = None) -> None:
        self._devices = devices
        self._tasks: dict[TaskKey, _Task] = {}
        self._last_pid = FIRST_PID
        self._living: set[int] = set()
        self._on_exit: Callable[[Exit], None] | None = None
        self._on_message: Callable[[TaskKey], None] | None = None
        self.saved: dict[tuple[str, str], tuple[int, int]] = {}
        """The newest checkpoint of each job's task, (attempt, step), on a disk that survives every crash."""
        self.boots = 1

    def attach_devices(self, devices: DeviceUsers) -> None:
        """For an inventory that in turn needs this machine's `identify`."""
        self._devices = devices

    def identify(self, pid: int) -> int | None:
        """The identity of a living process, for a simulated inventory; None once it is gone. No pid is used twice."""
        return pid if pid in self._living else None

    def crash(self) -> None:
        """The host goes down with its agent. The next agent finds every task lost."""
        self.boots += 1
        self._on_exit = self._on_message = None
        for task in self._tasks.values():
            if task.exit is None:
                self._end(task, -SIGKILL, supervisor_lost=True)

    def notice_of(self, key: TaskKey) -> Mapping[str, Any] | None:
        """The notice that the job sees."""
        return self.task(key).notice

    # --- for the runtime

    def listen(self, on_exit: Callable[[Exit], None] | None, on_message: Callable[[TaskKey], None] | None) -> None:
        """Set the callbacks. There is one runtime at a time."""
        self._on_exit, self._on_message = on_exit, on_message

    def states(self) -> list[Running | Exit]:
        """Every task, by key."""
        return [self._state(key) for key in sorted(self._tasks)]

    def find(self, key: TaskKey) -> _Task | None:
        """The task, if there is one of this key."""
        return self._tasks.get(key)

    def task(self, key: TaskKey) -> _Task:
        """The task. Raises `UnknownTask`."""
        try:
            return self._tasks[key]
        except KeyError:
            raise UnknownTask(f"there is no task {key} here") from None

    def _state(self, key: TaskKey) -> Running | Exit:
        task = self.task(key)
        return task.exit or task.running

    def start(self, launch: Launch) -> Running | Exit:
        """Start the task, unless its key was started before."""
        if launch.key in self._tasks:
            return self._state(launch.key)
        self._last_pid += 1
        pid = self._last_pid
        task = _Task(Running(launch.key, str(pid), _now_us(), launch.device_ids, launch.ordered_by), pid)
        try:
            task.checkpoints = _parse_checkpoints(launch.env.get("BAILIFF_SIM_CHECKPOINTS"))
            by_default = "exit" if task.checkpoints is None else "ignore"
            task.on_term = _parse_reaction(launch.env.get("BAILIFF_SIM_ON_TERM", by_default), at_once=-SIGTERM)
            task.on_notice = _parse_reaction(launch.env.get("BAILIFF_SIM_ON_NOTICE", "ignore"), at_once=YIELDED)
            run_for = launch.env.get("BAILIFF_SIM_RUN_FOR")
            exit_by_itself = None if run_for is None else _Reaction(0, _seconds(run_for))
            task.snapshots = _parse_snapshots(launch.env.get("BAILIFF_SIM_SNAPSHOT"))
            if launch.restore is not None:
                exit_by_itself = self._restore(task, launch.restore, exit_by_itself)
        except ValueError:
            task.error = SYNTAX
            exit_by_itself = _Reaction(INVALID, 0.0)
        self._tasks[launch.key] = task
        self._living.add(pid)
        if self._devices:
            for device_id in launch.device_ids:
                self._devices.attach(device_id, pid)
        task.own_end = self._react(task, exit_by_itself)
        if task.checkpoints is not None:
            task.is_only_task = launch.is_only_task
            self._attach_job(task)
        return task.running

    def _restore(self, task: _Task, image: Image, anew: _Reaction | None) -> _Reaction | None:
        """When the restored task exits by itself: after what was left of its time when it was stopped."""
        if task.snapshots.outcome == "lost":
            task.restored = Restored(1000, "the simulated snapshot cannot be restored", image.about)
            return anew
        task.restored, task.anew = Restored(1000, about=image.about, waits=bool(image.about.get("waits"))), anew
        task.is_frozen = task.restored.waits
        left_s = image.facts["left_s"]
        return None if left_s is None else _Reaction(0, left_s)

    async def save(self, key: TaskKey, request: str, *, goes_on: bool) -> Dumped:
        """Stop the task, and save it in some time; without the agent, too. goes_on: it goes on then, if it ran."""
        task = self.task(key)
        if task.exit is not None:
            return Dumped(why_not="it has ended")
        if task.checkpoints is not None:
            return Dumped(why_not="it has a socket to another process")
        if task.saving is None or task.saving[0] != request:
            loop = asyncio.get_running_loop()
            task.saving = request, loop.create_future()
            goes_on = goes_on and not task.is_frozen
            self.freeze(key)
            loop.call_later(task.snapshots.save_s, self._dumped, task, task.saving[1], goes_on)
        return await asyncio.shield(task.saving[1])

    def _dumped(self, task: _Task, answer: asyncio.Future[Dumped], goes_on: bool) -> None:
        if answer.done():
            return
        if goes_on:
            self.thaw(task.running.key)
        took, left_s = int(task.snapshots.save_s * 1_000_000), None if task.own_end is None else task.own_end.left_s
        match task.snapshots.outcome:
            case "fails":
                answer.set_result(Dumped(took, "the simulated task cannot be saved"))
            case "killed":
                answer.set_result(Dumped(took, "the program that saved it was killed", is_whole=False))
            case _:
                answer.set_result(Dumped(took, facts={"left_s": left_s}))

    def freeze(self, key: TaskKey) -> None:
        """Stop the task."""
        task = self.task(key)
        task.is_frozen = True
        for timer in task.timers:
            timer.stop()

    def go_on(self, key: TaskKey, *, anew: bool) -> None:
        """Let a restored task go on, or begin from its start."""
        task = self.task(key)
        if task.restored is None or not task.restored.waits or task.exit is not None:
            return
        task.restored = replace(task.restored, waits=False, anew=anew)
        if anew:
            if task.own_end is not None:
                task.timers.remove(task.own_end)
            task.own_end = self._react(task, task.anew)
        self.thaw(key)

    def thaw(self, key: TaskKey) -> None:
        """Let a stopped task go on."""
        task = self.task(key)
        if task.is_frozen and task.exit is None:
            task.is_frozen = False
            for timer in task.timers:
                if timer.handle is None:
                    timer.start(timer.left_s)

    def restored(self, key: TaskKey) -> Restored | None:
        """How the restoring of the task ended; None: it was started anew, or has ended."""
        task = self._tasks.get(key)
        return task.restored if task is not None and task.exit is None else None

    def _attach_job(self, task: _Task) -> None:
        key = task.running.key
        self._send(task, "hello", v=1, rank=0, pid=task.pid)
        attempt, task.first_step = self.saved.get((key.job, key.task), (None, 0))
        if attempt is not None:
            self._send(task, "resumed", step=task.first_step, from_attempt=attempt, skipped_checkpoints=0)

    def _send(self, task: _Task, kind: str, **content: Any) -> None:
        task.messages.append(JobMessage(len(task.messages) + 1, _now_us(), {"type": kind, **content}))
        if self._on_message is not None:
            self._on_message(task.running.key)

    def propose_step(self, key: TaskKey, step: int, *, agreed: bool) -> None:
        """The gang's checkpoint step."""
        task = self.task(key)
        if task.checkpoints is None or task.exit is not None or task.is_saving:
            return
        if agreed:
            self._after(task, max(0, step - task.step()) / task.checkpoints.pace, self._save, step, True)
            return
        task.confirmed = step if task.step() <= step else task.step() + 2
        if self._on_message is not None:
            self._on_message(key)

    def _save(self, task: _Task, step: int, agreed: bool) -> None:
        if task.is_saving or task.exit is not None:
            return
        task.is_saving = True
        assert task.checkpoints is not None
        self._send(task, "checkpoint_started", step=step)
        self._after(task, task.checkpoints.save_s, self._saved, step, agreed)

    def _saved(self, task: _Task, step: int, agreed: bool) -> None:
        assert task.checkpoints is not None
        key, took = task.running.key, int(task.checkpoints.save_s * 1_000_000)
        if agreed or task.is_only_task:
            self.saved[key.job, key.task] = key.attempt, step
        self._send(task, "checkpoint_committed", step=step, bytes=1 << 20, microseconds=took, sha256="0" * 64, agreed=agreed)
        self._send(task, "yielding")
        self._end(task, YIELDED)

    def _after(self, task: _Task, after_s: float, call: Callable[..., None], *arguments: Any) -> None:
        self._timer(task, after_s, call, *arguments)

    def _timer(self, task: _Task, after_s: float, call: Callable[..., None], *arguments: Any) -> _Timer:
        timer = _Timer(0.0, call, (task, *arguments), left_s=after_s)
        if not task.is_frozen:
            timer.start(after_s)
        task.timers.append(timer)
        return timer

    def notice(self, key: TaskKey, payload: Mapping[str, Any]) -> None:
        """Deliver an eviction notice."""
        task = self.task(key)
        repeated = task.notice is not None
        if not repeated:
            task.timers_before_notice = len(task.timers)
        task.notice = dict(payload)
        self._react(task, task.on_notice)
        if task.checkpoints is None or repeated or task.exit is not None:
            return
        self._send(task, "acknowledged", step=task.step())
        soft_s = 0.0 if task.is_only_task else float(payload.get("soft_s", 0))
        self._after(task, soft_s + 1 / task.checkpoints.pace, lambda task: self._save(task, task.step(), task.is_only_task))

    def cancel_eviction(self, key: TaskKey) -> None:
        """Cancel the timers that the notice started."""
        task = self.task(key)
        if task.notice is None or task.exit is not None:
            return
        task.notice, task.confirmed, task.is_saving = None, None, False
        for timer in task.timers[task.timers_before_notice :]:
            timer.cancel()
        del task.timers[task.timers_before_notice :]

    def terminate(self, key: TaskKey) -> None:
        """TERM."""
        task = self.task(key)
        self._react(task, task.on_term)

    def kill(self, key: TaskKey) -> None:
        task = self.task(key)
        if task.exit is None:
            self._end(task, -SIGKILL)

    def forget(self, key: TaskKey) -> None:
        """Remove a task that has exited."""
        if self.task(key).exit is None:
            raise TaskStillRunning(f"{key} has not exited")
        del self._tasks[key]

    def _react(self, task: _Task, reaction: _Reaction | None) -> _Timer | None:
        if reaction is None or task.exit is not None:
            return None
        return self._timer(task, reaction.after_s, self._end, reaction.code)

    def _end(self, task: _Task, code: int, supervisor_lost: bool = False) -> None:
        for timer in task.timers:
            timer.cancel()
        if task.saving is not None and not task.saving[1].done():
            task.saving[1].set_result(Dumped(why_not="it has ended"))
        running = task.running
        error = None if supervisor_lost else task.error
        task.exit = Exit(
            running.key,
            code,
            _now_us(),
            running.device_ids,
            error=error,
            supervisor_lost=supervisor_lost,
            ordered_by=running.ordered_by,
        )
        self._living.discard(task.pid)
        if self._devices:
            for device_id in running.device_ids:
                self._devices.detach(device_id, task.pid)
        if self._on_exit:
            self._on_exit(task.exit)

    def steps(self, key: TaskKey) -> Steps:
        """The progress that the job publishes."""
        task = self._tasks.get(key)
        if task is None or task.checkpoints is None:
            return Steps()
        return Steps(task.step(), task.confirmed, int(task.checkpoints.pace * 1000))


def _parse_reaction(text: str, at_once: int) -> _Reaction | None:
    match text.split(":"):
        case ["ignore"]:
            return None
        case ["exit"]:
            return _Reaction(at_once, 0.0)
        case ["exit", code, after_s]:
            return _Reaction(_code(code), _seconds(after_s))
        case _:
            raise ValueError(f"{text!r}: a simulated task can exit, ignore or exit:CODE:AFTER_S")


def _parse_checkpoints(text: str | None) -> _Checkpoints | None:
    if text is None:
        return None
    pace, _, save_s = text.partition(":")
    if not 0.001 <= float(pace) <= 1e6:
        raise ValueError(f"{text!r}: the pace must be from 0.001 to 1000000 steps per second")
    return _Checkpoints(float(pace), _seconds(save_s))


def _parse_snapshots(text: str | None) -> _Snapshots:
    if text is None:
        return _Snapshots()
    outcome, _, save_s = text.partition(":")
    found: SnapshotOutcome | None = next((each for each in get_args(SnapshotOutcome) if each == outcome), None)
    if found is None:
        raise ValueError(f"{text!r}: a simulated snapshot works, fails, is killed or lost")
    return _Snapshots(found, _seconds(save_s) if save_s else _Snapshots.save_s)


def _code(text: str) -> int:
    if not -64 <= (code := int(text)) <= 255:
        raise ValueError(f"{text!r} is not an exit code")
    return code


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= MAX_SECONDS:
        raise ValueError(f"{text!r} is not a duration in seconds")
    return seconds


def _now_us() -> int:
    return int(asyncio.get_running_loop().time() * 1_000_000)
