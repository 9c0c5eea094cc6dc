"""Who may lose what: the jobs that hold room, cut into the units that can leave one after the other.

A surplus task can go while its job stays; the core goes only with all surplus. So each job is a chain of steps: any
number of them from the first on may be taken.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bailiff_core.lifecycle.attempts import grace_of
from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, Pool, Task
from bailiff_core.model.units import Unit, allocated_tasks, victim_units, whole
from bailiff_core.placement.alike import Group
from bailiff_core.protections import Shields, already_leaving, displaced_asker
from bailiff_core.scene import Scene

from .objective import FREE, Price, Scale, price


@dataclass(slots=True, eq=False)
class Step:
    """One unit that may leave, after the one `before` it of the same job. Prices and weights count this step alone.

    young: sorts the youngest first. whole: with it, nothing of the job stays.
    """

    job: Job
    unit: Unit
    before: "Step | None"
    price: Price
    weight: int
    young: tuple[int, str, int]
    whole: bool
    under_share: int = 0


Chain = list[Step]
NAMED = 5
FEW_COSTS = 4  # to look at one of a few jobs costs as much as so many of all
FEW_LOOKED_AT = 75  # jobs that each further asker of a batch is expected to look at


@dataclass(slots=True)
class Field:
    """All jobs that hold room: what each may lose, by job id in order of age, and which rule shields what else there is.

    groups: where only some jobs were looked at, what is known of all of them.
    """

    chains: dict[str, Chain] = field(default_factory=dict)
    excluded: dict[str, list[Unit]] = field(default_factory=dict)
    groups: "Groups | None" = None

    def shield(self, rule: str, units: Iterable[Unit]) -> None:
        """Count these units as excluded by the rule."""
        self.excluded.setdefault(rule, []).extend(units)

    def steps(self) -> list[Step]:
        """All steps of all candidates."""
        return [step for chain in self.chains.values() for step in chain]


@dataclass(slots=True)
class Groups:
    """All jobs that hold room, counted: groups whose jobs may be victims, how many those are, and by rule who is not."""

    yielding: list[Group] = field(default_factory=list)
    candidates: int = 0
    excluded: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    def shield(self, rule: str, jobs: int, first: Iterable[tuple[int, str]]) -> None:
        """Count so many jobs as excluded by the rule; the `first` of them by age and name."""
        if jobs > 0:
            self.excluded[rule] = self.excluded.get(rule, 0) + jobs
            self.examples[rule] = sorted([*self.examples.get(rule, ()), *first])[:NAMED]


class Board:
    """What one batch knows of the jobs that hold room, kept while its answers are found one after the other."""

    def __init__(self, scene: Scene, askers: int = 1) -> None:
        self.pool = scene.pool
        self._for_others = FEW_LOOKED_AT * (askers - 1)
        self.scene = scene
        self.scale = Scale.of(scene.pool.rules.preemption, scene.holdings, scene.alike)
        self._jobs: list[Job] | None = None
        self._units: dict[str, list[tuple[Unit, Price, bool]]] = {}
        self._gone: dict[str, int] = {}
        self._fields: dict[tuple[object, ...], Field] = {}
        self._looked_at: dict[tuple[object, ...], int] = {}

    def few_suffice(self, verb: Verb, asker: Job) -> bool:
        """Whether it is quicker to look at a few jobs once more than at all of them once for all askers alike."""
        key = _alike(self.pool, verb, asker)
        return key not in self._fields and FEW_COSTS * self._looked_at.get(key, self._for_others) <= len(self.pool.active)

    @property
    def jobs(self) -> list[Job]:
        """All of them, the oldest first."""
        if self._jobs is None:
            pool = self.pool
            self._jobs = sorted((pool.jobs[name] for name in pool.active), key=lambda job: (job.seq, job.id))
        return self._jobs

    def groups(self, verb: Verb, asker: Job) -> Groups | None:
        """Who may leave for this asker, by group; `None` where rules are on that tell jobs of one group apart."""
        shields = Shields(self.pool, verb, asker)
        if not shields.by_group:
            return None
        alike, jobs = self.scene.alike, self.pool.jobs
        apart: dict[Group, dict[str, None]] = {}
        for job in [asker, *(jobs[name] for name, units in self._gone.items() if units >= len(self._steps_of(jobs[name])))]:
            group = alike.group_of(job.id)
            if group is not None:
                apart.setdefault(group, {})[job.id] = None
        found = Groups()
        found.shield(already_leaving.NAME, len(self._gone), ((jobs[name].seq, name) for name in self._gone))
        for group, members in alike.groups.items():
            others = apart.get(group, {})
            count = len(members) - len(others)
            rule = shields.excluded_by(whole(jobs[members[0][1]]))
            if rule is None:
                found.yielding.append(group)
                found.candidates += count
            else:
                found.shield(rule, count, [age for age in members[: NAMED + len(others)] if age[1] not in others])
        return found

    def few(self, verb: Verb, asker: Job, names: Iterable[str], groups: Groups, under_share: Mapping[str, bool]) -> Field:
        """`field`, of these jobs alone."""
        jobs = [self.pool.jobs[name] for name in dict.fromkeys(names)]
        key = _alike(self.pool, verb, asker)
        self._looked_at[key] = self._looked_at.get(key, self._for_others) + len(jobs)
        found = self._build(verb, asker, under_share, sorted(jobs, key=lambda job: (job.seq, job.id)))
        found.groups = groups
        return found

    def field(self, verb: Verb, asker: Job, under_share: Mapping[str, bool] | None = None) -> Field:
        """Who may leave for this asker. Askers alike in what rules look at share one field.

        under_share: of which projects what is taken counts on level 2 of the objective.
        """
        key = _alike(self.pool, verb, asker)
        if key not in self._fields:
            self._fields[key] = self._build(verb, asker, under_share or {}, self.jobs)
        return self._fields[key]

    def taken(self, job: Job, units: int) -> None:
        """An answer took so many units of the job: what is left may go for a later one. 0: the job is not touched again."""
        before = self._gone.get(job.id, 0)
        self._gone[job.id] = before + units if units else max(1, len(self._steps_of(job)))
        for found in self._fields.values():
            chain = found.chains.pop(job.id, None)
            if chain is None:
                continue
            found.shield(already_leaving.NAME, [step.unit for step in chain[: units or None]])
            rest = chain[units:] if units else []
            if rest:
                rest[0].before = None
                found.chains[job.id] = rest

    def _build(self, verb: Verb, asker: Job, under_share: Mapping[str, bool], jobs: Sequence[Job]) -> Field:
        found = Field()
        pool, scale = self.pool, self.scale
        shields = Shields(pool, verb, asker)
        short_grace = _short_grace(pool, asker)
        for job in jobs:
            if job is asker:
                continue
            steps = self._steps_of(job)
            gone = self._gone.get(job.id, 0)
            if gone:
                found.shield(already_leaving.NAME, [unit for unit, _, _ in steps[:gone]])
                if verb == "consolidate":
                    continue
            slow = int(short_grace is not None and job.phase != "reserved" and grace_of(pool, job) > short_grace)
            chain: Chain = []
            for at in range(gone, len(steps)):
                unit, cost, whole = steps[at]
                rule = shields.excluded_by(unit)
                if rule is not None:
                    found.shield(rule, [unit for unit, _, _ in steps[at:]])
                    break
                under = cost.gpu_milli if under_share.get(job.project) else 0
                weight = scale.weight(job.priority, cost, under, 0 if chain else slow)
                before = chain[-1] if chain else None
                chain.append(Step(job, unit, before, cost, weight, (-job.seq, job.id, at), whole, under))
            if chain:
                found.chains[job.id] = chain
        return found

    def _steps_of(self, job: Job) -> list[tuple[Unit, Price, bool]]:
        """Units of the job, what each adds to the cost, and whether nothing is left after it."""
        if job.id not in self._units:
            steps = []
            gone: list[Task] = []
            before = FREE
            standing = allocated_tasks(job)
            units = units_that_leave(job)
            if len(units) > 1:
                of_index = {task.index: task for task in standing}
            for unit in units:
                gone += [of_index[index] for index in unit.indices if index in of_index] if len(units) > 1 else standing
                cost = price(self.pool, job, gone, whole=unit.core)
                steps.append((unit, cost if before is FREE else cost.minus(before), unit.core))
                before = cost
            self._units[job.id] = steps
        return self._units[job.id]


def _alike(pool: Pool, verb: Verb, asker: Job) -> tuple[object, ...]:
    """Askers for whom this is the same may take the same units."""
    by_itself = bool(asker.tasks) or displaced_asker.may_be_shielded_from(pool, verb, asker)
    return (verb, asker.priority, asker.project, asker.class_name, asker.preemptible, asker.id if by_itself else "")


def units_that_leave(job: Job) -> list[Unit]:
    """What the job can lose, in order. What has not started yet, and what leaves already, is one unit."""
    if job.phase in ("reserved", "evicting"):
        return [whole(job)]
    return victim_units(job)


def _short_grace(pool: Pool, asker: Job) -> int | None:
    """How soon victims of this asker should be gone, µs, where its class is to be served at once."""
    entry = pool.rules.find_class(asker.class_name)
    return entry.immediate_grace if entry is not None and entry.immediate else None
