"""Orders to start tasks, carried out once; an order that comes again is answered with how things stand."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from bailiff_bus.messages import StartTask, TaskAt, TaskIsRunning, TaskNotStarted
from bailiff_node_agent.custody import Custody
from bailiff_node_agent.devices.ledger import ShareLedger, part_of
from bailiff_node_agent.disk.fences import Verdict
from bailiff_node_agent.environment import SecretMissing, environment, folders_of
from bailiff_node_agent.machine import Machine
from bailiff_node_agent.reporting import Reporter
from bailiff_node_agent.runtime import Exit, Launch, TaskKey, User
from bailiff_node_agent.scratch import Scratch
from bailiff_node_agent.users import NotRunnable, closed_to, give

from .ending import Ending
from .held import Held, Tasks
from .releasing import Releasing


@dataclass(frozen=True, slots=True)
class Starting:
    """Of one agent."""

    machine: Machine
    tasks: Tasks
    custody: Custody
    shares: ShareLedger
    scratch: Scratch
    ending: Ending
    releasing: Releasing
    reporter: Reporter

    async def start(self, command: StartTask, verdicts: Mapping[int, Verdict]) -> None:
        """Each task under its own fence: no repeat of the order starts anything more. They start side by side."""
        launches = list[Launch | None]()
        for task in command.tasks:
            key = TaskKey(command.job, command.attempt, str(task.task))
            if verdicts[task.task] == "stale":
                continue
            if verdicts[task.task] == "same":
                self._answer_again(key, command.order.seq)
                continue
            refusal = self._lacks(command, task) or self._busy(key, task)
            if refusal is not None:
                self.reporter.tell_of(key, command.order.seq, TaskNotStarted, reason=refusal)
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
        earlier = self.tasks.get(key)
        if earlier is not None and earlier.state != "released":
            return f"attempt {key.attempt} of it is still here, from an order that the log has forgotten"
        part = part_of(task, self.machine.inventory.list())
        for device in task.devices:
            others = [held for held in self.tasks.unreleased(device) if held.key != key]
            if self.shares.too_much(part, (str(held.key) for held in others)):
                holder = others[0].key
                return f"{device} is still held by {holder.job}, attempt {holder.attempt}"
        return self.custody.refusal(task.devices, alone=part is None)

    async def _ready(self, command: StartTask, task: TaskAt, key: TaskKey) -> Launch | None:
        """From here on its devices are taken. None where it cannot be started, which is then told."""
        machine = self.machine
        await self.releasing.vacate(key)
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
                scratch=None if simulated else self.scratch.make(key, user),
            )
        except (SecretMissing, NotRunnable) as problem:
            self.reporter.tell_of(key, command.order.seq, TaskNotStarted, reason=str(problem))
            return None
        part = part_of(task, devices)
        if part is not None:
            self.shares.enter(str(key), part)
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
        self.tasks.add(Held(key, spec.runtime, task.devices, order=order))
        return launch

    async def _launch(self, launch: Launch) -> None:
        held = self.tasks[launch.key]
        state = await self.machine.runtimes[held.runtime].start(launch)
        self.reporter.tell_of(held.key, held.order, TaskIsRunning)
        if isinstance(state, Exit):
            self.ending.ended(held, state)

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
        held = self.tasks.get(key)
        if held is None or (held.order is not None and held.order < order):  # what is here is of that number, and came before
            reason = "it was started here before, and is not here any more"
            self.reporter.tell_of(key, order, TaskNotStarted, reason=reason)
            return
        self.reporter.tell_of(held.key, held.order, TaskIsRunning)
        self.ending.tell_again(held)
