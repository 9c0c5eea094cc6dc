"""Candidates for eviction: each active job as a chain of steps, and which rules protect the others.

A surplus task can be evicted while its job continues; the core only with all surplus tasks. So each job is a chain of
eviction steps, and a victim set contains a prefix of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bailiff_core.fold.failed_starts import spared
from bailiff_core.fold.open_jobs import user_key
from bailiff_core.model.grace import grace_of
from bailiff_core.model.policy import Action
from bailiff_core.model.proposal import Excluded
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.model.units import Unit, allocated_tasks, evictable_units, restarts_to_shrink
from bailiff_core.placement.equivalence_classes import EquivalenceClass, class_of
from bailiff_core.protections import Shields, already_evicting, no_counter_reclaim, payback, quota_shields, reserved
from bailiff_core.queue.head import backfilled_victims
from bailiff_core.scheduling_snapshot import SchedulingSnapshot

from .objective import NO_COST, RESERVATION_COST, CostScale, EvictionCost, Fragmentation, Uses, node_uses, started_cost


@dataclass(slots=True, eq=False)
class EvictionStep:
    """One unit that may be evicted, after the step `before` it of the same job.

    Attributes:
        cost: Cost of this step alone.
        weight: Weight of this step alone, without fragmentation, which depends on the whole set.
        age_key: Sort key, youngest job first.
        whole: The last step of the job, with which the whole job is evicted.
        uses: Devices that its tasks use, by node.
    """

    job: Job
    unit: Unit
    before: "EvictionStep | None"
    cost: EvictionCost
    weight: int
    age_key: tuple[int, str, int]
    whole: bool
    under_share: int = 0
    uses: Uses = ()


EvictionChain = list[EvictionStep]
MAX_EXAMPLES = 5
SHORTLIST_COST = 4  # one job of a shortlist costs as much as this many jobs in a full scan
SHORTLIST_JOBS = 75  # expected jobs in the shortlist of each further preemptor of a batch


@dataclass(slots=True)
class Candidates:
    """Eviction chains by job id, oldest first, and units excluded by rule.

    Attributes:
        groups: Counts over all active jobs, if `chains` and `excluded` cover only some of them.
        named: Per rule how many units it excluded when its jobs were counted, and the count.
    """

    chains: dict[str, EvictionChain] = field(default_factory=dict)
    excluded: dict[str, list[Unit]] = field(default_factory=dict)
    groups: "CandidateGroups | None" = None
    named: dict[str, tuple[int, Excluded]] = field(default_factory=dict)

    def exclude(self, rule: str, units: Iterable[Unit]) -> None:
        """Record these units as excluded by the rule."""
        self.excluded.setdefault(rule, []).extend(units)

    @property
    def count(self) -> int:
        """How many jobs may be victims."""
        return len(self.chains) if self.groups is None else self.groups.candidates

    def steps(self) -> list[EvictionStep]:
        """All steps of all chains."""
        return [step for chain in self.chains.values() for step in chain]


@dataclass(slots=True)
class CandidateGroups:
    """Counts over all active jobs: classes whose jobs may be victims, their number, and excluded jobs by rule.

    Attributes:
        exempt: Jobs that may be victims though their class may not.
        barred: Jobs that may not be victims though their class may.
    """

    evictable_classes: dict[EquivalenceClass, None] = field(default_factory=dict)
    exempt: dict[str, None] = field(default_factory=dict)
    barred: dict[str, None] = field(default_factory=dict)
    candidates: int = 0
    excluded: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    def exclude(self, rule: str, jobs: int, first: Iterable[tuple[int, str]]) -> None:
        """Record `jobs` jobs as excluded by the rule, with the `first` of them as examples."""
        if jobs > 0:
            self.excluded[rule] = self.excluded.get(rule, 0) + jobs
            self.examples[rule] = sorted([*self.examples.get(rule, ()), *first])[:MAX_EXAMPLES]


class CandidateIndex:
    """Candidates for all preemptors of one batch; cached while the requests are solved one after the other."""

    def __init__(self, snapshot: SchedulingSnapshot, preemptors: int = 1) -> None:
        self.state = snapshot.state
        self._expected_scans = SHORTLIST_JOBS * (preemptors - 1)
        self.snapshot = snapshot
        self.scale = CostScale.of(snapshot.state.rules.preemption, snapshot.allocation_index, snapshot.equivalence_classes)
        self.fragmentation = Fragmentation(snapshot.state, self.scale)
        self._jobs: list[Job] | None = None
        self._units: dict[tuple[str, bool], list[tuple[Unit, EvictionCost, Uses]]] = {}
        self._units_evicted: dict[str, int] = {}
        self._evicted_whole: dict[str, None] = {}
        self._keep_core: dict[str, None] = {}
        self._growing: dict[str, None] = {}
        self._by_preemptor: dict[tuple[object, ...], Candidates] = {}
        self._jobs_scanned: dict[tuple[object, ...], int] = {}

    def prefers_shortlist(self, action: Action, preemptor: Job, under_share: Mapping[str, bool]) -> bool:
        """Whether another shortlist is cheaper than one full scan shared by all equivalent preemptors."""
        key = _preemptor_key(self.state, action, preemptor, under_share)
        return key not in self._by_preemptor and SHORTLIST_COST * self._jobs_scanned.get(key, self._expected_scans) <= len(
            self.state.active
        )

    @property
    def jobs(self) -> list[Job]:
        """All active jobs, oldest first."""
        if self._jobs is None:
            state = self.state
            self._jobs = sorted((state.jobs[name] for name in state.active), key=lambda job: (job.seq, job.id))
        return self._jobs

    def groups(self, action: Action, preemptor: Job) -> CandidateGroups:
        """Candidates for this preemptor: by class, and job by job where rules distinguish jobs within a class."""
        shields = Shields(self.state, action, preemptor)
        classes, jobs = self.snapshot.equivalence_classes, self.state.jobs
        singled_out = shields.singled_out()
        singled_out |= dict.fromkeys(name for name in self._units_evicted if self._costs_less_now(jobs[name]))
        separate: dict[EquivalenceClass | None, dict[str, None]] = {}  # None: not active
        for name in (preemptor.id, *self._evicted_whole, *self._growing, *singled_out):
            separate.setdefault(classes.group_of(name), {})[name] = None
        found = CandidateGroups()
        for shown, names in ((already_evicting.NAME, self._units_evicted), (reserved.NAME, self._growing)):
            found.exclude(shown, len(names), ((jobs[name].seq, name) for name in names))
        for group, members in classes.groups.items():
            others = separate.get(group, {})
            count = len(members) - len(others)
            rule = shields.class_excluded_by(jobs[members[0][1]])
            if rule is None:
                found.evictable_classes[group] = None
                found.candidates += count
            else:
                found.exclude(rule, count, [age for age in members[: MAX_EXAMPLES + len(others)] if age[1] not in others])
        for name in singled_out:
            if name != preemptor.id and name not in self._evicted_whole and name not in self._growing:
                self._judge(jobs[name], shields, found)
        return found

    def _judge(self, job: Job, shields: Shields, found: CandidateGroups) -> None:
        """Count a job that its class does not speak for."""
        units = evictable_units(job)[self._units_evicted.get(job.id, 0) :]
        units = [unit for unit in units if not (unit.core and job.id in self._keep_core)]
        rules = [shields.excluded_by(unit) for unit in units]
        if not rules or rules[0] is not None:
            found.barred[job.id] = None
        else:
            found.candidates += 1
            if class_of(job) not in found.evictable_classes or self._costs_less_now(job):
                found.exempt[job.id] = None
        rule = next(filter(None, rules), None)
        if rule is not None:
            found.exclude(rule, 1, [(job.seq, job.id)])

    def _costs_less_now(self, job: Job) -> bool:
        """Whether it restarts to shrink for an earlier decision of the batch, so that more of it loses no more work."""
        return job.id in self._units_evicted and restarts_to_shrink(job)

    def candidates_among(
        self, action: Action, preemptor: Job, names: Iterable[str], groups: CandidateGroups, under_share: Mapping[str, bool]
    ) -> Candidates:
        """`candidates` restricted to these jobs."""
        jobs = [self.state.jobs[name] for name in dict.fromkeys(names)]
        key = _preemptor_key(self.state, action, preemptor, under_share)
        self._jobs_scanned[key] = self._jobs_scanned.get(key, self._expected_scans) + len(jobs)
        found = self._build(action, preemptor, under_share, sorted(jobs, key=lambda job: (job.seq, job.id)))
        found.groups = groups
        return found

    def candidates(self, action: Action, preemptor: Job, under_share: Mapping[str, bool] | None = None) -> Candidates:
        """Candidates for this preemptor. Preemptors that are equal to all rules share the result.

        Args:
            under_share: Projects whose GPUs count on level 2 of the objective; earlier preemptors of the batch may change them.
        """
        under_share = under_share or {}
        key = _preemptor_key(self.state, action, preemptor, under_share)
        if key not in self._by_preemptor:
            self._by_preemptor[key] = self._build(action, preemptor, under_share, self.jobs)
        return self._by_preemptor[key]

    def mark_decided(self, job: Job, units: int) -> None:
        """Record that a decision of this selection evicts `units` units of the job. 0: the whole job.

        Later decisions of the selection may take the rest: of a job that restarts to shrink at no further loss, as all of it
        stops once. But not the core of one that would then end: the first decision named the loss of a job that comes back.
        """
        if job.demand.on_eviction == "end":
            self._keep_core[job.id] = None
            if self._units_evicted.get(job.id, 0) + units >= len(evictable_units(job)) - 1:
                units = 0
        self.mark_evicted(job, units)

    def mark_growing(self, job: Job) -> None:
        """Record that the running job grows by an answer of this selection: it is no victim before it has grown."""
        self._growing[job.id] = None
        for found in self._by_preemptor.values():
            found.exclude(reserved.NAME, [step.unit for step in found.chains.pop(job.id, ())])

    def mark_evicted(self, job: Job, units: int) -> None:
        """Record that a proposal evicts `units` units of the job; later proposals may evict the rest. 0: the whole job."""
        count = len(evictable_units(job))
        evicted = self._units_evicted.get(job.id, 0) + units if units else max(1, count)
        self._units_evicted[job.id] = evicted
        if evicted >= count:
            self._evicted_whole[job.id] = None
        for found in self._by_preemptor.values():
            chain = found.chains.pop(job.id, None)
            if chain is None:
                continue
            found.exclude(already_evicting.NAME, [step.unit for step in chain[: units or None]])
            rest = [step for step in chain[units:] if not (step.whole and job.id in self._keep_core)] if units else []
            if rest:
                rest[0].before = None
                found.chains[job.id] = rest

    def _build(self, action: Action, preemptor: Job, under_share: Mapping[str, bool], jobs: Sequence[Job]) -> Candidates:
        found = Candidates()
        pool, scale = self.state, self.scale
        shields = Shields(pool, action, preemptor)
        short_grace = _short_grace(pool, preemptor)
        for job in jobs:
            if job.id == preemptor.id:
                continue
            steps = self._steps_of(job, moved=action == "consolidate")
            if job.id in self._growing:
                found.exclude(reserved.NAME, [unit for unit, _, _ in steps])
                continue
            evicted_count = self._units_evicted.get(job.id, 0)
            if evicted_count:
                found.exclude(already_evicting.NAME, [unit for unit, _, _ in steps[:evicted_count]])
                if action == "consolidate":
                    continue
            slow = int(short_grace is not None and job.phase != "reserved" and grace_of(pool, job) > short_grace)
            chain: EvictionChain = []
            for at in range(evicted_count, len(steps)):
                unit, cost, uses = steps[at]
                if unit.core and job.id in self._keep_core:
                    found.exclude(already_evicting.NAME, [unit])
                    break
                rule = shields.excluded_by(unit)
                if rule is not None:
                    found.exclude(rule, [unit for unit, _, _ in steps[at:]])
                    break
                under_share_gpus = cost.gpu_milli if under_share.get(job.project) else 0
                weight = scale.weight(job.priority, cost, under_share_gpus, 0 if chain else slow)
                before = chain[-1] if chain else None
                age_key = (-job.seq, job.id, at)
                chain.append(EvictionStep(job, unit, before, cost, weight, age_key, unit.core, under_share_gpus, uses))
            if chain:
                found.chains[job.id] = chain
        return found

    def _steps_of(self, job: Job, *, moved: bool) -> list[tuple[Unit, EvictionCost, Uses]]:
        """Evictable units of the job, the cost that each adds, which is never nothing, and the devices that it uses."""
        key = job.id, moved and job.demand.on_eviction == "end"
        if key not in self._units:
            steps = []
            evicted: list[Task] = []
            before = NO_COST
            of_index = {task.index: task for task in allocated_tasks(job)}
            units = evictable_units(job)
            for unit in units:
                tasks = [of_index[index] for index in unit.indices if index in of_index]
                evicted += tasks
                cost = started_cost(self.state, job, evicted, whole=unit.core, moved=moved)
                if before is NO_COST and cost is not NO_COST:
                    step_cost = cost
                else:
                    step_cost = cost.minus(before) if cost != before else RESERVATION_COST
                steps.append((unit, step_cost, node_uses(self.state, job, tasks)))
                before = cost
            self._units[key] = steps
        return self._units[key]


def _preemptor_key(state: PoolState, action: Action, preemptor: Job, under_share: Mapping[str, bool]) -> tuple[object, ...]:
    """Equal for preemptors with the same candidates, of the same cost."""
    distinct = (
        bool(preemptor.tasks)
        or no_counter_reclaim.may_be_shielded_from(state, action, preemptor)
        or bool(preemptor.victims_in_vain)
        or backfilled_victims(state, action, preemptor) is not None
    )
    return (
        action,
        preemptor.priority,
        preemptor.project,
        preemptor.class_name,
        preemptor.preemptible,
        preemptor.id if distinct else "",
        user_key(preemptor.user, preemptor.user_verified) if spared(state, preemptor) else "",
        quota_shields.exceeded(state, action, preemptor),
        payback.gained_gpu_ms(state, action, preemptor),
        *(project for project, under in under_share.items() if under),
    )


def _short_grace(state: PoolState, preemptor: Job) -> int | None:
    """Preferred grace of victims, µs, if the preemptor's class is immediate."""
    entry = state.rules.find_class(preemptor.class_name)
    return entry.immediate_grace if entry is not None and entry.immediate else None
