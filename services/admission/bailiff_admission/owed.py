"""What the state owes to nodes: a start for every placed gang that no agent has confirmed. Re-sent until the log shows it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bailiff_bus.ambient import Ambient
from bailiff_bus.messages import JobSpec, StartTask, TaskAt
from bailiff_bus.messages.commands import Order
from bailiff_core.lifecycle.attempts import grace_of
from bailiff_core.model.places import bits
from bailiff_core.model.pool import Job, Node, Pool, Task

AGAIN_AFTER = 2_000_000

Owed = tuple[str, int, int]


@dataclass(slots=True)
class OwedStarts:
    """When each start (job, attempt, node number) was last sent, µs of boot time."""

    ambient: Ambient
    _sent: dict[Owed, int] = field(default_factory=dict)

    def due(self, pool: Pool) -> Iterator[tuple[Job, Node, list[Task]]]:
        """Starts never sent, or sent a while ago without an effect. Each one yielded counts as sent."""
        boot = self.ambient.boot()
        owed: dict[Owed, int] = {}
        for name in pool.starting:
            job = pool.jobs[name]
            by_node: dict[int, list[Task]] = {}
            for task in job.tasks:
                if task.state == "starting":
                    by_node.setdefault(task.node, []).append(task)
            for number, tasks in by_node.items():
                key = (job.id, job.attempt, number)
                last = self._sent.get(key)
                owed[key] = boot if last is None or boot - last >= AGAIN_AFTER else last
                if owed[key] != last:
                    yield job, pool.nodes[number], tasks
        self._sent = owed


def start_command(pool: Pool, job: Job, node: Node, tasks: list[Task], spec: JobSpec) -> StartTask:
    """The command that starts these tasks of the gang on this node."""
    numbers = list(dict.fromkeys(task.node for task in job.tasks))
    groups = job.groups()
    local = [task for task in job.tasks if task.node == node.number]
    start_seq = job.start_seq if job.start_seq is not None else pool.seq
    return StartTask(
        node=node.name,
        incarnation=node.incarnation,
        sender="admission",
        sender_epoch=pool.epoch,
        order=Order(epoch=pool.epoch_of(start_seq), seq=start_seq),
        job=job.id,
        attempt=job.attempt,
        tasks=tuple(
            TaskAt(
                task=task.index,
                devices=tuple(node.devices[number].id for number in bits(task.devices)),
                cpu_milli=groups[task.index].cpu_milli,
                memory_bytes=groups[task.index].memory_bytes,
                rank=task.index,
                local_rank=local.index(task),
            )
            for task in tasks
        ),
        spec=spec,
        grace=grace_of(pool, job),
        node_rank=numbers.index(node.number),
        nodes=len(numbers),
        world_size=len(job.tasks),
        local_world_size=len(local),
        master_node=pool.nodes[numbers[0]].name,
    )
