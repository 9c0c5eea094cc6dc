"""Expected roll-up: an independent count of the log's records.

`recount` uses neither fold nor windows: it lists events with their times and sums them at the end.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tests.kits.log_builder import MINUTE, SECOND, Story

from bailiff_core.model.placement_ranges import numbers
from bailiff_core.records import ChainHead, Record, Wire, decisions, decode, facts
from bailiff_core.victims.batch import select_batch
from bailiff_log.writer import chain_records

LENGTHS = {"1m": 60_000_000, "1h": 3_600_000_000, "1d": 86_400_000_000}


@dataclass
class Recount:
    """Times (µs) of events. spells: (from, to, thousandths of GPUs) allocated to an attempt's tasks."""

    evictions: list[tuple[int, str, str]] = field(default_factory=list)
    lost: list[tuple[int, str, int]] = field(default_factory=list)
    submitted: list[tuple[int, str]] = field(default_factory=list)
    first_waits: list[tuple[int, str, int]] = field(default_factory=list)
    spells: list[tuple[int, int, int]] = field(default_factory=list)
    end: int = 0

    def evictions_by(self, begin: int = 0, end: int = 1 << 60) -> Counter[tuple[str, str]]:
        """Evictions decided within these times."""
        return Counter((action, rule) for at, action, rule in self.evictions if begin <= at < end)

    def lost_by(self, begin: int = 0, end: int = 1 << 60) -> dict[str, int]:
        """GPU-ms of work lost and restarts within these times, by cause."""
        found: Counter[str] = Counter()
        for at, cause, amount in self.lost:
            found[cause] += amount if begin <= at < end else 0
        return {cause: amount for cause, amount in found.items() if amount}

    def submitted_by(self, begin: int = 0, end: int = 1 << 60) -> Counter[str]:
        """Jobs submitted within these times, by class."""
        return Counter(name for at, name in self.submitted if begin <= at < end)

    def started_by(self, begin: int = 0, end: int = 1 << 60) -> Counter[str]:
        """First starts within these times, by class."""
        return Counter(name for at, name, _ in self.first_waits if begin <= at < end)

    def used(self, begin: int = 0, end: int = 1 << 60) -> int:
        """Thousandths of GPUs times µs allocated within these times."""
        return sum(max(0, min(until, end) - max(since, begin)) * milli for since, until, milli in self.spells)


def recount(wires: Iterable[Wire]) -> Recount:
    """Count a log whose jobs use whole GPUs and belong to no project."""
    found, default = Recount(), ""
    sizes: dict[str, int] = {}  # thousandths of GPUs per task
    classes: dict[str, str] = {}
    asked_at: dict[str, int] = {}
    waiting: dict[str, set[int]] = {}  # tasks of a job's attempt that do not run yet, until the job has run once
    reserved: dict[str, list[int]] = defaultdict(list)
    holds: dict[tuple[str, int], int] = {}  # time since which a task has its GPUs

    def take(at: int, job: str, tasks: list[int]) -> None:
        for task in tasks:
            holds[job, task] = at

    def give_back(at: int, job: str, tasks: Iterable[int]) -> None:
        for task in tasks:
            since = holds.pop((job, task), None)
            if since is not None:
                found.spells.append((since, at, sizes[job]))

    for wire in wires:
        record = decode(wire)
        at, data = record.time, record.data
        found.end = at
        match data:
            case facts.PolicyApplied():
                default = next(entry.name for entry in data.policy.priority_classes if entry.global_default)
            case facts.JobSubmitted():
                job, group = data.demand.job, data.demand.tasks[0]
                sizes[job], classes[job], asked_at[job] = group.gpu_milli, data.demand.priority_class or default, at
                waiting[job] = set(range(group.count))
                found.submitted.append((at, classes[job]))
            case decisions.JobPlaced() | decisions.PreemptionDecided():
                job = data.job if isinstance(data, decisions.JobPlaced) else data.preemptor.job
                tasks = [task for share in data.placement for task in numbers(share.tasks)]
                if isinstance(data, decisions.PreemptionDecided):
                    reserved[job] = tasks
                    found.evictions += [(at, data.action, RIGHTS[data.action]) for victim in data.victims if not victim.reserved]
                elif data.reserved:
                    reserved[job] = tasks
                else:
                    take(at, job, tasks)
            case decisions.JobStarting():
                take(at, data.job, reserved.pop(data.job))
            case decisions.EvictionDecided():
                found.evictions.append((at, "evict", data.cause))
            case facts.TaskStarted():
                left = waiting.get(data.job)
                if left is not None:
                    left.discard(data.task)
                    if not left:
                        found.first_waits.append((at, classes[data.job], at - asked_at[data.job]))
                        del waiting[data.job]
            case facts.TaskReleased():
                give_back(at, data.job, [data.task])
            case decisions.JobRequeued():
                cause = data.cause if data.outcome.startswith("preempted") else data.outcome
                found.lost.append((at, cause, data.lost_gpu_ms))
            case _:
                pass
    for job, task in list(holds):
        give_back(found.end, job, [task])
    return found


def busy_log(rounds: int) -> list[Wire]:
    """A day of a small pool: in each round of twenty minutes two jobs train, an urgent one preempts them, and they resume.

    About 38 records per round.
    """
    story = Story(pool="pool-a")
    story.node("n1", gpus=8)
    for number in range(rounds):
        first, second, urgent = f"train-{number}-a", f"train-{number}-b", f"urgent-{number}"
        story.submit(first, gpus=2, tasks=2, cls="train")
        story.submit(second, gpus=4, cls="train", after=5 * SECOND)
        story.started(first, after=SECOND)
        story.started(second, after=3 * SECOND)
        story.submit(urgent, gpus=8, cls="inference", after=(4 + number % 3) * MINUTE)
        assert story.state.selection is not None
        proposals = select_batch(story.state, story.state.selection.requests, story.state.rules.preemption.search_steps)
        story.propose(proposals=proposals, after=SECOND)
        story.yields(first, after=20 * SECOND)
        story.yields(second, after=15 * SECOND)
        story.started(urgent, after=2 * SECOND)
        story.ends(urgent, after=3 * MINUTE)
        for job in (first, second):
            story.started(job, after=SECOND)
            story.ends(job, after=2 * MINUTE)
        story.time += 7 * MINUTE
    return story.wires


RIGHTS = {"preempt": "priority", "reclaim": "quota", "consolidate": "compaction"}


def of_domain(wires: Iterable[Wire], pool: str, partition: int) -> list[Wire]:
    """The same story as the log of another pool."""
    records: list[Record] = []
    for wire in wires:
        record = replace(decode(wire), pool=pool)
        if isinstance(record.data, facts.PoolCreated):
            record.data = record.data.model_copy(update={"pool": pool, "partition": partition})
        records.append(record)
    return [wire for _, wire, _ in chain_records(ChainHead(pool), records)]
