"""Starts of tasks, each carried out once; a repeated command is answered with the task's present state.

A start is checked, and its devices are allocated, in the order of the commands. The launches then run side by side.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from bailiff_bus.messages.commands import SnapshotRef, SnapshotStep, StartTask, TaskAssignment
from bailiff_bus.messages.reports import TaskRestoredReport, TaskRestoreFailedReport, TaskStartRefusedReport
from bailiff_core.model.snapshots import PARK
from bailiff_node_agent.agent_context import AgentContext
from bailiff_node_agent.background import Background
from bailiff_node_agent.checkpoints import newest
from bailiff_node_agent.device_quarantine import DeviceQuarantine
from bailiff_node_agent.devices.ledger import ShareLedger, part_of
from bailiff_node_agent.disk.fences import Verdict
from bailiff_node_agent.environment import SecretMissing, environment, host_folders
from bailiff_node_agent.reporter import Reporter
from bailiff_node_agent.runtime import Exit, Image, Launch, TaskKey, UnknownTask, User, WorkloadRef, job_files
from bailiff_node_agent.scratch import Scratch
from bailiff_node_agent.snapshots import DRIVER, BadImage
from bailiff_node_agent.users import NotRunnable, first_inaccessible, make_owned, refuse_link

from .exits import ExitHandler
from .parking import Parker
from .release import Releaser
from .saving import MAX_REASON, NotSaved
from .task_table import LocalTask, TaskTable

SAVED = ("snapshot", "auto")
"""Who saves a job's work, where it may be the platform."""
WAITS_AT_MOST_S = 600.0
"""How long a restored task waits for its gang."""
LAUNCHES_AT_ONCE = 8
"""More would not start sooner, and keep notices and releases waiting for the same disk and threads."""


