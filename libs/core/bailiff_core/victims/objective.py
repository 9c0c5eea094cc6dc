"""What a set of victims costs: the lexicographic objective of DESIGN §5.

Every level adds up over the units that leave, so a set costs the sum of its members' prices, level by level:

1. GPUs of victims, by priority from the highest down;
2. under reclaim, GPUs taken from projects that are over their quota and not over their fair share;
3. work lost, in GPU-ms, per job at most the policy's bound; of a job that restarts to become smaller, that of all its members;
4. jobs stopped (a job that only shrinks is not); 5. tasks stopped; then promises dropped, so that none is dropped for nothing;
6. fragmentation: nodes with GPUs that a victim leaves while others stay on them;
   then, for an asker of a class that is served at once, victims that may take longer than its short grace;
7. latest submitted, 8. id: of two sets the one with the youngest job, then the second youngest, ...

A gang that was promised room and has not started costs nothing but its promise: it is taken before all that runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bailiff_core.model.loss import held_gpu_milli, lost_gpu_ms
from bailiff_core.model.places import bits
from bailiff_core.model.policy import PreemptionRules
from bailiff_core.model.pool import Job, Node, Pool, Task
from bailiff_core.model.sharing import share_of, shares_devices
from bailiff_core.placement.alike import Alike
from bailiff_core.placement.holdings import Holdings

MOST_CLASSES = 64


@dataclass(frozen=True, slots=True, order=True)
class Price:
    """Levels 1 and 3 to 6 of what one job loses, all of it so far."""

    gpu_milli: int = 0
    lost_gpu_ms: int = 0
    jobs: int = 0
    tasks: int = 0
    promises: int = 0
    broken_nodes: int = 0

    def minus(self, other: "Price") -> "Price":
        """Level by level. Fragmentation may go below zero: who leaves a node for good leaves it whole."""
        return Price(
            self.gpu_milli - other.gpu_milli,
            self.lost_gpu_ms - other.lost_gpu_ms,
            self.jobs - other.jobs,
            self.tasks - other.tasks,
            self.promises - other.promises,
            self.broken_nodes - other.broken_nodes,
        )


FREE = Price()


def price(pool: Pool, job: Job, leaving: Sequence[Task], *, whole: bool) -> Price:
    """What it costs that these members leave. `whole`: nothing of the job stays."""
    started = _started(leaving)
    if not started:
        return Price(promises=1)
    if not any(map(shares_devices, job.demand.tasks)):
        gpu_milli = sum(job.group(task.index).gpu_milli for task in started)
    else:
        gpu_milli = held_gpu_milli(pool, job, started)
    stops = gpu_milli if whole or job.demand.elastic != "restart" else held_gpu_milli(pool, job, _started(job.tasks))
    return Price(gpu_milli, lost_gpu_ms(pool, job, stops), int(whole), len(started), 0, _nodes_left_broken(pool, job, started))


def _started(tasks: Sequence[Task]) -> list[Task]:
    return [task for task in tasks if task.state != "reserved"]


def _nodes_left_broken(pool: Pool, job: Job, leaving: Sequence[Task]) -> int:
    mine: dict[int, list[Task]] = {}
    for task in leaving:
        if task.devices:
            mine.setdefault(task.node, []).append(task)
    return sum(_stays_in_use(pool.nodes[number], job, tasks) for number, tasks in mine.items())


def _stays_in_use(node: Node, job: Job, leaving: Sequence[Task]) -> bool:
    """Whether others keep devices of the node when these leave."""
    staying = node.held.devices & ~node.releasing.devices | node.reserved.devices
    for task in leaving:
        staying &= ~task.devices
    if staying or not (node.held.shares or node.reserved.shares):
        return bool(staying)
    shares = dict(node.held.shares)
    for number, units in node.reserved.shares.items():
        shares[number] = shares.get(number, 0) + units
    for number, units in node.releasing.shares.items():
        shares[number] = shares.get(number, 0) - units
    for task in leaving:
        group = job.group(task.index)
        for number in bits(task.devices) if shares_devices(group) else ():
            shares[number] = shares.get(number, 0) - share_of(group, node.devices[number])
    return any(units > 0 for units in shares.values())


@dataclass(frozen=True, slots=True)
class Scale:
    """Levels as digits of one integer, each with a base that no sum can reach: sums compare as the objective does."""

    priorities: dict[int, int]
    of_share: int
    of_level: tuple[int, ...]

    @classmethod
    def of(cls, rules: PreemptionRules, holdings: Holdings, alike: Alike) -> "Scale":
        """A scale for any set of victims among these jobs."""
        gpus, tasks, count = holdings.gpus, holdings.tasks, len(holdings.of)
        most_lost = 1000 * gpus * (rules.max_counted_loss + rules.restart_cost) // 1_000_000 + count
        unit = 2 * tasks + 2  # below all: victims that may take longer than the asker's short grace
        of_level = []
        for most in (2 * tasks + 2, count + 1, tasks + 1, count + 1, most_lost + 1):
            of_level.append(unit)
            unit *= 2 * most + 1
        of_share = unit
        unit *= 2 * (1000 * gpus + 1) + 1
        ranks = {}
        for priority in alike.priorities():
            ranks[priority] = unit
            unit *= 2 * (1000 * gpus + 1) + 1
        return cls(ranks, of_share, tuple(of_level))

    def weight(self, priority: int, price: Price, under_share_gpu_milli: int = 0, slow: int = 0) -> int:
        """The price as one integer."""
        broken, promises, tasks, jobs, lost = self.of_level
        return (
            price.gpu_milli * self.priorities[priority]
            + under_share_gpu_milli * self.of_share
            + price.lost_gpu_ms * lost
            + price.jobs * jobs
            + price.tasks * tasks
            + price.promises * promises
            + price.broken_nodes * broken
            + slow
        )
