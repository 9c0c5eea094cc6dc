"""Reactions to single committed records: fences, inventory requests, alarms. Not retried; recipients can request them."""

from collections.abc import Callable, Iterable, Sequence

from bailiff_bus.messages.commands import AttachTask, RecordRef, SendInventory
from bailiff_bus.messages.reports import NodeHeartbeat
from bailiff_bus.port import Bus
from bailiff_core.explain.open_job_limits import NEAR_PERCENT
from bailiff_core.humanize import count_text, user_text
from bailiff_core.model.state import Node, PoolState
from bailiff_core.records import Record, facts
from bailiff_core.records.wire import time_text
from bailiff_service.clock_and_ids import ClockAndIds

from .agent_values import AgentValues
from .ended_snapshots import EndedSnapshots
from .fencing import Fencing
from .job_specs import JobSpecs
from .pending_commands import RESEND_AFTER
from .poison_inputs import PoisonInputs
from .publisher import Publisher
from .rates import NearestRate
from .reconciler import Reconciler

ATTACH_WITHIN = LIMITED_ALARM_EVERY = 60_000_000
RATES_EVERY = 5_000_000
UNREADABLE = "unreadable sources"
MAX_NAMED = 20


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
        self._requested_at = AgentValues[int]()
        self._troubles = AgentValues[tuple[int, int]]()
        self._limited_at: dict[bool, int] = {}
        self._near_at: dict[str, int] = {}
        self._ended_snapshots = EndedSnapshots()
        self._rates_at = clock_and_ids.boot()

    async def react(self, state: PoolState, records: Sequence[Record]) -> None:
        """React to these committed records."""
        for record in records:
            alarm = alarm_of(state, record)
            if alarm is not None:
                await self._publisher.alarm(*alarm, record.seq)
            match record.data:
                case facts.NodeJoined(node=node, incarnation=incarnation):
                    self._fencing.observe(node, incarnation)
                    fence = self._fencing.of(state, node)
                    if fence is not None:
                        await self._publisher.command(fence)
                case facts.PolicyApplied() | facts.KeyRevoked() | facts.RootKeyChanged():
                    await self.fence_all(state)  # fences carry the lease, revoked keys and changes of the root key
                case facts.DecisionFailed(job=job):
                    self._poison_inputs.jobs.pop(job, None)
                case facts.InputRejected(code="too-many-requests" | "too-many-jobs") as limited:
                    await self._report_limited(limited, record.seq)
                case facts.InputsLost():
                    await self.request_inventories(state)
                case facts.AttachGranted() as granted:
                    await self._attach(state, granted, record)
                case facts.JobSpecGranted() as granted:
                    await self._copy_spec(state, granted, record.seq)
                case facts.DeviceClearRequested():
                    self._reconciler.resend_clears()
            for command in self._ended_snapshots.observe(state, record):
                await self._publisher.command(command)

    async def fence_all(self, state: PoolState) -> None:
        """Send fences to all nodes; afterwards agents refuse commands of earlier epochs."""
        self._ended_snapshots.begin(state)
        fences = [self._publisher.prepare(fence) for fence in self._fencing.all(state)]
        for batch in await self._publisher.commands(fences):
            await batch.first

    async def request_inventories(self, state: PoolState) -> None:
        """Request the inventory of every node."""
        for node in state.nodes.values():
            await self.request_inventory(state, node.name, node.incarnation)

    async def request_inventory(self, state: PoolState, node: str, incarnation: str) -> None:
        """Rate limited: a gap shows in every report until the inventory arrives."""
        boot, last = self._clock_and_ids.boot(), self._requested_at.get(node, incarnation)
        if last is not None and boot - last < RESEND_AFTER:
            return
        self._requested_at.put(state, node, incarnation, boot)
        await self._publisher.command(
            SendInventory(node=node, incarnation=incarnation, sender="admission", sender_epoch=state.epoch)
        )

    async def _attach(self, state: PoolState, granted: facts.AttachGranted, record: Record) -> None:
        """Send the grant to the task's agent. A client that gets no answer asks again."""
        node = state.nodes[state.node_numbers[granted.node]]
        command = AttachTask(
            node=node.name,
            incarnation=node.incarnation,
            sender="admission",
            sender_epoch=state.epoch,
            ordered_by=RecordRef(epoch=record.epoch, seq=record.seq),
            job=granted.job,
            attempt=granted.attempt,
            task=granted.task,
            client_certificate=granted.client_certificate,
            valid_for=ATTACH_WITHIN,
            requester=user_text(record.actor, record.actor_verified),
            port=granted.port,
            shell=granted.shell,
        )
        await self._publisher.command(command)

    async def _copy_spec(self, state: PoolState, granted: facts.JobSpecGranted, seq: int) -> None:
        await self._specs.take_erasures(self._bus, state)
        job = state.jobs.get(granted.job)
        digest = job.spec_digest if job is not None else ""
        await self._publisher.spec_copy(self._specs.copy(granted.job, digest, seq, granted.encryption_key))

    async def report_silence(self, silent: Sequence[tuple[Node, int]], now: int) -> None:
        """Raise one alarm: which nodes have fallen silent, since when, and what to look at. now: the broker's, µs."""
        if not silent:
            return
        each = [
            f"{node.name} since {time_text(now - duration)[:19]}, with {count_text(node.allocated.slots, 'task')}"
            for node, duration in silent[:MAX_NAMED]
        ]
        more = f" and {len(silent) - MAX_NAMED} more" if len(silent) > MAX_NAMED else ""
        text = (
            f"{count_text(len(silent), 'node')} sent no report for a minute: {'; '.join(each)}{more}. "
            "Is the machine up, does its agent run, does it reach Kafka?"
        )
        await self._publisher.alarm("critical", "node-silent", text)

    async def _report_limited(self, limited: facts.InputRejected, seq: int) -> None:
        """Raise an alarm that requests are above the limits, at most once a minute for proven senders, and for others."""
        boot, proven = self._clock_and_ids.boot(), limited.sender is not None
        if boot - self._limited_at.get(proven, -LIMITED_ALARM_EVERY) < LIMITED_ALARM_EVERY:
            return
        self._limited_at[proven] = boot
        who = limited.sender or user_text(limited.source or UNREADABLE, verified=False)
        await self._publisher.alarm("warning", "requests-limited", f"{who}: {limited.code}: {limited.reason}", seq)

    async def report_near_rates(self, nearest: Callable[[], Iterable[NearestRate]]) -> None:
        """Raise an alarm about whoever is nearest to a limit of its rates, at most once a minute for each kind.

        nearest: looked at every five seconds.
        """
        boot = self._clock_and_ids.boot()
        if boot - self._rates_at < RATES_EVERY:
            return
        self._rates_at = boot
        for rate in nearest():
            if rate.percent < NEAR_PERCENT or boot - self._near_at.get(rate.of, -LIMITED_ALARM_EVERY) < LIMITED_ALARM_EVERY:
                continue
            self._near_at[rate.of] = boot
            about = f"{rate.of} {rate.name}".rstrip()
            await self._publisher.alarm("warning", "requests-near-limit", _near_text(rate), about=about)

    async def report_troubles(self, state: PoolState, heartbeat: NodeHeartbeat) -> None:
        """Raise an alarm when an agent has refused more commands than before, which somebody sends without the right key, or
        could not remove more of what jobs have left.
        """
        node, refused, left = heartbeat.node, heartbeat.refused_commands, heartbeat.left_folders
        refused_before, left_before = self._troubles.get(node, heartbeat.incarnation) or (0, 0)
        if refused > refused_before:
            text = f"{node} has refused {refused} commands since its agent started, the newest: {heartbeat.refusal}"
            await self._publisher.alarm("critical", "commands-refused", text)
        if left > left_before:
            text = f"{node} cannot remove what {count_text(left, 'task')} left, such as {heartbeat.left_example}"
            await self._publisher.alarm("warning", "files-left", text)
        self._troubles.put(state, node, heartbeat.incarnation, (refused, left))


