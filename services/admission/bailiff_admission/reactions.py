"""Reactions to single committed records: fences, inventory requests, alarms. Not retried; recipients can request them."""

from collections.abc import Sequence

from bailiff_bus.messages import AttachTask, NodeHeartbeat, SendInventory
from bailiff_bus.messages.commands import RecordRef
from bailiff_bus.port import Bus
from bailiff_core.humanize import user_text
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record
from bailiff_core.records.facts import (
    AttachGranted,
    DecisionFailed,
    DeviceClearRequested,
    DeviceQuarantined,
    DeviceUnhealthy,
    EvictionStageReached,
    InputsLost,
    JobSpecGranted,
    KeyRevoked,
    NodeJoined,
    NodesSilent,
    PolicyApplied,
    RootKeyChanged,
)
from bailiff_service.clock_and_ids import ClockAndIds

from .fencing import Fencing
from .job_specs import JobSpecs
from .pending_commands import RESEND_AFTER
from .poison_inputs import PoisonInputs
from .publisher import Publisher
from .reconciler import Reconciler

ATTACH_WITHIN = 60_000_000


class Reactions:
    """Reactions of one writer incarnation."""

    def __init__(
        self,
        publisher: Publisher,
        fencing: Fencing,
        reconciler: Reconciler,
        poison_inputs: PoisonInputs,
        clock_and_ids: ClockAndIds,
        specs: JobSpecs,
        bus: Bus,
    ) -> None:
        self._publisher, self._fencing, self._reconciler, self._poison_inputs = publisher, fencing, reconciler, poison_inputs
        self._clock_and_ids, self._specs, self._bus = clock_and_ids, specs, bus
        self._requested_at: dict[str, int] = {}
        self._refused: dict[str, int] = {}

    async def react(self, state: PoolState, records: Sequence[Record]) -> None:
        """React to these committed records."""
        for record in records:
            match record.data:
                case NodeJoined(node=node, incarnation=incarnation):
                    self._fencing.observe(node, incarnation)
                    fence = self._fencing.of(state, node)
                    if fence is not None:
                        await self._publisher.command(fence)
                case PolicyApplied() | KeyRevoked() | RootKeyChanged():
                    await self.fence_all(state)  # fences carry the lease, revoked keys and changes of the root key
                case NodesSilent(nodes=nodes):
                    text = f"{len(nodes)} nodes became silent at once: {', '.join(nodes[:20])}. None is declared lost"
                    await self._publisher.alarm("critical", "nodes-silent", text, record.seq)
                case DecisionFailed(job=job, error=error):
                    self._poison_inputs.jobs.pop(job, None)
                    await self._publisher.alarm("critical", "decision-failed", f"{job} is suspended: {error}", record.seq)
                case InputsLost() as gone:
                    text = f"{gone.topic}/{gone.partition}: offsets {gone.from_offset} to {gone.to_offset} were deleted unread"
                    await self._publisher.alarm("critical", "inputs-lost", text, record.seq)
                    await self.request_inventories(state)
                case DeviceQuarantined() as quarantined:
                    text = (
                        f"{quarantined.device} of {quarantined.node} is quarantined ({quarantined.reason}): {quarantined.detail}"
                    )
                    await self._publisher.alarm("warning", "device-quarantined", text, record.seq)
                case DeviceUnhealthy() as unhealthy:
                    text = f"{unhealthy.device} of {unhealthy.node} is unhealthy ({unhealthy.reason}): {unhealthy.detail}"
                    await self._publisher.alarm("critical", "device-unhealthy", text, record.seq)
                case EvictionStageReached(stage="noticed") as noticed if not _is_ordered(state, noticed):
                    text = (
                        f"{noticed.job}/{noticed.task} on {noticed.node} got an eviction notice that no record orders: its node "
                        "stopped it by itself, as when its lease expires, or somebody has the executor's key"
                    )
                    await self._publisher.alarm("warning", "eviction-not-ordered", text, record.seq)
                case AttachGranted() as granted:
                    await self._attach(state, granted, record)
                case JobSpecGranted() as granted:
                    await self._copy_spec(state, granted, record.seq)
                case DeviceClearRequested():
                    self._reconciler.resend_clears()

    async def fence_all(self, state: PoolState) -> None:
        """Send fences to all nodes; afterwards agents refuse commands of earlier epochs."""
        fences = [self._publisher.prepare(fence) for fence in self._fencing.all(state)]
        for batch in await self._publisher.commands(fences):
            await batch.first

    async def request_inventories(self, state: PoolState) -> None:
        """Request the inventory of every node."""
        for node in state.nodes.values():
            await self.request_inventory(state, node.name, node.incarnation)

    async def request_inventory(self, state: PoolState, node: str, incarnation: str) -> None:
        """Rate limited: a gap shows in every report until the inventory arrives."""
        boot = self._clock_and_ids.boot()
        if boot - self._requested_at.get(incarnation, -RESEND_AFTER) < RESEND_AFTER:
            return
        self._requested_at[incarnation] = boot
        await self._publisher.command(
            SendInventory(node=node, incarnation=incarnation, sender="admission", sender_epoch=state.epoch)
        )

    async def _attach(self, state: PoolState, granted: AttachGranted, record: Record) -> None:
        """Send the grant to the task's agent. A client that gets no answer asks again."""
        node = state.nodes[state.node_numbers[granted.node]]
        command = AttachTask(
            node=node.name, incarnation=node.incarnation, sender="admission", sender_epoch=state.epoch,
            ordered_by=RecordRef(epoch=record.epoch, seq=record.seq), job=granted.job, attempt=granted.attempt,
            task=granted.task, client_certificate=granted.client_certificate, valid_for=ATTACH_WITHIN,
            requester=user_text(record.actor, record.actor_verified),
            port=granted.port,
        )  # fmt: skip
        await self._publisher.command(command)

    async def _copy_spec(self, state: PoolState, granted: JobSpecGranted, seq: int) -> None:
        await self._specs.take_erasures(self._bus, state)
        job = state.jobs.get(granted.job)
        digest = job.spec_digest if job is not None else ""
        await self._publisher.spec_copy(self._specs.copy(granted.job, digest, seq, granted.encryption_key))

    async def report_refusals(self, heartbeat: NodeHeartbeat) -> None:
        """Raise an alarm when an agent has refused more commands than before: somebody sends commands without the right key."""
        node, count = heartbeat.node, heartbeat.refused_commands
        if count > self._refused.get(heartbeat.incarnation, 0):
            text = f"{node} has refused {count} commands since its agent started, the newest: {heartbeat.refusal}"
            await self._publisher.alarm("critical", "commands-refused", text)
        self._refused[heartbeat.incarnation] = count


def _is_ordered(state: PoolState, noticed: EvictionStageReached) -> bool:
    """Whether the log evicts this task, or has nothing on it any more."""
    job = state.jobs.get(noticed.job)
    task = job.task(noticed.task) if job is not None and job.attempt == noticed.attempt else None
    return job is None or task is None or job.eviction is not None or task.eviction is not None
