"""One node's agent, apart from Kafka: carries out commands, reports, and enforces deadlines whatever else happens.

Commands are obeyed only where the fences on disk allow it (docs/reference/log-protocol-fences.md#fences). Reports go into a
numbered spool that the link sends in order. After a crash the next agent continues from the state on disk.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bailiff_bus.envelope import Envelope, InvalidMessage
from bailiff_bus.messages.commands import (
    AttachTask,
    CancelEviction,
    CheckpointAtStep,
    CommandBody,
    EncryptedStartTask,
    Evict,
    Fence,
    JobCommand,
    RemoveSnapshots,
    SaveTasks,
    SendInventory,
    SnapshotStep,
    StartTask,
)
from bailiff_bus.messages.devices import ClearDevice
from bailiff_bus.messages.reports import FenceStatus, NodeHeartbeat, NodeInventory, OrderEvidence
from bailiff_core.engine import RELEASE
from bailiff_core.model.job_spec import runtime_label, sharing_label
from bailiff_core.records.nodes import SnapshotOffer
from bailiff_log.encryption import CannotDecrypt
from bailiff_log.order_evidence import evidence_of
from bailiff_log.start_encryption import decrypt_start
from bailiff_node_agent import mps
from bailiff_node_agent.devices import inventory_plugin
from bailiff_node_agent.devices.ledger import ShareLedger, part_of
from bailiff_node_agent.disk.fences import Verdict
from bailiff_node_agent.tasks.evictions import EvictionDriver
from bailiff_node_agent.tasks.exits import ExitHandler
from bailiff_node_agent.tasks.message_pump import MessagePump
from bailiff_node_agent.tasks.parking import Parker
from bailiff_node_agent.tasks.pods import watch_foreign_pods
from bailiff_node_agent.tasks.release import Releaser
from bailiff_node_agent.tasks.saving import Saver
from bailiff_node_agent.tasks.stages import EvictionStages
from bailiff_node_agent.tasks.start import TaskStarter
from bailiff_node_agent.tasks.task_table import LocalTask, TaskTable
from bailiff_node_agent.tasks.watchdogs import watch_devices, watch_idle, watch_killed, watch_shares
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.metrics import Metrics

from .agent_context import AgentContext
from .attach import Attachments, AttachServer
from .background import Background
from .command_trust import CommandTrust
from .device_quarantine import DeviceQuarantine
from .ended_logs import DAY_US, ended_logs
from .lease import Lease
from .reporter import Reporter
from .runtime import Exit, TaskKey, UnknownTask, job_files
from .scratch import Scratch
from .snapshots import DRIVER, BadImage, Criu, probe

FENCE_TIMEOUT = 1_000_000
ANNOUNCE_EVERY = 30_000_000
MOST_AHEAD = 100_000_000_000  # records; less than admission believes of a truncated log, whose end it may compare with
ISOLATED = "the node's lease expired: its agent could not reach Kafka"
SUPERSEDED = "another agent has joined under this node's name"
REVOKED = "this node's key was revoked"


class Agent:
    """Carries out commands, watches tasks, reports. `run` must be running for exits and deadlines to be noticed."""

    def __init__(
        self,
        context: AgentContext,
        clock_and_ids: ClockAndIds,
        metrics: Metrics,
        has_reports: Callable[[], None],
        attach_server: AttachServer | None = None,
    ) -> None:
        self.context, self.tasks = context, TaskTable()
        self._clock_and_ids, self._metrics, self._log = clock_and_ids, metrics, context.log()
        self.lease = Lease(context.storage, context.runtimes, clock_and_ids)
        self._joined = self._revoked = False
        self._announced_at = self._refused_commands = self._log_end = 0
        self._fenced_in = -1  # epoch of the newest fence
        self._refusal = ""
        reporter, background, tasks = Reporter(context, has_reports), Background(), self.tasks
        shares, scratch = ShareLedger(context.storage), Scratch(context.folder)
        quarantine = DeviceQuarantine(
            context.inventory, context.storage, context.incarnation.boot_id, reporter.report, tasks.holders
        )
        stages = EvictionStages(context.evictions, clock_and_ids, reporter)
        messages = MessagePump(context, tasks, stages, reporter, background, clock_and_ids)
        releaser = Releaser(context, tasks, quarantine, shares, scratch, reporter, background)
        saver = Saver(context, stages, clock_and_ids, reporter)
        parker = Parker(context, tasks, stages, clock_and_ids, reporter, saver)
        exits = ExitHandler(tasks, messages, stages, releaser, reporter, background, parker)
        self._starter = TaskStarter(context, tasks, quarantine, shares, scratch, exits, releaser, reporter, background, parker)
        self._evictions = EvictionDriver(
            context, tasks, messages, stages, exits, reporter, background, clock_and_ids, saver, parker
        )
        self._parker = parker
        self._attachments = Attachments(context, tasks, reporter, attach_server or AttachServer(None))
        self._reporter, self._background, self._shares, self._quarantine = reporter, background, shares, quarantine
        self._stages, self._messages, self._releaser, self._exits = stages, messages, releaser, exits
        self._scratch, self._abandoned = scratch, list[Path]()

    # --- life cycle

    async def adopt(self) -> None:
        """Take over the tasks and evictions of earlier agents, and send the node's inventory."""
        self.context.discard_reports()
        exits: list[Exit] = []
        for name, runtime in self.context.runtimes.items():
            for state in await runtime.adopt():
                task = LocalTask(state.key, name, state.device_ids, ordered_by=state.ordered_by, begun=state.begun)
                self.tasks.add(task)
                self._adopt_parked(task)
                if isinstance(state, Exit):
                    task.mark_exited(state)
                    exits.append(state)
                elif state.part is not None:  # the agent's own record of it may be lost with its disk
                    self._shares.add(str(state.key), state.part)
        self._evictions.adopt()
        for task in self.tasks:
            self._messages.read(task, report=False)
        for end in exits:
            self._stages.record_supervisor_stages(self.tasks[end.key], end, report=False)
        if any(runtime.capabilities.host_resources for runtime in self.context.runtimes.values()):
            self._abandoned = await job_files.reading(self._scratch.abandoned, [task.key for task in self.tasks])
        self._quarantine.start()
        self.announce()
        self._attachments.adopt()

    def _adopt_parked(self, task: LocalTask) -> None:
        kept = self.context.parking.get(str(task.key))
        if kept is None:
            return
        if kept.attempt is not None:
            self.tasks.continues(task, kept.attempt)
            task.ordered_by = kept.ordered_by
            begun = self.context.evictions.get(str(task.key))
            if begun is not None and any(each["stage"] == "parked" for each in begun.detail.get("saved", ())):
                self.context.evictions.end(str(task.key))  # that one is over
        else:
            if kept.from_attempt != task.key.attempt:
                self.tasks.continues(task, kept.from_attempt)
            task.state = "parked"

    async def run(self) -> None:
        """Watch exits and deadlines until cancelled."""
        context, tasks = self.context, self.tasks
        self._background.observe()
        self._background.spawn(self._scratch.unfinished.remove(*self._abandoned))
        if context.criu is not None:
            self._background.spawn(self._offer_snapshots(context.criu))
        for task in tasks:
            if task.state == "exited":
                self._background.spawn(self._releaser.release(task))
            else:
                self._evictions.resume(task)
                self._starter.resume(task)
                self._background.spawn(self._parker.adopted(task))
        for task in tasks:
            self._messages.report_resumed(task)
            self._messages.report_progress(task)
        watchers = [self._exits.watch(runtime) for runtime in context.runtimes.values()]
        watchers += [self._messages.watch(runtime) for runtime in context.runtimes.values() if runtime.capabilities.notices]
        watchers += [
            self._quarantine.watch(context.device_poll_s),
            watch_devices(context, self._quarantine, self.announce),
            watch_killed(context, tasks, self._quarantine),
            watch_shares(context, tasks, self._shares, self._reporter),
            watch_idle(context, tasks, self._reporter),
        ]
        chooser = context.runtimes.get(context.inventory.chooser or "")
        if chooser is not None:
            watchers.append(watch_foreign_pods(context, chooser, tasks, self._quarantine))
        if context.kubernetes is not None:
            watchers.append(context.kubernetes.watch(self.announce, self.node_rebooted))
        try:
            await self._background.watch(watchers)
        finally:
            for runtime in context.runtimes.values():
                await runtime.close()

    # --- reports

    def announce(self) -> None:
        """Report the node's inventory: its devices, its tasks, and what it can run."""
        context, self._announced_at = self.context, self._clock_and_ids.boot()
        if self.is_waiting and context.credentials is not None:
            self._log.info("announced", key=context.credentials.key)  # to compare before it is approved
        devices = context.inventory.list()
        cards = dict.fromkeys(device.parent or device.id for device in devices)
        cpu_milli, memory_bytes = context.node.host_capacity(len(cards))
        known = context.kubernetes.facts if context.kubernetes is not None else None
        if known is not None:
            cpu_milli, memory_bytes = context.node.cpu_milli or known.cpu_milli, context.node.memory_bytes or known.memory_bytes
        self._reporter.report(
            NodeInventory,
            machine_id=context.incarnation.machine_id,
            boot_id=context.incarnation.boot_id,
            release=RELEASE,
            cpu_milli=cpu_milli,
            memory_bytes=memory_bytes,
            max_tasks=context.node.max_tasks,
            labels=(known.labels if known is not None else {}) | context.node.labels | self._offers(),
            devices=self._quarantine.facts(),
            quarantined=tuple(self._quarantine.quarantined.values()),
            tasks=tuple(
                task.to_report(self._messages.published(task) if task.state != "running" else None) for task in self.tasks
            ),
            checkpoint_store=context.checkpoints_identity,
            snapshots=context.snapshots,
            parking=context.parking_offer,
            cordon=None if known is None else known.cordon or context.inventory.away(),
            fence=self.fence_status(),
        )

    async def _offer_snapshots(self, criu: Criu) -> None:
        """Try whether tasks can be saved and restored here, and tell the pool."""
        offer = await asyncio.to_thread(probe, criu, self.context.snapshots_folder, self.context.folder / "snapshot-probe")
        if offer.why_not:
            self._log.warning("no task can be saved by the platform here", driver=DRIVER, reason=offer.why_not)
        self.context.snapshots = (SnapshotOffer(driver=DRIVER, **asdict(offer)),)
        self.announce()

    def _offers(self) -> dict[str, str]:
        """Labels: what runs images here, and who can share GPUs, and how."""
        context = self.context
        images = {name: each.capabilities for name, each in context.runtimes.items() if each.capabilities.images}
        offers = {runtime_label(name): "true" for name in images}
        offers |= {sharing_label(name): "true" for name, each in images.items() if each.shares_gpus}
        chooser = context.runtimes.get(context.inventory.chooser or "")
        is_shared = chooser is None or chooser.capabilities.shares_gpus
        if inventory_plugin(context.node.gpus).real and context.is_on_node and is_shared:
            offers[mps.LABEL] = "mps" if context.shares_by_mps else "time-slicing"
        return offers

    def heartbeat(self, newest_sent: int) -> NodeHeartbeat:
        """A heartbeat with the number of the newest report that was sent."""
        left = self.left()
        self._metrics.left_folders.labels(self.context.node.pool, self.context.node.name).set(len(left))
        return NodeHeartbeat(
            node=self.context.node.name,
            incarnation=self.context.incarnation.incarnation,
            number=newest_sent,
            fence=self.fence_status(),
            refused_commands=self._refused_commands,
            refusal=self._refusal,
            left_folders=len(left),
            left_example=next((f"{path}: {why}"[:500] for path, why in left.items()), ""),
            exposed=next((each.capabilities.exposes for each in self.context.runtimes.values() if each.capabilities.exposes), ""),
        )

    def left(self) -> dict[Path, str]:
        """What tasks have left that could not be removed, and why."""
        found = dict(self._scratch.unfinished.left)
        for runtime in self.context.runtimes.values():
            found |= runtime.left
        return found

    @property
    def is_waiting(self) -> bool:
        """Whether the node may not be enrolled yet and runs nothing: then its inventory is all that it sends."""
        return self.context.credentials is not None and not self._joined and next(iter(self.tasks), None) is None

    def announce_again(self) -> None:
        """Repeat the inventory of a waiting node: an operator may have permitted its key meanwhile."""
        overdue = self._clock_and_ids.boot() - self._announced_at > ANNOUNCE_EVERY
        if self.is_waiting and overdue and not self.context.reports.unsent():
            self.announce()

    def fence_status(self) -> FenceStatus:
        """The highest position that was obeyed."""
        epoch, seq = self.context.fences.highest or (0, 0)
        fences = self.context.fences
        evidence = tuple(OrderEvidence.model_validate_json(json.dumps(each)) for each in fences.evidence)
        return FenceStatus(epoch=epoch, seq=seq, newest_epoch=max(0, fences.admission_epoch), evidence=evidence)

    def received(self, number: int) -> None:
        """Kafka has this report and all before it: tasks whose release they report can be forgotten."""
        self.context.reports.sent(number)
        self._releaser.received(number)
        self._attachments.received(number)

    def logs(self) -> list[tuple[TaskKey, Path]]:
        """The log file of every task that has one."""
        found = []
        for task in self.tasks:
            with suppress(UnknownTask):  # forgotten meanwhile
                path = self.context.runtimes[task.runtime].log_path(task.key)
                if path is not None:
                    found.append((task.known_as, path))
        return found

    def take_ended_logs(self) -> list[tuple[TaskKey, Path]]:
        """The log files of tasks that were forgotten since the last call."""
        ended = self._releaser.ended_logs
        return [ended.popleft() for _ in range(len(ended))]

    async def remove_ended_logs(self, days: float, most_bytes: int) -> None:
        """Remove logs of tasks that are gone: those unchanged for so many days, and what is beyond so many bytes; 0: no limit."""
        context, unfinished = self.context, self._scratch.unfinished
        running = {f"{task.key}.log{end}" for task in self.tasks for end in ("", ".1", ".1.new")}
        before = self._clock_and_ids.wall() - int(days * DAY_US) if days else 0
        kept, expired = await job_files.reading(ended_logs, context.folder / "logs", running, before, most_bytes)
        for path in expired:
            if path not in unfinished.left:
                await unfinished.discard(path)
        self._metrics.ended_log_bytes.labels(context.node.pool, context.node.name).set(kept)
        if expired:
            self._log.info("logs of ended tasks were removed", files=len(expired), kept_bytes=kept)

    # --- the lease (docs/reference/log-protocol-fences.md#leases)

    def renew(self, sent: int) -> None:
        """Kafka has a message that was sent at this boot time."""
        self.lease.renew(sent)

    def check_lease(self) -> None:
        """Once the lease has expired: evict all tasks, and join anew under another incarnation.

        Pending commands to the old incarnation come from a log that has declared the node lost, or will soon.
        """
        if not self.lease.expire():
            return
        self._joined = False
        self._log.error("the node's lease expired: stopping its tasks and joining anew", lease_us=self.lease.duration)
        self.context.renew_incarnation(self._clock_and_ids.random_bytes().hex())
        self.context.discard_reports()
        self.announce()
        self._evictions.evict_all(self.lease.grace, ISOLATED)

    def node_rebooted(self, boot_id: str) -> None:
        """The node, which is another machine, has booted anew: join as its next incarnation."""
        self._joined = False
        self._log.warning("the node has booted anew: joining as another incarnation")
        self._quarantine.boot_id = boot_id
        self.context.renew_incarnation(self._clock_and_ids.random_bytes().hex(), boot_id)
        self.context.discard_reports()
        self.announce()

    # --- commands

    async def receive(self, envelope: Envelope, at: int) -> None:
        """Obey the command in this message, if a certified key of who may send it has signed it. at: when the broker stored it.

        Certificates are valid by the broker's clock, as for admission: this machine's may be wrong, or be made wrong.
        """
        trust, command = self.context.trust, envelope.body
        assert isinstance(command, CommandBody)
        if trust is not None:
            try:
                trust.check(envelope, at)
            except InvalidMessage as refusal:
                self._count_refused(command, refusal)
                return
            self._stop_if_revoked(trust)
            await self.obey(command, evidence_of(envelope).to_data())
        else:
            await self.obey(command)

    def _count_refused(self, command: CommandBody, refusal: InvalidMessage) -> None:
        """Heartbeats carry the count and the newest reason: admission raises an alarm."""
        self._metrics.commands_refused.labels(self.context.node.pool, refusal.code).inc()
        self._log.warning("a command was refused", type=type(command).__name__, why=str(refusal))
        self._refused_commands += 1
        self._refusal = f"{type(command).__name__}: {refusal}"[:500]

    def _stop_if_revoked(self, trust: CommandTrust) -> None:
        credentials = self.context.credentials
        if credentials is not None and credentials.key in trust.revoked and not self._revoked:
            self._revoked = True
            self._log.error("this node's key was revoked: stopping its tasks. Enrol it again with a new key")
            self._evictions.evict_all(self.lease.grace, REVOKED)

    async def obey(self, command: CommandBody, evidence: dict[str, Any] | None = None) -> None:
        """Carry out the command if it is for this incarnation and no fence forbids it. evidence: that it is, if it was signed.

        Tasks may still be launching when it returns; `launched` waits for them, as a later command of the same job does.
        """
        if isinstance(command, JobCommand):
            await self.launched(command.job)
        self.check_lease()
        context = self.context
        if command.incarnation != context.incarnation.incarnation:
            if isinstance(command, Fence):
                self._fence_for_another(command, evidence)
            return
        if command.sender == "admission" and not context.fences.admission_epoch_ok(command.sender_epoch, evidence):
            self._refuse(command)
            return
        if command.sender == "executor" and isinstance(command, JobCommand) and self._is_beyond_log(command):
            return
        match command:
            case Fence() if command.sender_epoch == self._fenced_in and command.log_end < self._log_end:
                self._refuse(command)  # kept and sent again: the lease may have been longer then
            case Fence():
                self._joined, self._log_end, self._fenced_in = True, command.log_end, command.sender_epoch
                self.lease.configure(command.lease, command.lost_margin)
            case SendInventory():
                self.announce()
            case RemoveSnapshots():
                self._background.spawn(self._remove_snapshots(command))
            case StartTask() | EncryptedStartTask() if not self.lease.is_known:
                self._request_lease()
            case AttachTask():
                await self._attachments.grant(command)
            case ClearDevice():
                self._quarantine.clear(command.device, command.requested_by)
            case StartTask():
                whole = {each.task: each.devices if part_of(each, ()) is None else () for each in command.tasks}
                await self._starter.start(command, self._verdicts(command, whole, evidence))
            case EncryptedStartTask():
                await self._start_encrypted(command, evidence)
            case Evict():
                await self._evictions.evict(command, self._verdicts(command, dict.fromkeys(command.tasks, ()), evidence))
            case SaveTasks():
                self._evictions.save(command, self._verdicts(command, dict.fromkeys(command.tasks, ()), evidence))
            case CancelEviction():
                await self._evictions.cancel(command, self._verdicts(command, dict.fromkeys(command.tasks, ()), evidence))
            case CheckpointAtStep():
                verdicts = self._verdicts(command, dict.fromkeys(command.tasks, ()), evidence)
                self._evictions.checkpoint_at_step(command, verdicts)
            case SnapshotStep():
                verdicts = self._verdicts(command, dict.fromkeys(command.tasks, ()), evidence)
                if command.step in ("continue", "anew"):
                    await self._starter.snapshot_step(command, verdicts)
                else:
                    self._evictions.snapshot_step(command, verdicts)

    async def _remove_snapshots(self, command: RemoveSnapshots) -> None:
        for kept in command.snapshots:
            parked = self._parker.find(kept.job, kept, kept.task)
            if parked is not None:
                await self._parker.end(parked)
                continue
            folder = self.context.snapshots_folder / kept.job
            try:
                await self.context.images.discard(folder, kept.attempt, kept.task, kept.sha256)
            except (OSError, BadImage) as problem:
                self._log.warning("a snapshot could not be removed", job=kept.job, attempt=kept.attempt, reason=str(problem))

    async def launched(self, job: str) -> None:
        """Wait until the tasks of this job that were ordered to start have been started."""
        await self._starter.launched(job)

    async def _start_encrypted(self, command: EncryptedStartTask, evidence: dict[str, Any] | None) -> None:
        """A command encrypted for other keys than this node's is refused; admission repeats it for the keys that it knows."""
        credentials = self.context.credentials
        try:
            if credentials is None:
                raise CannotDecrypt("this agent has no credentials (BAILIFF_CREDENTIALS)")
            start = decrypt_start(command, self.context.node.pool, credentials.decryption_key)
        except CannotDecrypt as error:
            self._count_refused(command, InvalidMessage("cannot-decrypt", f"{command.job}: {error}"))
            return
        await self.obey(start, evidence)

    def _is_beyond_log(self, command: JobCommand) -> bool:
        """Refuses a command that names a record that admission cannot have written: the fence would keep later ones away.

        Admission fences every node before the first decision of an epoch.
        """
        at, epoch = command.ordered_by, self.context.fences.admission_epoch
        if at.epoch <= epoch and at.seq <= self._log_end + MOST_AHEAD:
            return False
        named = f"{command.job}: it names #{at.seq} of epoch {at.epoch}"
        text = f"{named}; admission's epoch is {epoch}, its log ends at #{self._log_end}"
        self._count_refused(command, InvalidMessage("beyond-log", text))
        return True

    def _request_lease(self) -> None:
        """The fence that answers an inventory was lost: send the inventory again. Starts that were missed are repeated."""
        if self._clock_and_ids.boot() - self._announced_at > FENCE_TIMEOUT:
            self._log.warning("no start is carried out before the node's lease is known: sending the inventory again")
            self.announce()

    def _fence_for_another(self, fence: Fence, evidence: dict[str, Any] | None) -> None:
        """After this incarnation has joined, a fence for another one means that the pool obeys that one only.

        Unless it is for an earlier one of this agent: then the log was truncated, and has lost that this one joined.
        """
        if self._joined and self.context.fences.admission_epoch_ok(fence.sender_epoch, evidence):
            if fence.incarnation in self.context.incarnation.earlier:
                self._log.warning("the log has lost that this agent joined: joining again")
                self.announce()
                return
            self._joined = False
            self._log.error("another agent has joined under this node's name: stopping its tasks. Give one of them another name")
            self._evictions.evict_all(0, SUPERSEDED)

    def _refuse(self, command: CommandBody) -> None:
        self._metrics.commands_fenced.labels(self.context.node.pool, type(command).__name__).inc()
        self._log.warning("an outdated command was refused", type=type(command).__name__)

    def _verdicts(
        self, command: JobCommand, tasks: Mapping[int, tuple[str, ...]], evidence: dict[str, Any] | None
    ) -> dict[int, Verdict]:
        """By task; tasks: each with the devices that the command gives it as a whole."""
        position = (command.ordered_by.epoch, command.ordered_by.seq)
        verdicts = self.context.fences.obey(command.job, command.attempt, tasks, position, evidence)
        if "stale" in verdicts.values():
            devices = [device for each in tasks.values() for device in each]
            if self.context.fences.all_before(command.sender_epoch, command.job, devices):
                return dict.fromkeys(tasks, "same")  # a truncated log lost the newer commands: reply with the present state
            self._refuse(command)
        return verdicts