def _near_text(rate: NearestRate) -> str:
    then = "requests wait" if rate.of == "pool" else "requests are rejected"
    who = {
        "pool": "the pool",
        "project": f"project {rate.name}",
        "source": user_text(rate.name or UNREADABLE, verified=False),
        "user": rate.name,
    }[rate.of]
    return f"{who} is at {rate.percent} % of {rate.field}; above it, {then}"


def alarm_of(state: PoolState, record: Record) -> tuple[str, str, str] | None:
    """Severity, code and text of the alarm that this record raises."""
    match record.data:
        case facts.NodesSilent(nodes=nodes):
            text = f"{len(nodes)} nodes became silent at once: {', '.join(nodes[:MAX_NAMED])}. None is declared lost"
            return "critical", "nodes-silent", text
        case facts.DecisionFailed(job=job, error=error):
            return "critical", "decision-failed", f"{job} is suspended: {error}"
        case facts.InputsLost(topic=topic, partition=partition, from_offset=begin, to_offset=end) if end < begin:
            text = f"{topic}/{partition} was cut or made anew: it is read from offset {end}, no longer from {begin}"
            return "critical", "inputs-lost", text
        case facts.InputsLost() as gone:
            text = f"{gone.topic}/{gone.partition}: offsets {gone.from_offset} to {gone.to_offset} were deleted unread"
            return "critical", "inputs-lost", text
        case facts.DeviceQuarantined(node=node, device=device, reason=reason, detail=detail):
            return "warning", "device-quarantined", f"{device} of {node} is quarantined ({reason}): {detail}"
        case facts.DeviceUnhealthy(node=node, device=device, reason=reason, detail=detail):
            return "critical", "device-unhealthy", f"{device} of {node} is unhealthy ({reason}): {detail}"
        case facts.EvictionStageReached(stage="noticed") as noticed if not _is_ordered(state, noticed):
            text = (
                f"{noticed.job}/{noticed.task} on {noticed.node} got an eviction notice that no record orders: its node "
                "stopped it by itself, as when its lease expires, or somebody has the executor's key"
            )
            return "warning", "eviction-not-ordered", text
    return None


def _is_ordered(state: PoolState, noticed: facts.EvictionStageReached) -> bool:
    """Whether the log evicts this task, or has nothing on it any more."""
    job = state.jobs.get(noticed.job)
    task = job.task(noticed.task) if job is not None and job.attempt == noticed.attempt else None
    return job is None or task is None or job.eviction is not None or task.eviction is not None
