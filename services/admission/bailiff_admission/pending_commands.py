"""Pending commands to nodes: starts of placed tasks and clearances of devices that no agent has confirmed.

Sent again until the log shows the effect, with exponential back-off (2 to 16 s), so that a slow agent gets few repeats. While
this writer is behind on its inputs, which may contain the confirmation, it waits for the longest interval.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bailiff_bus.messages.commands import EncryptedStartTask, RecordRef, SnapshotRef, StartTask, TaskAssignment
from bailiff_bus.messages.devices import ClearDevice
from bailiff_core.model.grace import grace_of
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.snapshots import checkpointing, restored_by
from bailiff_core.model.state import Job, Node, PoolState, StoredSnapshot, Task
from bailiff_log.start_encryption import encrypt_start
from bailiff_service.clock_and_ids import ClockAndIds

RESEND_AFTER, MAX_RESEND_AFTER = 2_000_000, 16_000_000

StartKey = tuple[str, int, str, int]


@dataclass(slots=True)
class PendingStarts:
    """Last send time and back-off, µs, of each pending start (job, attempt, incarnation of the agent, seq of its order)."""

    clock_and_ids: ClockAndIds
    _sent: dict[StartKey, tuple[int, int]] = field(default_factory=dict)

    def due(self, state: PoolState, behind: bool = False) -> Iterator[tuple[Job, Node, list[Task]]]:
        """Starts to send now: new ones, and those without effect after their back-off. Each one yielded counts as sent.

        behind: there are unread inputs.
        """
        boot = self.clock_and_ids.boot()
        pending: dict[StartKey, tuple[int, int]] = {}
        for name in state.starting:
            job = state.jobs[name]
            orders: dict[tuple[int, int], list[Task]] = {}
            for task in job.tasks:
                if task.state == "starting" and task.eviction is None:
                    orders.setdefault((task.start_seq or 0, task.node), []).append(task)
            for (seq, number), tasks in sorted(orders.items(), key=lambda order: order[0]):
                node = state.nodes[number]
                key = (job.id, job.attempt, node.incarnation, seq)
                before = self._sent.get(key)
                if before is None:
                    pending[key] = boot, RESEND_AFTER
                else:
                    at, pause = before
                    if boot - at < (MAX_RESEND_AFTER if behind else pause):
                        pending[key] = before
                        continue
                    pending[key] = boot, min(2 * pause, MAX_RESEND_AFTER)
                yield job, node, tasks
        self._sent = pending


def pending_clears(state: PoolState) -> Iterator[ClearDevice]:
    """A command for each device with a requested clearance that its agent has not confirmed; none for lost nodes."""
    for node in state.nodes.values():
        for device in node.devices if node.state != "lost" else ():
            if device.clear_seq is not None:
                yield ClearDevice(
                    node=node.name,
                    incarnation=node.incarnation,
                    sender="admission",
                    sender_epoch=state.epoch,
                    device=device.id,
                    requested_by=device.clear_seq,
                )


def start_command(state: PoolState, job: Job, node: Node, tasks: list[Task], spec: JobSpec) -> StartTask:
    """The command that starts these tasks, ordered by one record, on this node.

    Ranks number the members placed now, by index. Running members are not notified of new ones: an elastic launcher
    re-rendezvouses at the master.
    """
    members = [task for task in job.tasks if task.state != "reserved" and task.eviction is None]
    numbers = list(dict.fromkeys(task.node for task in members))
    ranks = {task.index: rank for rank, task in enumerate(members)}
    local = [task.index for task in members if task.node == node.number]
    start_seq = tasks[0].start_seq or state.seq
    return StartTask(
        node=node.name,
        incarnation=node.incarnation,
        sender="admission",
        sender_epoch=state.epoch,
        ordered_by=RecordRef(epoch=state.epoch_of(start_seq), seq=start_seq),
        job=job.id,
        attempt=job.attempt,
        tasks=tuple(_task_at(job, node, task, ranks[task.index], local.index(task.index)) for task in tasks),
        spec=spec,
        grace=grace_of(state, job),
        node_rank=numbers.index(node.number),
        nodes=len(numbers),
        world_size=len(members),
        local_world_size=len(local),
        master_node=state.nodes[numbers[0]].name,
        user=job.user,
        checkpoint=checkpointing(state.rules, job),
    )


def for_node_alone(state: PoolState, command: StartTask) -> StartTask | EncryptedStartTask | None:
    """The command as it is sent: in a pool with a root key encrypted. None: the node is lost, or not enrolled."""
    if state.nodes[state.node_numbers[command.node]].state == "lost":
        return None
    if not state.root_key:
        return command
    node = state.enrolled.get(command.node)
    return encrypt_start(command, state.pool, node.encryption_key) if node is not None else None


def _task_at(job: Job, node: Node, task: Task, rank: int, local_rank: int) -> TaskAssignment:
    group, found = job.group(task.index), restored_by(job, task)
    return TaskAssignment(
        task=task.index,
        devices=tuple(node.devices[number].id for number in bits(task.devices)),
        gpu_share_milli=group.gpu_share_milli,
        gpu_share_bytes=group.gpu_share_bytes,
        cpu_milli=group.cpu_milli,
        memory_bytes=group.memory_bytes,
        rank=rank,
        local_rank=local_rank,
        restore=None if found is None else _snapshot(*found),
    )


def _snapshot(attempt: int, kept: StoredSnapshot) -> SnapshotRef:
    return SnapshotRef(attempt=attempt, driver=kept.driver, sha256=kept.sha256, bytes=kept.bytes)
