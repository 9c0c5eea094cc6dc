"""What the state owes to nodes: a start for every placed task that no agent has confirmed, and devices to be taken back into use.

Re-sent until the log shows it.
Each time after twice as long as the time before: an agent that is behind would otherwise be sent what it has not come to yet.
While this writer itself is behind the answer may be among what it has not read, so it waits as long as it may.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bailiff_bus.ambient import Ambient
from bailiff_bus.messages import ClearDevice, JobSpec, StartTask, TaskAt
from bailiff_bus.messages.commands import Order
from bailiff_core.lifecycle.attempts import grace_of
from bailiff_core.model.places import bits
from bailiff_core.model.pool import Job, Node, Pool, Task

AGAIN_AFTER, AGAIN_AT_THE_LATEST_AFTER = 2_000_000, 16_000_000

Owed = tuple[str, int, str, int]


@dataclass(slots=True)
class OwedStarts:
    """When a start (job, attempt, the agent's incarnation, seq that ordered it) was sent last, and how long to wait then, µs."""

    ambient: Ambient
    _sent: dict[Owed, tuple[int, int]] = field(default_factory=dict)

    def due(self, pool: Pool, behind: bool = False) -> Iterator[tuple[Job, Node, list[Task]]]:
        """Starts never sent, or sent a while ago without an effect. Each one yielded counts as sent.

        behind: there are inputs that were not read yet.
        """
        boot = self.ambient.boot()
        owed: dict[Owed, tuple[int, int]] = {}
        for name in pool.starting:
            job = pool.jobs[name]
            orders: dict[tuple[int, int], list[Task]] = {}
            for task in job.tasks:
                if task.state == "starting" and task.eviction is None:
                    orders.setdefault((task.start_seq or 0, task.node), []).append(task)
            for (seq, number), tasks in sorted(orders.items(), key=lambda order: order[0]):
                node = pool.nodes[number]
                key = (job.id, job.attempt, node.incarnation, seq)
                before = self._sent.get(key)
                if before is None:
                    owed[key] = boot, AGAIN_AFTER
                else:
                    at, pause = before
                    if boot - at < (AGAIN_AT_THE_LATEST_AFTER if behind else pause):
                        owed[key] = before
                        continue
                    owed[key] = boot, min(2 * pause, AGAIN_AT_THE_LATEST_AFTER)
                yield job, node, tasks
        self._sent = owed


def owed_clears(pool: Pool) -> Iterator[ClearDevice]:
    """A command for each device that somebody wants back and whose agent has not answered."""
    for node in pool.nodes.values():
        for device in node.devices:
            if device.clear_seq is not None:
                yield ClearDevice(
                    node=node.name,
                    incarnation=node.incarnation,
                    sender="admission",
                    sender_epoch=pool.epoch,
                    device=device.id,
                    asked=device.clear_seq,
                )


def start_command(pool: Pool, job: Job, node: Node, tasks: list[Task], spec: JobSpec) -> StartTask:
    """The command that starts these tasks, which one record ordered, on this node.

    Ranks count the members that have a place now, by index. Members that run already are not told of new ones: what
    they do about it is between them (an elastic launcher meets again at the master).
    """
    members = [task for task in job.tasks if task.state != "reserved" and task.eviction is None]
    numbers = list(dict.fromkeys(task.node for task in members))
    ranks = {task.index: rank for rank, task in enumerate(members)}
    local = [task.index for task in members if task.node == node.number]
    start_seq = tasks[0].start_seq or pool.seq
    return StartTask(
        node=node.name,
        incarnation=node.incarnation,
        sender="admission",
        sender_epoch=pool.epoch,
        order=Order(epoch=pool.epoch_of(start_seq), seq=start_seq),
        job=job.id,
        attempt=job.attempt,
        tasks=tuple(_task_at(job, node, task, ranks[task.index], local.index(task.index)) for task in tasks),
        spec=spec,
        grace=grace_of(pool, job),
        node_rank=numbers.index(node.number),
        nodes=len(numbers),
        world_size=len(members),
        local_world_size=len(local),
        master_node=pool.nodes[numbers[0]].name,
        user=job.user,
    )


def _task_at(job: Job, node: Node, task: Task, rank: int, local_rank: int) -> TaskAt:
    group = job.group(task.index)
    return TaskAt(
        task=task.index,
        devices=tuple(node.devices[number].id for number in bits(task.devices)),
        gpu_share_milli=group.gpu_share_milli,
        gpu_share_bytes=group.gpu_share_bytes,
        cpu_milli=group.cpu_milli,
        memory_bytes=group.memory_bytes,
        rank=rank,
        local_rank=local_rank,
    )
