"""One node's agent, apart from Kafka: commands in, reports out, deadlines kept whatever else happens.

Commands are obeyed only where the fences on disk allow it (log protocol §6). Reports go into a numbered spool that the
link sends in order. What is on disk when the agent dies is enough for the next one to go on.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from bailiff_bus.ambient import Ambient
from bailiff_bus.messages import (
    ClearDevice,
    Evict,
    Fence,
    NodeAnnounced,
    NodeHeartbeat,
    SaveTogether,
    SendInventory,
    Spare,
    StartTask,
)
from bailiff_bus.messages.commands import CommandBody, JobCommand
from bailiff_bus.messages.reports import FenceSeen
from bailiff_bus.messages.requests import DOCKER_LABEL
from bailiff_bus.metrics import Metrics
from bailiff_core.engine import RELEASE

from .background import Background
from .custody import Custody
from .devices.ledger import ShareLedger, part_of
from .disk.fences import Verdict
from .lease import Lease
from .machine import Machine
from .reporting import Reporter
from .runtime import Exit, ProcessRuntime, TaskKey
from .scratch import Scratch
from .tasks.ending import Ending
from .tasks.held import Held, Tasks
from .tasks.leaving import Leaving
from .tasks.listening import Listening
from .tasks.releasing import Releasing
from .tasks.rounds import watch_idle, watch_killed, watch_sharers
from .tasks.stages import Stages
from .tasks.starting import Starting

FENCE_LATE = 1_000_000
ISOLATED = "this node was cut off from Kafka for longer than its lease"
SUPERSEDED = "another agent has joined under this node's name"


class Agent:
    """Obeys, watches, reports. `run` must be running for exits and deadlines to be seen."""

    def __init__(self, machine: Machine, ambient: Ambient, metrics: Metrics, has_reports: Callable[[], None]) -> None:
        self.machine, self.tasks = machine, Tasks()
        self._ambient, self._metrics, self._log = ambient, metrics, machine.log()
        self.lease = Lease(machine.storage, machine.runtimes, ambient)
        self._joined = False
        self._announced_at = 0
        reporter, background, tasks = Reporter(machine, has_reports), Background(), self.tasks
        shares, scratch = ShareLedger(machine.storage), Scratch(machine.folder)
        custody = Custody(machine.inventory, machine.storage, machine.incarnation.boot_id, reporter.tell, tasks.holders)
        stages = Stages(machine.evictions, ambient, reporter)
        listening = Listening(machine, tasks, stages, reporter, background, ambient)
        releasing = Releasing(machine, tasks, custody, shares, scratch, reporter, background)
        ending = Ending(tasks, listening, stages, releasing, reporter, background)
        self._starting = Starting(machine, tasks, custody, shares, scratch, ending, releasing, reporter)
        self._leaving = Leaving(machine, tasks, listening, stages, ending, reporter, background, ambient)
        self._reporter, self._background, self._shares, self._custody = reporter, background, shares, custody
        self._stages, self._listening, self._releasing, self._ending = stages, listening, releasing, ending

    # --- from the start of the agent to its end

    async def adopt(self) -> None:
        """Take over what earlier agents started, go on with their evictions, and announce everything."""
        self.machine.void_reports()
        ends: list[Exit] = []
        for name, runtime in self.machine.runtimes.items():
            for found in await runtime.adopt():
                held = Held(found.key, name, found.device_ids, order=found.order)
                self.tasks.add(held)
                if isinstance(found, Exit):
                    held.has_ended(found)
                    ends.append(found)
        self._leaving.adopt()
        for held in self.tasks:
            self._listening.listen(held, tell=False)
        for end in ends:
            self._stages.without_agent(self.tasks[end.key], end, tell=False)
        self._custody.adopted()
        self.announce()

    async def run(self) -> None:
        """Watch exits and deadlines until cancelled."""
        machine, tasks = self.machine, self.tasks
        self._background.observe()
        for held in tasks:
            if held.state == "exited":
                self._background.spawn(self._releasing.release(held))
            else:
                self._leaving.go_on(held)
        for held in tasks:
            self._listening.tell_resumed(held)
            self._listening.tell_news(held)
        watchers = [listen.watch(each) for each in machine.runtimes.values() for listen in (self._ending, self._listening)]
        watchers += [
            self._custody.watch(machine.device_look_s),
            watch_killed(machine, tasks, self._custody),
            watch_sharers(machine, tasks, self._shares, self._reporter),
            watch_idle(machine, tasks, self._reporter),
        ]
        try:
            await self._background.watch(watchers)
        finally:
            for runtime in machine.runtimes.values():
                await runtime.close()

    # --- reports

    def announce(self) -> None:
        """Who this is and everything it holds."""
        machine, self._announced_at = self.machine, self._ambient.boot()
        devices = machine.inventory.list()
        cpu_milli, memory_bytes = machine.node.room(len(devices))
        self._reporter.tell(
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
            tasks=tuple(
                held.announced(self._listening.published(held) if held.state != "running" else None) for held in self.tasks
            ),
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
        self._releasing.received(number)

    def logs(self) -> list[tuple[TaskKey, Path]]:
        """The log file of every task that this agent holds and that is not simulated."""
        runtimes = self.machine.runtimes
        return [
            (held.key, runtime.log_path(held.key))
            for held in self.tasks
            if isinstance(runtime := runtimes[held.runtime], ProcessRuntime)
        ]

    # --- the lease (log protocol §7)

    def renew(self, sent: int) -> None:
        """Kafka has what was sent at this boot time."""
        self.lease.renew(sent)

    def check_lease(self) -> None:
        """Cut off for longer than the lease, or stopped: what runs leaves, and what this incarnation was told is void.

        Commands that waited for it meanwhile were given by a log that has given it up since, or is about to.
        """
        if not self.lease.has_run_out():
            return
        self._joined = False
        lasted = self.lease.lasts
        self._log.error("not heard for longer than the lease: tasks are stopped, and the node joins anew", lease_us=lasted)
        self.machine.begin_anew(self._ambient.fresh().hex())
        self.machine.void_reports()
        self.announce()
        self._leaving.all_leave(self.lease.grace, ISOLATED)

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
                self._joined = True
                self.lease.is_told(command.lease, command.lost_margin)
            case SendInventory():
                self.announce()
            case StartTask() if not self.lease.known:
                self._ask_for_lease()
            case ClearDevice():
                self._custody.clear(command.device, command.asked)
            case StartTask():
                whole = {at.task: at.devices if part_of(at, ()) is None else () for at in command.tasks}
                await self._starting.start(command, self._verdicts(command, whole))
            case Evict():
                await self._leaving.evict(command, self._verdicts(command, dict.fromkeys(command.tasks, ())))
            case Spare():
                await self._leaving.spare(command, self._verdicts(command, dict.fromkeys(command.tasks, ())))
            case SaveTogether():
                self._leaving.save_together(command, self._verdicts(command, dict.fromkeys(command.tasks, ())))

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
            self._leaving.all_leave(0, SUPERSEDED)

    def _refused(self, command: CommandBody) -> None:
        self._metrics.fences_refused.labels(self.machine.node.domain, type(command).__name__).inc()
        self._log.warning("a command of the past was refused", type=type(command).__name__)

    def _verdicts(self, command: JobCommand, tasks: Mapping[int, tuple[str, ...]]) -> dict[int, Verdict]:
        """By task; tasks: each with the devices that the command gives it whole."""
        position = (command.order.epoch, command.order.seq)
        verdicts = self.machine.fences.obey(command.job, command.attempt, tasks, position)
        if "stale" in verdicts.values():
            devices = [device for each in tasks.values() for device in each]
            if self.machine.fences.all_before(command.sender_epoch, command.job, devices):
                return dict.fromkeys(tasks, "same")  # its log has forgotten what was obeyed since: it is to be answered
            self._refused(command)
        return verdicts
