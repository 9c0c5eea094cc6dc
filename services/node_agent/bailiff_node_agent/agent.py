"""One node's agent, apart from Kafka: commands in, reports out, deadlines kept whatever else happens.

Commands are obeyed only where the fences on disk allow it (log protocol §6). Reports go into a numbered spool that the
link sends in order. What is on disk when the agent dies is enough for the next one to go on.
"""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from bailiff_bus.ambient import Ambient
from bailiff_bus.logs import logger
from bailiff_bus.messages import (
    MESSAGE_TYPES,
    ClearDevice,
    Evict,
    EvictionStageReached,
    Fence,
    NodeAnnounced,
    NodeHeartbeat,
    ReportBody,
    SaveTogether,
    SendInventory,
    Spare,
    StartTask,
    TaskAt,
    TaskEnded,
    TaskHasProgressed,
    TaskHasResumed,
    TaskHeld,
    TaskIsIdle,
    TaskIsReleased,
    TaskIsRunning,
    TaskNotSpared,
    TaskNotStarted,
    TaskOverShare,
    TaskWasSpared,
)
from bailiff_bus.messages.commands import CommandBody, JobCommand
from bailiff_bus.messages.reports import FenceSeen
from bailiff_bus.messages.requests import DOCKER_LABEL
from bailiff_bus.metrics import Metrics
from bailiff_core.engine import RELEASE
from bailiff_core.lifecycle.grace import PART
from bailiff_core.records.facts import EvictionStage, HostReading, Stage

from .custody import Custody, Left, TaskOfJob, reading_fact
from .devices import DeviceInventory, DeviceReading, looked, prove_release, read_devices
from .devices.ledger import ShareLedger, part_of
from .disk import Evictions, Fences, Incarnation, Reports, RunningEviction, Storage
from .disk.fences import Verdict
from .environment import SecretMissing, environment, folders_of
from .hearing import Heard, stage_of, stuck_in
from .idle import Idleness
from .runtime import Exit, Launch, ProcessRuntime, Runtime, TaskKey, UnknownTask, User
from .scratch import Scratch
from .settings import NodeDeclaration
from .sharers import Sharer, Sharers
from .users import NotRunnable, Users, closed_to, give

LEASE_UNTIL_TOLD, MARGIN_UNTIL_TOLD = 600_000_000, 60_000_000
FENCE_LATE = 1_000_000
TERMINATED: Literal["terminated"] = "terminated"  # on disk only: TERM has really been sent
NOTED: tuple[EvictionStage, ...] = ("noticed", "term_sent", "kill_sent")  # on disk with their eviction, in this order
LEAVES = ("yielding", "term_sent", "kill_sent")
ISOLATED = "this node was cut off from Kafka for longer than its lease"
SUPERSEDED = "another agent has joined under this node's name"