@dataclass(frozen=True, slots=True)
class TaskStarter:
    context: AgentContext
    tasks: TaskTable
    quarantine: DeviceQuarantine
    shares: ShareLedger
    scratch: Scratch
    exits: ExitHandler
    releaser: Releaser
    reporter: Reporter
    background: Background
    parker: Parker
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LAUNCHES_AT_ONCE))
    _launching: dict[str, set[asyncio.Task[None]]] = field(default_factory=dict)
    """By job, its launches that have not ended, but for slow ones."""
    _starting: set[TaskKey] = field(default_factory=set)
    """Tasks whose launch has not ended."""

    async def start(self, command: StartTask, verdicts: Mapping[int, Verdict]) -> None:
        """Begin to launch the command's tasks, each under its own fence: a repeated command starts nothing."""
        for assigned in command.tasks:
            key = TaskKey(command.job, command.attempt, str(assigned.task))
            if verdicts[assigned.task] == "stale":
                continue
            if verdicts[assigned.task] == "same":
                self._report_again(key, command.ordered_by.seq)
                continue
            snapshot = assigned.restore
            parked = self.parker.find(command.job, snapshot, assigned.task) if snapshot is not None else None
            await self.parker.end_others(command.job, parked)
            if parked is not None:
                self._track(key, self._resume(parked, command, assigned, key))
                continue
            missing = self._missing(command, assigned)
            in_use = self._in_use(key, command, assigned) if missing is None else None
            refusal = missing or in_use or self._quarantined(command, assigned)
            if refusal is not None:
                why = {"reason": refusal, "in_use": in_use is not None}
                self.reporter.report_task(key, command.ordered_by.seq, TaskStartRefusedReport, **why)
            else:
                launch = await self._prepare(command, assigned, key)
                if launch is not None:
                    self._spawn(launch, assigned.restore)

    async def _resume(self, task: LocalTask, command: StartTask, assigned: TaskAssignment, key: TaskKey) -> None:
        """Let a parked task go on; or start it anew, which says why."""
        try:
            await self.parker.resume(task, key.attempt, command.ordered_by.seq)
        except NotSaved:
            launch = await self._prepare(command, assigned, key)
            if launch is not None:
                await self._launch(launch, assigned.restore)
            return
        self.exits.started(task)
        self.parker.report_resumed(task)

    async def launched(self, job: str) -> None:
        """Wait until every launch of this job that has begun is reported."""
        while launching := self._launching.get(job):
            await asyncio.wait(launching)

    def resume(self, task: LocalTask) -> None:
        """Report how the start, or the restoring, of a task ended that an earlier agent has started."""
        if task.state == "parked" or task.continues is not None:
            return  # it was parked since
        if not task.begun:
            self.background.spawn(self._await_begun(task))
        self.background.spawn(self._report_restored(task))

    async def snapshot_step(self, command: SnapshotStep, verdicts: Mapping[int, Verdict]) -> None:
        """The restored tasks of a gang continue, or start anew; a repeated command is answered again."""
        for index in command.tasks:
            task = self.tasks.get(TaskKey(command.job, command.attempt, str(index)))
            if verdicts[index] == "stale" or task is None or task.state != "running":
                continue
            await self.context.runtimes[task.runtime].go_on(task.key, anew=command.step == "anew")
            task.waits = False
            self.background.spawn(self._report_restored(task))

    def _spawn(self, launch: Launch, snapshot: SnapshotRef | None) -> None:
        starts_slowly = self.context.runtimes[self.tasks[launch.key].runtime].capabilities.starts_slowly
        self._track(launch.key, self._launch(launch, snapshot), waits=not starts_slowly)

    def _track(self, key: TaskKey, work: Coroutine[Any, Any, None], *, waits: bool = True) -> None:
        self._starting.add(key)
        job, task = key.job, self.background.spawn(work)
        task.add_done_callback(lambda _: self._starting.discard(key))
        if not waits:
            return  # it may be evicted before it runs
        launching = self._launching.setdefault(job, set())
        launching.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            launching.discard(task)
            if not launching:
                self._launching.pop(job, None)

        task.add_done_callback(ended)

    def _missing(self, command: StartTask, assigned: TaskAssignment) -> str | None:
        """Why this node cannot run the task at all."""
        present = {device.id for device in self.context.inventory.list()}
        if gone := [device for device in assigned.devices if device not in present]:
            return f"this node does not have device {', '.join(gone)[:500]}"
        name = command.spec.runtime
        if name not in self.context.runtimes:
            return f"this node has no runtime {name!r}; it has {', '.join(self.context.runtimes)}"
        chooses, is_simulated = self.context.inventory.chooser, self.context.runtimes[name].capabilities.simulated
        if assigned.devices and chooses not in (None, name) and not is_simulated:
            return f"the kubelet gives out this node's GPUs: a job with GPUs runs as a pod here, with the runtime {chooses}"
        if not self.context.is_on_node and name != chooses and not is_simulated:
            return "this node's agent runs elsewhere and reaches it by the Kubernetes API alone: only pods run here"
        if part_of(assigned, ()) is not None and not self.context.runtimes[name].capabilities.shares_gpus:
            return f"the runtime {name} cannot share a GPU on this node: request whole GPUs"
        return None

    def _quarantined(self, command: StartTask, assigned: TaskAssignment) -> str | None:
        """Why the task must not use its devices."""
        exclusive = part_of(assigned, self.context.inventory.list()) is None
        return self.quarantine.refusal(self._devices(command, assigned), exclusive=exclusive)

    def _in_use(self, key: TaskKey, command: StartTask, assigned: TaskAssignment) -> str | None:
        """Who has not left yet what the task is to use."""
        earlier = self.tasks.get(key)
        if earlier is not None and earlier.state != "released":
            return f"attempt {key.attempt} of this task still runs here; its start is not in the log any more"
        part = part_of(assigned, self.context.inventory.list())
        for device in self._devices(command, assigned):
            holder = self._holder(key, part, device)
            if holder is not None:
                return f"{device} is still in use by {holder.job}, attempt {holder.attempt}"
        return None

    def _devices(self, command: StartTask, assigned: TaskAssignment) -> tuple[str, ...]:
        """Its devices; none where the runtime chooses them: they are checked once they are known."""
        return () if self.context.runtimes[command.spec.runtime].capabilities.starts_slowly else assigned.devices

    def _holder(self, key: TaskKey, part: Fraction | None, device: str) -> TaskKey | None:
        """A task that has the device, if too little of it is free. part: how much this task gets; None: all of it."""
        others = [task.key for task in self.tasks.unreleased(device) if task.key != key]
        return others[0] if self.shares.exceeds(part, map(str, others)) else None

    async def _prepare(self, command: StartTask, assigned: TaskAssignment, key: TaskKey) -> Launch | None:
        """Prepare the launch; allocates the devices. None where the task cannot be started, which is reported."""
        context = self.context
        await self.releaser.wait_forgotten(key)
        devices = [device for device in context.inventory.list() if device.id in assigned.devices]
        capabilities = context.runtimes[command.spec.runtime].capabilities
        try:
            user = self._user(command) if capabilities.host_resources else None
            checkpoints, scratch = context.checkpoints_of(command.job), None
            resume_from, damaged = None, 0
            if not capabilities.simulated:
                refuse_link(checkpoints)
                resume_from, damaged = await job_files.reading(newest, checkpoints, assigned.rank, user=user)
            if capabilities.host_resources:
                scratch = await self.scratch.make(key, user)
            env = environment(
                command,
                assigned,
                checkpoints=checkpoints,
                resume_from=resume_from,
                secrets=context.secrets,
                master_address=context.master_address,
                device_bytes=min((device.memory for device in devices), default=0),
                scratch=scratch,
                by_mps=context.shares_by_mps,
            )
        except (SecretMissing, NotRunnable) as problem:
            self.reporter.report_task(key, command.ordered_by.seq, TaskStartRefusedReport, reason=str(problem))
            return None
        part = part_of(assigned, devices)
        if part is not None:
            self.shares.add(str(key), part)
        spec = command.spec
        order = command.ordered_by.seq
        launch = Launch(
            key,
            spec.command if isinstance(spec.command, str) else list(spec.command or ()),
            env,
            spec.working_dir,
            assigned.devices,
            context.folder / "logs",
            cpu_milli=assigned.cpu_milli,
            memory_bytes=assigned.memory_bytes,
            user=user,
            image=spec.image or "",
            folders=host_folders(env) if capabilities.images else (),
            grace_s=command.grace // 1_000_000,
            ordered_by=order,
            tty=spec.tty,
            device_resource=next((device.labels["resource"] for device in devices if "resource" in device.labels), ""),
            check_devices=lambda devices: self._refuse_chosen(key, devices),
            part=part,
            workload=None if spec.workload is None else WorkloadRef(**spec.workload.to_data()),
            saves=command.checkpoint in SAVED and capabilities.saves and not spec.tty,
        )
        known = () if capabilities.starts_slowly else assigned.devices
        self.tasks.add(LocalTask(key, spec.runtime, known, ordered_by=order, damaged_checkpoints=damaged))
        return launch

    def _refuse_chosen(self, key: TaskKey, devices: tuple[str, ...]) -> str | None:
        """Why the task must not use the devices that its runtime got for it; otherwise they are its devices from now on."""
        for device in devices:
            holder = self._holder(key, self.shares.part(str(key)), device)
            if holder is not None:
                return f"the kubelet chose {device}, which is still in use by {holder.job}, attempt {holder.attempt}"
        refusal = self.quarantine.refusal(devices, exclusive=False)
        task = self.tasks.get(key)
        if refusal is None and task is not None:
            task.devices = devices
        return None if refusal is None else f"the kubelet chose {refusal}"

    async def _launch(self, launch: Launch, snapshot: SnapshotRef | None) -> None:
        task, why_not = self.tasks[launch.key], ""
        runtime = self.context.runtimes[task.runtime]
        if snapshot is not None:
            try:
                launch = replace(launch, restore=await self._verified(launch, snapshot))
            except BadImage as problem:
                why_not = str(problem)
        if runtime.capabilities.starts_slowly:
            state = await runtime.start(launch)
        else:
            async with self._slots, task.lock:
                state = await runtime.start(launch)
        if isinstance(state, Exit):
            self.exits.exited(task, replace(state, begun=False))
        elif state.begun:
            self._begun(task, launch, snapshot, why_not)
        else:  # it may be evicted meanwhile, and the next agent may go on with it
            self.background.spawn(self._await_begun(task, launch, snapshot, why_not))

    async def _await_begun(
        self, task: LocalTask, launch: Launch | None = None, snapshot: SnapshotRef | None = None, why_not: str = ""
    ) -> None:
        """Report the start of a task once its program runs; where it ends before, its exit is all there is."""
        with suppress(UnknownTask):  # it has ended and was forgotten meanwhile
            if await self.context.runtimes[task.runtime].begun(task.key):
                self._begun(task, launch, snapshot, why_not)

    def _begun(self, task: LocalTask, launch: Launch | None, snapshot: SnapshotRef | None, why_not: str) -> None:
        """Its program runs. launch: None where an earlier agent has launched it."""
        if not task.begun:
            self.exits.started(task, self._chosen(task))
        if snapshot is not None and why_not:
            self._report_not_restored(task, why_not, from_attempt=snapshot.attempt, driver=snapshot.driver)
        if launch is not None and launch.restore is not None:
            self.background.spawn(self._report_restored(task))

    async def _verified(self, launch: Launch, snapshot: SnapshotRef) -> Image:
        """The snapshot, if it is the one on record and can be restored here. Raises `BadImage`."""
        if snapshot.driver == PARK:
            raise BadImage("its parked processes are not here any more")
        if not launch.saves or snapshot.driver != DRIVER:
            raise BadImage("this node has no program that restores it")
        folder = self.context.snapshots_folder / launch.key.job
        image, manifest, took = await self.context.images.verify(folder, snapshot.attempt, launch.key, snapshot.sha256)
        if manifest["cpu"] != self.context.cpu_features:
            raise BadImage("this node's CPU has other features than the one on which it was saved")
        if image.facts.get("boot_id") not in (None, self.context.incarnation.boot_id):
            raise BadImage("the machine has restarted since it was saved, or is another one: its TCP connections are gone")
        about = {"from_attempt": snapshot.attempt, "driver": snapshot.driver, "verified": took}
        about |= {"bytes": snapshot.bytes, **image.about}
        if not launch.is_only_task or image.facts.get("frozen"):
            about |= {"waits": True, "stopped": image.facts.get("stopped", [])}
        return replace(image, about=about)

    async def _report_restored(self, task: LocalTask) -> None:
        """Wait until it is known whether the task was restored, and report it."""
        with suppress(UnknownTask):  # it has ended and was forgotten meanwhile
            end = await self.context.runtimes[task.runtime].restored(task.key)
            if end is None:
                return
            with suppress(OSError):  # else with its release
                await self.context.images.clear(task.known_as, saved=False)
            if end.why_not or end.anew:
                why = end.why_not or "another task of its gang was not restored"
                self._report_not_restored(task, why, **{name: end.about[name] for name in ("from_attempt", "driver")})
                return
            about = {name: end.about[name] for name in ("from_attempt", "driver", "bytes", "verified")}
            about |= {"restored": end.elapsed_us, "waits": end.waits}
            self.reporter.report_task(task.known_as, task.ordered_by, TaskRestoredReport, **about)
            if end.waits and not task.waits:
                task.waits = True
                await self._end_waiting(task)

    async def _end_waiting(self, task: LocalTask) -> None:
        """End it where it was not told in time what to do: its attempt fails as a whole."""
        await asyncio.sleep(WAITS_AT_MOST_S)
        if task.waits and task.state == "running":
            self.context.log().warning("a restored task is ended: the others of its gang were not restored", job=task.key.job)
            await self.context.runtimes[task.runtime].kill(task.key)

    def _report_not_restored(self, task: LocalTask, why: str, **known: Any) -> None:
        self.reporter.report_task(task.known_as, task.ordered_by, TaskRestoreFailedReport, reason=why[:MAX_REASON], **known)

    def _chosen(self, task: LocalTask) -> tuple[str, ...]:
        """Its devices, where its runtime chooses them."""
        return task.devices if self.context.runtimes[task.runtime].capabilities.starts_slowly else ()

    def _user(self, command: StartTask) -> User | None:
        """The user that the job runs as, who gets its checkpoint directory; None: the agent's. Raises `NotRunnable`."""
        context = self.context
        user = context.users.of(command.user)
        if user is not None:
            own = context.checkpoints_of(command.job)
            closed = first_inaccessible(user, context.folder) or first_inaccessible(user, own.parent)
            if closed is not None:
                raise NotRunnable(f"{user.name} has no access to {closed}, where its jobs keep files: run chmod o+x {closed}")
            make_owned(own, user)
        return user

    def _report_again(self, key: TaskKey, order: int) -> None:
        """A repeated command: report the present state. A lost start is not carried out again."""
        if key in self._starting:
            return  # it is reported once it has started
        task = self.tasks.get(key)
        if task is None or (
            task.ordered_by is not None and task.ordered_by < order
        ):  # the task here was started by an earlier command
            reason = "the task was started on this node before, and is gone"
            self.reporter.report_task(key, order, TaskStartRefusedReport, reason=reason, was_started=True)
            return
        if task.begun:
            self.exits.started(task, self._chosen(task))
        self.exits.report_again(task)
