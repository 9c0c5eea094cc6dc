"""Baseline schedulers for comparison, which no policy expresses: same jobs, same costs, same statistics.

They see GPUs only (neither CPUs nor memory), and parts of GPUs as amounts of a machine.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from bailiff_core.model.policy import Policy, PriorityClass
from bailiff_core.records.facts import JobSubmitted

from .job_progress import FOREVER, JobProgress, gpu_milli_of
from .run_stats import JobStats, RunStats
from .workload import Workload

Key = tuple[int, ...]


@dataclass(slots=True)
class Entry:
    """One job. needs: thousandths of GPUs of each task. where: the machine of each; empty while it has none."""

    name: str
    number: int
    submitted: int
    entry: PriorityClass
    needs: list[int]
    work: JobProgress
    where: list[int]
    started: int = 0
    leaves: bool = False
    attempts: int = 0


@dataclass(frozen=True)
class Rule:
    """order: who is tried first, the smallest. blocks: nobody passes the first who does not fit. may_take: whether a waiting job
    may displace a running one; of those the largest `spares` leave first, until it fits. None: nobody is displaced.
    """

    order: Callable[[Entry, int], Key]
    blocks: bool = False
    may_take: Callable[[Entry, Entry, int], bool] | None = None
    spares: Callable[[Entry, int], Key] = lambda entry, _now: (entry.started, entry.number)


def left(entry: Entry, now: int) -> int:
    """How much work is left, as an oracle knows it."""
    return entry.work.outcome.run_time - entry.work.done_by(now)


def _lower_class(preemptor: Entry, victim: Entry, _now: int) -> bool:
    able = preemptor.entry.preemption_policy == "PreemptLowerPriority" and victim.entry.preemptible
    return able and victim.entry.value < preemptor.entry.value


RULES: dict[str, Rule] = {
    "fifo": Rule(lambda entry, _now: (entry.number,), blocks=True),
    "youngest-first": Rule(lambda entry, _now: (-entry.entry.value, entry.number), may_take=_lower_class),
    "shortest-remaining": Rule(
        lambda entry, now: (left(entry, now), entry.number),
        may_take=lambda preemptor, victim, now: left(victim, now) > left(preemptor, now),
        spares=lambda entry, now: (left(entry, now), entry.number),
    ),
}
SAID = {
    "fifo": "first come, first served; nobody passes the head of the queue",
    "priority": "Bailiff's engine by priority and age, nobody is ever displaced",
    "youngest-first": "higher classes displace lower ones, the youngest first, until there is room, as most schedulers do",
    "shortest-remaining": "an oracle: the least work left goes first and displaces the most left",
}


@dataclass
class Outcome:
    """What a baseline leaves: as a `Result`, without a log."""

    jobs: dict[str, JobStats]
    stats: RunStats
    refused: dict[str, str]
    begin: int
    end: int


class Baseline:
    """One run of a rule over a workload. Machines do not fail here. policy: whose classes the jobs are of."""

    def __init__(self, workload: Workload, policy: Policy, rule: Rule) -> None:
        self._workload, self._policy, self._rule = workload, policy, rule
        self._free = [1000 * len(node.devices) for node in workload.nodes]
        self._whole = sorted(self._free, reverse=True)
        self._waiting: list[Entry] = []
        self._running: dict[str, Entry] = {}
        self._works: dict[str, JobProgress] = {}
        self._asker = ""
        self._events: list[tuple[int, int, Entry, int]] = []
        self._order = 0
        self._now = workload.begin
        self._last = workload.begin
        self._books = RunStats()
        self._refused: dict[str, str] = {}

    def run(self, progress: Callable[[int, int], None] | None = None) -> Outcome:
        """Until every job has ended, or waits for ever."""
        happenings = self._workload.happenings
        taken = 0
        while taken < len(happenings) or self._events:
            moments = [happenings[taken].time] if taken < len(happenings) else []
            moments += [self._events[0][0]] if self._events else []
            self._now = max(self._now, min(moments))
            while self._events and self._events[0][0] <= self._now:
                _, _, entry, version = heappop(self._events)
                self._happens(entry, version)
            while taken < len(happenings) and happenings[taken].time <= self._now:
                what = happenings[taken].what
                taken += 1
                if isinstance(what, JobSubmitted):
                    self._arrives(what, taken)
            self._place()
            if progress is not None and taken % 500 == 0:
                progress(taken, len(happenings))
        for name, found in self._books.jobs.items():
            work = self._works[name]
            found.lost, found.overhead, found.work = work.lost, work.overhead, work.done_by(self._now)
        return Outcome(self._books.jobs, self._books, self._refused, self._workload.begin, self._last)

    def _arrives(self, fact: JobSubmitted, number: int) -> None:
        demand = fact.demand
        needs = [gpu_milli_of(group) for group in demand.tasks for _ in range(group.count)]
        entry = self._policy.find_class(demand.priority_class)
        assert entry is not None
        if not self._places(needs, list(self._whole)):
            self._refused[demand.job] = f"it asks for {sum(needs) // 1000} GPUs in {len(needs)} tasks, more than there are"
            return
        outcome = self._workload.outcomes.get(demand.job, FOREVER)
        work = self._works[demand.job] = JobProgress(outcome, needs)
        self._books.submitted(demand.job, self._now, demand.project or "", entry.name, entry.value, sum(needs), outcome)
        self._waiting.append(Entry(demand.job, number, self._now, entry, sorted(needs, reverse=True), work, []))

    def _happens(self, entry: Entry, version: int) -> None:
        if entry.work.version != version:
            return
        for node, need in zip(entry.where, entry.needs, strict=True):
            self._free[node] += need
        self._books.holds(entry.name, self._now, -sum(entry.needs))
        entry.where = []
        del self._running[entry.name]
        self._last = self._now
        if entry.leaves:
            entry.leaves = False
            entry.work.attempt_over(self._now)
            self._books.requeued(entry.name, self._now, "preemption", "preempted")
            self._waiting.append(entry)
        else:
            entry.work.finish(self._now)
            self._books.ended(entry.name, self._now, entry.work.outcome.end)

    def _place(self) -> None:
        """Who waits, in order: on free room, or on room that others are told to leave."""
        if not self._waiting:
            return
        failed: set[tuple[int, ...]] = set()
        self._waiting.sort(key=lambda entry: self._rule.order(entry, self._now))
        still: list[Entry] = []
        leaves = any(each.leaves for each in self._running.values())
        for at, entry in enumerate(self._waiting):
            shape = tuple(entry.needs)
            place = None if shape in failed else self._places(entry.needs, self._free)
            if place is not None:
                self._start(entry, place)
                continue
            failed.add(shape)
            if not leaves and self._rule.may_take is not None and self._preempt(entry):
                self._asker, leaves = entry.name, True
            if self._rule.blocks or (leaves and entry.name == self._asker):
                still += self._waiting[at:]
                break  # nobody passes the head, or takes what is being freed for somebody
            still.append(entry)
        self._waiting = still

    def _preempt(self, preemptor: Entry) -> bool:
        """Greedily: the first to leave until it fits; nobody, where all of them are not enough. One at a time asks."""
        assert self._rule.may_take is not None
        may_take, spares = self._rule.may_take, self._rule.spares
        able = [entry for entry in self._running.values() if may_take(preemptor, entry, self._now)]
        free = list(self._free)
        chosen: list[Entry] = []
        for victim in sorted(able, key=lambda entry: spares(entry, self._now), reverse=True):
            for node, need in zip(victim.where, victim.needs, strict=True):
                free[node] += need
            chosen.append(victim)
            if self._places(preemptor.needs, free) is not None:
                for each in chosen:
                    self._evict(each)
                return True
        return False

    def _evict(self, entry: Entry) -> None:
        work, grace = entry.work, self._grace(entry)
        work.stall(self._now)
        needs = work.outcome.save_time
        if needs is not None and needs <= grace:
            work.save()
        entry.leaves = True
        self._at(self._now + (0 if needs is None else min(needs, grace)), entry)

    def _grace(self, entry: Entry) -> int:
        return entry.entry.grace if entry.entry.grace is not None else self._policy.eviction.grace

    def _start(self, entry: Entry, place: Sequence[int]) -> None:
        entry.where, entry.started = list(place), self._now
        for node, need in zip(place, entry.needs, strict=True):
            self._free[node] -= need
        entry.attempts += 1
        entry.work.begin(self._now, entry.attempts, len(entry.needs))
        self._running[entry.name] = entry
        self._books.holds(entry.name, self._now, sum(entry.needs))
        self._books.started(entry.name, self._now)
        end = entry.work.ends_at()
        if end is not None and end < 1 << 61:
            self._at(end, entry)

    def _at(self, time: int, entry: Entry) -> None:
        self._order += 1
        heappush(self._events, (time, self._order, entry, entry.work.version))

    def _places(self, needs: Iterable[int], free: Sequence[int]) -> list[int] | None:
        """Each task where the least room is left over; None where one of them has no place."""
        room = list(free)
        found: list[int] = []
        for need in needs:
            best = -1
            for node, amount in enumerate(room):
                if amount >= need and (best < 0 or amount < room[best]):
                    best = node
                    if amount == need:
                        break
            if best < 0:
                return None
            room[best] -= need
            found.append(best)
        return found