@dataclass(slots=True)
class Held:
    """One task on this node, from its start until its release has been reported and received."""

    key: TaskKey
    runtime: str
    devices: tuple[str, ...]
    state: str = "running"
    exit_code: int | None = None
    unseen: bool = False
    reason: str = ""
    stages: dict[str, Stage | None] = field(default_factory=dict)
    heard: Heard = field(default_factory=Heard)
    before: tuple[DeviceReading, ...] | None = None
    pids: tuple[int, ...] = ()
    last_report: int | None = None
    order: int | None = None
    acting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while something is done to the task because of an eviction, or that is taken back."""

    def has_ended(self, end: Exit) -> None:
        """Its main process is no more."""
        self.state, self.exit_code, self.unseen, self.reason = "exited", end.code, end.supervisor_lost, _why(end)


@dataclass(frozen=True, slots=True)
class Machine:
    """What an agent is given of its machine: devices, runtimes by name, and its folder's parts.

    checkpoints: where jobs keep theirs; by default below its folder. checkpoints_identity: of one that nodes share.
    """

    node: NodeDeclaration
    inventory: DeviceInventory
    runtimes: dict[str, Runtime]
    storage: Storage
    fences: Fences
    reports: Reports
    evictions: Evictions
    incarnation: Incarnation
    folder: Path
    checkpoints: Path | None = None
    checkpoints_identity: str | None = None
    secrets: Path | None = None
    master_address: str | None = None
    users: Users = field(default_factory=Users)
    release_poll_s: float = 0.1
    release_timeout_s: float = 60.0
    device_look_s: float = 5.0

    def checkpoints_of(self, job: str) -> Path:
        """The same in every attempt."""
        return (self.checkpoints or self.folder / "checkpoints") / job


class Agent:
    """Obeys, watches, reports. `run` must be running for exits and deadlines to be seen."""

    def __init__(self, machine: Machine, ambient: Ambient, metrics: Metrics, has_reports: Callable[[], None]) -> None:
        self.machine, self._ambient, self._metrics = machine, ambient, metrics
        self._has_reports = has_reports
        told = [int(each) for each in (machine.storage.read("lease") or b"").split()]
        self.lease = told[0] if told else LEASE_UNTIL_TOLD
        self.lost_margin = told[1] if len(told) > 1 else MARGIN_UNTIL_TOLD
        self._leased_from = ambient.boot()
        self._cut_off = self._joined = self._knows_lease = False
        self._announced_at = 0
        self._held: dict[TaskKey, Held] = {}
        self._forgetting: dict[TaskKey, asyncio.Task[None]] = {}
        self._shares = ShareLedger(machine.storage)
        self._custody = Custody(
            machine.inventory, machine.storage, machine.incarnation.boot_id, self._report, self._devices_in_use
        )
        self._sharers = Sharers(machine.inventory)
        self._idleness = Idleness(machine.inventory)
        self._scratch = Scratch(machine.folder)
        self._jobs: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] | None = None
        self._log = logger(domain=machine.node.domain, node=machine.node.name)

    # --- from the start of the agent to its end

    async def adopt(self) -> None:
        """Take over what earlier agents started, go on with their evictions, and announce everything."""
        machine = self.machine
        if machine.reports.next_number:
            machine.reports.sent(machine.reports.next_number - 1)  # the announcement says it all
        ends: list[Exit] = []
        for name, runtime in machine.runtimes.items():
            for found in await runtime.adopt():
                ends += [found] if isinstance(found, Exit) else []
                held = Held(found.key, name, found.device_ids, order=found.order)
                self._held[found.key] = held
                if isinstance(found, Exit):
                    held.has_ended(found)
        for eviction in machine.evictions.running():
            held_by_key = {str(key): held for key, held in self._held.items()}
            if eviction.key in held_by_key:
                held_by_key[eviction.key].stages.update(_stages_until(eviction))
            else:
                machine.evictions.end(eviction.key)
        for held in self._held.values():
            self._listen(held, tell=False)
        for found in ends:
            self._ended_alone(self._held[found.key], found, tell=False)
        self._custody.adopted()
        self.announce()

    async def run(self) -> None:
        """Watch exits and deadlines until cancelled."""
        self._failed = asyncio.get_running_loop().create_future()
        for held in list(self._held.values()):
            eviction = self.machine.evictions.get(str(held.key))
            if held.state == "exited":
                self._spawn(self._release(held))
            elif eviction is not None:
                self._spawn(self._drive(held, eviction))
        for held in list(self._held.values()):
            self._tell_resumed(held)
            self._tell_news(held)
        runtimes = self.machine.runtimes.values()
        watchers = [asyncio.ensure_future(watch(runtime)) for runtime in runtimes for watch in (self._watch, self._hear)]
        watchers += [asyncio.ensure_future(self._custody.watch(self.machine.device_look_s))]
        watchers += [asyncio.ensure_future(self._watch_killed()), asyncio.ensure_future(self._watch_sharers())]
        watchers += [asyncio.ensure_future(self._watch_idle())]
        try:
            await asyncio.wait([*watchers, self._failed], return_when=asyncio.FIRST_COMPLETED)
            for done in (*watchers, self._failed):
                if done.done():
                    done.result()
        finally:
            for task in (*watchers, *self._jobs):
                task.cancel()
            await asyncio.gather(*watchers, *self._jobs, return_exceptions=True)
            for runtime in self.machine.runtimes.values():
                await runtime.close()

    def _spawn(self, work: Any) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._jobs.add(task)
        task.add_done_callback(self._job_done)
        return task

    def _job_done(self, task: "asyncio.Task[None]") -> None:
        self._jobs.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)

    # --- reports

    def announce(self) -> None:
        """Who this is and everything it holds."""
        machine, self._announced_at = self.machine, self._ambient.boot()
        devices = machine.inventory.list()
        cpu_milli, memory_bytes = machine.node.room(len(devices))
        self._report(
            NodeAnnounced,
            machine_id=machine.incarnation.machine_id,
            boot_id=machine.incarnation.boot_id,
            release=RELEASE,
            cpu_milli=cpu_milli,
            memory_bytes=memory_bytes,
            max_tasks=machine.node.max_tasks,
            labels=machine.node.labels | ({DOCKER_LABEL: "true"} if "docker" in machine.node.runtimes else {}),
            devices=self._custody.facts(),
            dirty=tuple(self._custody.dirty.values()),
            tasks=tuple(self._entry(held) for held in self._held.values()),
            checkpoints=machine.checkpoints_identity,
            fence=self.fence_seen(),
        )

    def heartbeat(self, newest_sent: int) -> NodeHeartbeat:
        """Alive, with the number of the newest report that was sent."""
        return NodeHeartbeat(
            node=self.machine.node.name,
            incarnation=self.machine.incarnation.incarnation,
            number=newest_sent,
            fence=self.fence_seen(),
        )

    def fence_seen(self) -> FenceSeen:
        """The highest position obeyed."""
        epoch, seq = self.machine.fences.highest or (0, 0)
        return FenceSeen(epoch=epoch, seq=seq, heard=max(0, self.machine.fences.admission_epoch))

    def received(self, number: int) -> None:
        """This report and all before it are in Kafka: what they told of for good can be forgotten."""
        self.machine.reports.sent(number)
        for held in list(self._held.values()):
            if held.state == "released" and held.last_report is not None and held.last_report <= number:
                del self._held[held.key]
                self._forgetting[held.key] = self._spawn(self._forget(held))

    async def _forget(self, held: Held) -> None:
        self.machine.evictions.end(str(held.key))
        self._shares.strike(str(held.key))
        try:
            await self.machine.runtimes[held.runtime].forget(held.key)
        finally:
            self._forgetting.pop(held.key, None)

    def _report(self, kind: type[ReportBody], **values: Any) -> int:
        number = self.machine.reports.next_number
        body = kind(node=self.machine.node.name, incarnation=self.machine.incarnation.incarnation, number=number, **values)
        self.machine.reports.append(kept_report(body))
        self._has_reports()
        return number

    def _tell(self, key: TaskKey, kind: type[ReportBody], order: int | None = None, **values: Any) -> int:
        held = self._held.get(key)
        if order is None and held is not None:
            order = held.order
        return self._report(kind, job=key.job, attempt=key.attempt, task=int(key.task), order=order, **values)

    def _entry(self, held: Held) -> TaskHeld:
        return TaskHeld.model_validate(
            {
                "job": held.key.job,
                "attempt": held.key.attempt,
                "task": int(held.key.task),
                "devices": held.devices,
                "state": held.state,
                "exit_code": held.exit_code,
                "unseen": held.unseen,
                "reason": held.reason,
                **{stage: stage in held.stages for stage in ("noticed", "term_sent", "kill_sent")},
                "stages": tuple(stage for stage in held.stages.values() if stage is not None),
                "step": self._published(held) if held.state != "running" else None,
                "order": held.order,
            }
        )

    def logs(self) -> list[tuple[TaskKey, Path]]:
        """The log file of every task that this agent holds and that is not simulated."""
        runtimes = self.machine.runtimes
        return [
            (held.key, runtime.log_path(held.key))
            for held in self._held.values()
            if isinstance(runtime := runtimes[held.runtime], ProcessRuntime)
        ]

    def jobs_by_device(self) -> dict[str, list[str]]:
        """Of the tasks that have not ended; a job that has several on one device stands there once for each."""
        found: dict[str, list[str]] = {}
        for held in self._held.values():
            for device in held.devices if held.state == "running" else ():
                found.setdefault(device, []).append(held.key.job)
        return found

    # --- the lease (log protocol §7)

    def renew(self, sent: int) -> None:
        """Kafka has what was sent at this boot time, so its append time is no earlier: the lease runs from then."""
        self._leased_from = sent
        for runtime in self.machine.runtimes.values():
            runtime.renew(sent + self.lease, self._grace_without_kafka())
        if not self._lease_is_over():
            self._cut_off = False

    def check_lease(self) -> None:
        """Cut off for longer than the lease, or stopped: what runs leaves, and what this incarnation was told is void.

        Commands that waited for it meanwhile were given by a log that has given it up since, or is about to.
        """
        if self._cut_off or not self._lease_is_over():
            return
        self._cut_off, self._joined, self._knows_lease = True, False, False
        self._log.error("not heard for longer than the lease: tasks are stopped, and the node joins anew", lease_us=self.lease)
        fresh = replace(self.machine.incarnation, incarnation=self._ambient.fresh().hex())
        self.machine = replace(self.machine, incarnation=fresh)
        self.machine.reports.sent(self.machine.reports.next_number - 1)  # the announcement says it all
        self.announce()
        self._leave(self._grace_without_kafka(), ISOLATED)

    def _lease_is_over(self) -> bool:
        return self._ambient.boot() - self._leased_from > self.lease

    def _grace_without_kafka(self) -> int:
        """Half of what admission waits beyond the lease; the rest is for KILL to be carried out and seen."""
        return self.lost_margin // 2

    def _leave(self, grace: int, reason: str) -> None:
        for held in self._held.values():
            if held.state == "running" and self.machine.evictions.get(str(held.key)) is None:
                self._begin_eviction(held, grace, grace - grace // PART, {"reason": reason, "for": ""})

    # --- commands

    async def obey(self, command: CommandBody) -> None:
        """Carry the command out if it is meant for this incarnation and no fence forbids it."""
        self.check_lease()
        machine = self.machine
        if command.incarnation != machine.incarnation.incarnation:
            if isinstance(command, Fence):
                self._fence_of_another(command)
            return
        if command.sender == "admission" and not machine.fences.admission_epoch_ok(command.sender_epoch):
            self._refused(command)
            return
        match command:
            case Fence():
                self._joined = self._knows_lease = True
                if (command.lease, command.lost_margin) != (self.lease, self.lost_margin):
                    self.lease, self.lost_margin = command.lease, command.lost_margin
                    machine.storage.replace("lease", f"{self.lease} {self.lost_margin}".encode())
                    self.renew(self._leased_from)
            case SendInventory():
                self.announce()
            case StartTask() if not self._knows_lease:
                self._ask_for_lease()
            case ClearDevice():
                self._custody.clear(command.device, command.asked)
            case StartTask():
                await self._start(command)
            case Evict():
                await self._evict(command)
            case Spare():
                await self._spare(command)
            case SaveTogether():
                self._save_together(command)

    def _ask_for_lease(self) -> None:
        """The fence that answers an announcement was lost on the way. What was not started is ordered again."""
        if self._ambient.boot() - self._announced_at > FENCE_LATE:
            self._log.warning("no start is obeyed before the node's lease is known: announcing again")
            self.announce()

    def _fence_of_another(self, fence: Fence) -> None:
        """After this incarnation has joined, a fence for another one means that the log listens to that one alone."""
        if self._joined and self.machine.fences.admission_epoch_ok(fence.sender_epoch):
            self._joined = False
            self._log.error("another agent speaks for this node; its tasks are stopped. Give one of them another name")
            self._leave(0, SUPERSEDED)

    def _refused(self, command: CommandBody) -> None:
        self._metrics.fences_refused.labels(self.machine.node.domain, type(command).__name__).inc()
        self._log.warning("a command of the past was refused", type=type(command).__name__)

    def _verdicts(self, command: JobCommand, tasks: dict[int, tuple[str, ...]]) -> dict[int, Verdict]:
        position = (command.order.epoch, command.order.seq)
        verdicts = self.machine.fences.obey(command.job, command.attempt, tasks, position)
        if "stale" in verdicts.values():
            devices = [device for each in tasks.values() for device in each]
            if self.machine.fences.all_before(command.sender_epoch, command.job, devices):
                return dict.fromkeys(tasks, "same")  # its log has forgotten what was obeyed since: it is to be answered
            self._refused(command)
        return verdicts

    async def _start(self, command: StartTask) -> None:
        """Each task under its own fence: no repeat of the order starts anything more. They start side by side."""
        whole = {at.task: at.devices if part_of(at, ()) is None else () for at in command.tasks}
        verdicts, launches = self._verdicts(command, whole), list[Launch | None]()
        for task in command.tasks:
            key = TaskKey(command.job, command.attempt, str(task.task))
            if verdicts[task.task] == "stale":
                continue
            if verdicts[task.task] == "same":
                self._answer_again(key, command.order.seq)
                continue
            refusal = self._lacks(command, task) or self._busy(key, task)
            if refusal is not None:
                self._tell(key, TaskNotStarted, order=command.order.seq, reason=refusal)
            else:
                launches.append(await self._ready(command, task, key))
        await asyncio.gather(*(self._launch(launch) for launch in launches if launch is not None))

    def _lacks(self, command: StartTask, task: TaskAt) -> str | None:
        there = {device.id for device in self.machine.inventory.list()}
        if gone := [device for device in task.devices if device not in there]:
            return f"this node has no device {', '.join(gone)[:500]} (any more)"
        if command.spec.runtime not in self.machine.runtimes:
            return f"this node has no runtime {command.spec.runtime!r}, it has {', '.join(self.machine.runtimes)}"
        return None

    def _busy(self, key: TaskKey, task: TaskAt) -> str | None:
        earlier = self._held.get(key)
        if earlier is not None and earlier.state != "released":
            return f"attempt {key.attempt} of it is still here, from an order that the log has forgotten"
        part = part_of(task, self.machine.inventory.list())
        for device in task.devices:
            others = [
                held for held in self._held.values() if device in held.devices and held.state != "released" and held.key != key
            ]
            if self._shares.too_much(part, (str(held.key) for held in others)):
                holder = others[0].key
                return f"{device} is still held by {holder.job}, attempt {holder.attempt}"
        return self._custody.refusal(task.devices, alone=part is None)

    def _devices_in_use(self) -> dict[str, set[TaskOfJob]]:
        found: dict[str, set[TaskOfJob]] = {}
        for held in self._held.values():
            for device in held.devices if held.state != "released" else ():
                found.setdefault(device, set()).add((held.key.job, held.key.attempt, int(held.key.task)))
        return found

    async def _ready(self, command: StartTask, task: TaskAt, key: TaskKey) -> Launch | None:
        """From here on its devices are taken. None where it cannot be started, which is then told."""
        machine = self.machine
        if key in self._forgetting:  # a member of that number was here before
            await asyncio.wait([self._forgetting[key]])
        elif key in self._held:  # and so it was here, but that its release has arrived was not heard of
            await self._forget(self._held.pop(key))
        devices = [device for device in machine.inventory.list() if device.id in task.devices]
        simulated = command.spec.runtime == "simulated"
        try:
            user = None if simulated else self._user(command)
            env = environment(
                command,
                task,
                checkpoints=machine.checkpoints_of(command.job),
                secrets=machine.secrets,
                master_address=machine.master_address,
                device_bytes=min((device.memory for device in devices), default=0),
                scratch=None if simulated else self._scratch.make(key, user),
            )
        except (SecretMissing, NotRunnable) as problem:
            self._tell(key, TaskNotStarted, order=command.order.seq, reason=str(problem))
            return None
        part = part_of(task, devices)
        if part is not None:
            self._shares.enter(str(key), part)
        spec = command.spec
        line = spec.command if isinstance(spec.command, str) else list(spec.command)
        order = command.order.seq
        launch = Launch(
            key,
            line,
            env,
            spec.working_dir,
            task.devices,
            machine.folder / "logs",
            cpu_milli=task.cpu_milli,
            memory_bytes=task.memory_bytes,
            user=user,
            image=spec.image or "",
            folders=folders_of(env) if spec.runtime == "docker" else (),
            grace_s=command.grace // 1_000_000,
            order=order,
        )
        self._held[key] = Held(key, spec.runtime, task.devices, order=order)
        return launch

    async def _launch(self, launch: Launch) -> None:
        held = self._held[launch.key]
        state = await self.machine.runtimes[held.runtime].start(launch)
        self._tell(held.key, TaskIsRunning)
        if isinstance(state, Exit):
            self._exited(held, state)

    def _user(self, command: StartTask) -> User | None:
        """As whom the job runs, with its checkpoint directory; `None`: as the agent. Raises `NotRunnable`."""
        machine = self.machine
        user = machine.users.of(command.user)
        if user is not None:
            own = machine.checkpoints_of(command.job)
            closed = closed_to(user, machine.folder) or closed_to(user, own.parent)
            if closed is not None:
                raise NotRunnable(f"{user.name} may not go through {closed}, where its jobs have their files: chmod o+x {closed}")
            give(own, user)
        return user

    def _answer_again(self, key: TaskKey, order: int) -> None:
        """The same start once more: say how things stand. A start that was lost on the way is never made up for."""
        held = self._held.get(key)
        if held is None or (held.order is not None and held.order < order):  # what is here is of that number, and came before
            self._tell(key, TaskNotStarted, order=order, reason="it was started here before, and is not here any more")
            return
        self._tell(key, TaskIsRunning)
        self._tell_end(held)

    def _tell_end(self, held: Held) -> None:
        if held.state in ("exited", "released") and held.exit_code is not None:
            self._tell_ended(held)
        if held.state == "released":
            held.last_report = self._tell(held.key, TaskIsReleased)

    def _tell_ended(self, held: Held, **known: Any) -> None:
        self._tell(held.key, TaskEnded, exit_code=held.exit_code, unseen=held.unseen, reason=held.reason, **known)

    async def _evict(self, command: Evict) -> None:
        verdicts = self._verdicts(command, dict.fromkeys(command.tasks, ()))
        for index in command.tasks:
            key = TaskKey(command.job, command.attempt, str(index))
            held = self._held.get(key)
            if verdicts[index] == "stale":
                continue
            if held is None:
                order = command.order.seq
                self._tell(key, TaskNotStarted, order=order, reason="it is to leave before it came")
                self._tell(key, TaskIsReleased, order=order)
            elif held.state != "running":
                self._tell_end(held)
            elif self.machine.evictions.get(str(key)) is None:
                about = {"reason": command.cause, "for": command.for_job or ""}
                self._begin_eviction(held, command.grace, command.term_after, about)
            else:
                for stage in held.stages.values():
                    if stage is not None:
                        self._tell(key, EvictionStageReached, **stage.model_dump())

    def _begin_eviction(self, held: Held, grace: int, term_after: int | None, about: dict[str, str]) -> None:
        self._listen(held)
        steps, attached = self.machine.runtimes[held.runtime].steps(held.key), held.heard.attached
        term_us = min(term_after or 0, grace) if attached else 0
        eviction = RunningEviction(
            key=str(held.key),
            notice_boottime_us=self._ambient.boot(),
            grace_us=term_us,
            kill_after_us=grace - term_us,
            stage="begun",
            boot_id=self.machine.incarnation.boot_id,
            detail={**about, "attached": attached, "step": steps.published, "pace": steps.pace},
        )
        self.machine.evictions.begin(eviction)
        self._spawn(self._drive(held, eviction))

    async def _spare(self, command: Spare) -> None:
        verdicts = self._verdicts(command, dict.fromkeys(command.tasks, ()))
        for index in command.tasks:
            key = TaskKey(command.job, command.attempt, str(index))
            held = self._held.get(key)
            if verdicts[index] == "stale":
                continue
            stays = held is not None and await self._take_back(held)
            self._tell(key, TaskWasSpared if stays else TaskNotSpared, order=command.order.seq)

    async def _take_back(self, held: Held) -> bool:
        """Notice and deadlines, where the task has not begun to leave. Whether it stays."""
        async with held.acting:
            self._listen(held)
            if held.state != "running" or any(stage in held.stages for stage in LEAVES):
                return False
            runtime = self.machine.runtimes[held.runtime]
            try:
                await runtime.spare(held.key)  # before the eviction is forgotten: who dies in between is asked again
            except UnknownTask:
                return False
            self.machine.evictions.end(str(held.key))
            held.stages.clear()
            return True

    def _save_together(self, command: SaveTogether) -> None:
        """The gang's common step, to be confirmed or agreed on. Past the soft deadline each rank has saved by itself."""
        verdicts = self._verdicts(command, dict.fromkeys(command.tasks, ()))
        for index in command.tasks:
            held = self._held.get(TaskKey(command.job, command.attempt, str(index)))
            eviction = self.machine.evictions.get(str(held.key)) if held is not None else None
            if verdicts[index] == "stale" or held is None or held.state != "running" or "noticed" not in held.stages:
                continue
            if eviction is None or self._ambient.boot() >= eviction.term_boottime_us:
                continue
            self.machine.runtimes[held.runtime].propose(held.key, command.step, agreed=command.agreed)
            if command.agreed:
                self._stage(held, eviction, "step_agreed", step=command.step)

    # --- evictions: notice, TERM, KILL

    async def _drive(self, held: Held, eviction: RunningEviction) -> None:
        runtime = self.machine.runtimes[held.runtime]
        term_at, kill_at = eviction.term_boottime_us, eviction.kill_boottime_us
        try:
            async with held.acting:
                if not self._stands(held, eviction):
                    return
                if "noticed" not in held.stages:
                    held.before = read_devices(self.machine.inventory, held.devices)
                    held.pids = runtime.pids(held.key)
                    await runtime.deadlines(held.key, term_at, kill_at)
                    await runtime.notice(held.key, _notice(eviction), term_at, kill_at)
                    self._stage(held, eviction, "noticed", **_noticed(eviction))
            await self._sleep_until(term_at)
            async with held.acting:
                if held.state != "running" or not self._stands(held, eviction):
                    return
                if TERMINATED not in held.stages:
                    # Said before it is done: the exit that follows must not be read before its cause.
                    late: dict[str, Any] = {"stuck_in": stuck_in(held.stages)} if eviction.grace_us else {}
                    self._stage(held, eviction, "term_sent", **late)
                    # Noted after it is done: an agent that dies in between says TERM twice rather than never.
                    await runtime.terminate(held.key, (kill_at - term_at) / 1_000_000)
                    held.stages[TERMINATED] = None
                    self._note(eviction, TERMINATED)
            await self._sleep_until(kill_at)
            if held.state == "running":
                self._stage(held, eviction, "kill_sent", stuck_in=stuck_in(held.stages))
                await runtime.kill(held.key)
        except UnknownTask:
            return  # it ended and was forgotten meanwhile

    def _stands(self, held: Held, eviction: RunningEviction) -> bool:
        """It was not taken back meanwhile, whether or not another one follows."""
        now = self.machine.evictions.get(str(held.key))
        return now is not None and now.notice_boottime_us == eviction.notice_boottime_us

    def _stage(self, held: Held, eviction: RunningEviction, stage: EvictionStage, *, tell: bool = True, **facts: Any) -> None:
        if stage in held.stages:
            return
        after = max(0, self._ambient.boot() - eviction.notice_boottime_us)
        held.stages[stage] = reached = Stage(stage=stage, after=after, **facts)
        if stage in NOTED:
            self._note(eviction, stage)
        if tell:
            self._tell(held.key, EvictionStageReached, **reached.model_dump())

    def _note(self, eviction: RunningEviction, stage: str) -> None:
        if self.machine.evictions.get(eviction.key) is not None:
            self.machine.evictions.reached(eviction.key, stage)

    async def _sleep_until(self, boot: int) -> None:
        """On the boot-time clock, which counts suspended time; the event loop's may not."""
        while (left := boot - self._ambient.boot()) > 0:  # noqa: ASYNC110 - a moment is awaited, no state
            await asyncio.sleep(left / 1_000_000)

    # --- exits and release

    async def _watch_killed(self) -> None:
        """A task that KILL does not end, as when it waits for a device that hangs, leaves its devices dirty."""
        machine, since = self.machine, dict[TaskKey, float]()
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(machine.device_look_s)
            stuck = {key: held for key, held in self._held.items() if held.state == "running" and "kill_sent" in held.stages}
            since = {key: since.get(key, loop.time()) for key in stuck}
            for key, held in stuck.items():
                if loop.time() - since[key] >= machine.release_timeout_s:
                    pids = machine.runtimes[held.runtime].pids(key)
                    self._custody.hung(
                        read_devices(machine.inventory, held.devices), Left(key.job, key.attempt, int(key.task), pids)
                    )

    async def _watch_sharers(self) -> None:
        """Tasks that share a device may use their part of its memory."""
        while True:
            await asyncio.sleep(self.machine.device_look_s)
            sharers = [
                Sharer(key, held.devices, part, self.machine.runtimes[held.runtime].pids(key))
                for key, held in self._held.items()
                if held.state == "running" and (part := self._shares.part(str(key))) is not None
            ]
            for over in await looked(self.machine.inventory, self._sharers.look, sharers):
                self._log.warning("a task uses more of a GPU than its share", job=over.key.job, device=over.device)
                self._tell(over.key, TaskOverShare, device=over.device, used_bytes=over.used, share_bytes=over.share)

    async def _watch_idle(self) -> None:
        """Tasks that hold GPUs are expected to use them."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.machine.device_look_s)
            tasks = [(key, held.devices) for key, held in self._held.items() if held.state == "running"]
            for each in await looked(self.machine.inventory, self._idleness.look, tasks, loop.time()):
                self._tell(each.key, TaskIsIdle, idle=each.idle, lasted=int(each.seconds * 1_000_000))

    async def _watch(self, runtime: Runtime) -> None:
        while True:
            end = await runtime.wait_exit()
            held = self._held.get(end.key)
            if held is not None:
                self._exited(held, end)

    def _exited(self, held: Held, end: Exit) -> None:
        self._listen(held)
        held.has_ended(end)
        self._ended_alone(held, end)
        self._tell_ended(held, step=self._published(held))
        self._spawn(self._release(held))

    def _ended_alone(self, held: Held, end: Exit, *, tell: bool = True) -> None:
        """Stages that its supervisor went through without the agent."""
        for name in NOTED:
            if name in (*end.lease_stages, *end.deadline_stages) and name not in held.stages:
                stuck = stuck_in(held.stages) if name != "noticed" else None
                held.stages[name] = stage = Stage(stage=name, stuck_in=stuck)
                if tell:
                    self._tell(held.key, EvictionStageReached, **stage.model_dump())

    # --- what tasks say

    async def _hear(self, runtime: Runtime) -> None:
        while True:
            held = self._held.get(await runtime.wait_word())
            if held is not None and held.state == "running":
                self._listen(held)

    def _listen(self, held: Held, *, tell: bool = True) -> None:
        """Take what the task has said since; `tell`: report it."""
        runtime, eviction = self.machine.runtimes[held.runtime], self.machine.evictions.get(str(held.key))
        for line in runtime.said(held.key, held.heard.newest):
            held.heard.take(line)
            stage = stage_of(line, eviction.notice_boottime_us) if eviction is not None else None
            if stage is not None and "noticed" in held.stages and stage.stage not in held.stages:
                held.stages[stage.stage] = stage
                held.heard.checkpoint_untold &= stage.checkpoint is None  # it is told with the stage
                if tell:
                    self._tell(held.key, EvictionStageReached, **stage.model_dump())
            if line.say == "resumed" and tell:
                self._tell_resumed(held)
        confirmed = runtime.steps(held.key).confirmed if eviction is not None and "noticed" in held.stages else None
        before = held.stages.get("step_confirmed")
        if eviction is not None and confirmed is not None and (before is None or confirmed > (before.step or 0)):
            held.stages.pop("step_confirmed", None)  # a rank that was further on has raised it
            self._stage(held, eviction, "step_confirmed", tell=tell, step=confirmed)
        if tell:
            self._tell_news(held)

    def _tell_resumed(self, held: Held) -> None:
        if held.heard.resumed is not None and held.state == "running":
            content = held.heard.resumed.content
            self._tell(held.key, TaskHasResumed, **{name: content[name] for name in ("step", "from_attempt", "passed_over")})

    def _tell_news(self, held: Held) -> None:
        """At once, or when enough time has passed since the last news: of what is said meanwhile the newest counts."""
        loop, at = asyncio.get_running_loop(), held.heard.next_at()
        if at is None or held.state != "running":
            return
        if at <= loop.time():
            steps = self.machine.runtimes[held.runtime].steps(held.key)
            self._tell(held.key, TaskHasProgressed, **held.heard.news(steps, self._ambient.boot(), loop.time()))
        elif held.heard.waits_until is None or at < held.heard.waits_until:
            held.heard.waits_until = at
            self._spawn(self._tell_later(held, at - loop.time()))

    async def _tell_later(self, held: Held, after_s: float) -> None:
        await asyncio.sleep(after_s)
        held.heard.waits_until = None
        self._tell_news(held)

    def _published(self, held: Held) -> int | None:
        return self.machine.runtimes[held.runtime].steps(held.key).published

    async def _release(self, held: Held) -> None:
        """Look until the devices are seen free; those that are not in time are quarantined, and nobody gets them before."""
        machine = self.machine
        runtime = machine.runtimes[held.runtime]
        living = runtime.pids(held.key)
        host = await self._host(held, living)
        if living:
            self._spawn(_kill(runtime, held.key))  # what got away from its supervisor has had its grace with the others
        if held.exit_code != 0:
            await self._custody.look()  # whether a device broke under it has to be known before the room is free
        while True:
            proof = await prove_release(
                machine.inventory,
                held.devices,
                lambda: runtime.pids(held.key),
                self._custody.baseline,
                machine.release_timeout_s,
                machine.release_poll_s,
                before=held.before,
                seen_pids=held.pids,
                shared=self._shares.part(str(held.key)) is not None,
            )
            if not proof.free:
                left = Left(held.key.job, held.key.attempt, int(held.key.task), proof.of_task)
                self._custody.not_free(proof, left)
            if not proof.living:
                break  # what is dirty stays out of use; the rest of its room is free
            self._log.error("a task's processes do not end", job=held.key.job, held_by=proof.held_by)
        if held.runtime != "simulated":
            await asyncio.to_thread(self._scratch.remove, held.key)
        after_it = await self._host(held, proof.living)
        held.state = "released"
        before, after = tuple(map(reading_fact, proof.before)), tuple(map(reading_fact, proof.after))
        held.last_report = self._tell(held.key, TaskIsReleased, before=before, after=after, host_before=host, host_after=after_it)

    async def _host(self, held: Held, living: Collection[int]) -> HostReading | None:
        """What the task has of its machine now, beside devices; `None` for one that is only a time."""
        if held.runtime == "simulated":
            return None
        runtime = self.machine.runtimes[held.runtime]
        scratch = await asyncio.to_thread(self._scratch.used, held.key)
        return HostReading(processes=len(living), memory_bytes=runtime.memory(held.key), scratch_bytes=scratch)


async def _kill(runtime: Runtime, key: TaskKey) -> None:
    with suppress(UnknownTask):
        await runtime.kill(key)


def kept_report(body: ReportBody) -> bytes:
    """A report as it is kept in the spool."""
    return body.TYPE.encode() + b"\n" + body.to_json()


def read_report(kept: bytes) -> ReportBody:
    """The report that `kept_report` wrote."""
    kind, _, data = kept.partition(b"\n")
    body = MESSAGE_TYPES[kind.decode()].model_validate_json(data)
    assert isinstance(body, ReportBody)
    return body


def _stages_until(eviction: RunningEviction) -> dict[str, Stage | None]:
    """What is known of an eviction that an earlier agent began; what the task said is in its own journal."""
    order: tuple[EvictionStage | Literal["terminated"], ...] = ("noticed", "term_sent", TERMINATED, "kill_sent")
    found: dict[str, Stage | None] = {}
    for stage in order[: order.index(eviction.stage) + 1] if eviction.stage in order else ():
        if stage == TERMINATED:
            found[stage] = None
        else:
            found[stage] = Stage(stage=stage, **_noticed(eviction)) if stage == "noticed" else Stage(stage=stage)
    return found


def _noticed(eviction: RunningEviction) -> dict[str, Any]:
    known = {name: value for name in ("attached", "step", "pace") if (value := eviction.detail.get(name)) is not None}
    return {**known, "soft": eviction.grace_us, "hard": eviction.grace_us + eviction.kill_after_us}


def _notice(eviction: RunningEviction) -> dict[str, Any]:
    """What the job is told, apart from its deadlines on the boot-time clock."""
    total = eviction.grace_us + eviction.kill_after_us
    return {
        "reason": eviction.detail["reason"],
        "for_job": eviction.detail["for"] or None,
        "soft_s": eviction.grace_us // 1_000_000,
        "hard_s": total // 1_000_000,
    }


def _why(end: Exit) -> str:
    if end.lease_stages:
        return "its agent was not heard in Kafka for longer than the node's lease, so its supervisor stopped it"
    if end.deadline_stages:
        return "its agent was dead when its deadline came, so its supervisor kept it"
    if end.error is not None:
        return end.error
    if end.supervisor_lost:
        return "its supervisor was lost, so what was left of it was ended"
    return f"{end.leftovers} processes that it left behind were ended" if end.leftovers else ""
