"""Who may lose what: the jobs that hold room, cut into the units that can leave one after the other.

A surplus task can go while its job stays; the core goes only with all surplus. So each job is a chain of steps: any
number of them from the first on may be taken.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bailiff_core.lifecycle.attempts import grace_of
from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, Pool, Task
from bailiff_core.model.units import Unit, allocated_tasks, holds, victim_units, whole
from bailiff_core.protections import Shields, already_leaving

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


@dataclass(slots=True)
class Field:
    """All jobs that hold room: what each may lose, by job id in order of age, and which rule shields what else there is."""

    chains: dict[str, Chain] = field(default_factory=dict)
    excluded: dict[str, list[Unit]] = field(default_factory=dict)

    def shield(self, rule: str, units: Iterable[Unit]) -> None:
        """Count these units as excluded by the rule."""
        self.excluded.setdefault(rule, []).extend(units)

    def steps(self) -> list[Step]:
        """All steps of all candidates."""
        return [step for chain in self.chains.values() for step in chain]


class Board:
    """What one batch knows of the jobs that hold room, kept while its answers are found one after the other."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.jobs = sorted((pool.jobs[name] for name in pool.active), key=lambda job: (job.seq, job.id))
        self.scale = Scale.of(pool, self.jobs)
        self._units: dict[str, list[tuple[Unit, Price, bool]]] = {}
        self._gone: dict[str, int] = {}
        self._fields: dict[tuple[object, ...], Field] = {}

    def field(self, verb: Verb, asker: Job, under_share: Mapping[str, bool] | None = None) -> Field:
        """Who may leave for this asker. Askers alike in what rules look at share one field.

        under_share: of which projects what is taken counts on level 2 of the objective.
        """
        key = (verb, asker.priority, asker.project, asker.class_name, asker.preemptible, asker.id if asker.tasks else "")
        if key not in self._fields:
            self._fields[key] = self._build(verb, asker, under_share or {})
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

    def _build(self, verb: Verb, asker: Job, under_share: Mapping[str, bool]) -> Field:
        found = Field()
        pool, scale = self.pool, self.scale
        shields = Shields(pool, verb, asker)
        short_grace = _short_grace(pool, asker)
        for job in self.jobs:
            if job is asker:
                continue
            steps = self._steps_of(job, in_one=verb == "consolidate")
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

    def _steps_of(self, job: Job, *, in_one: bool = False) -> list[tuple[Unit, Price, bool]]:
        """Units of the job, what each adds to the cost, and whether nothing is left after it. in_one: it goes whole."""
        if in_one:
            unit = whole(job)
            return [(unit, price(self.pool, job, [task for task in job.tasks if holds(task)], whole=True), True)]
        if job.id not in self._units:
            steps = []
            gone: list[Task] = []
            before = FREE
            standing = {task.index: task for task in allocated_tasks(job)}
            for unit in units_that_leave(job):
                gone += [standing[index] for index in unit.indices if index in standing]
                cost = price(self.pool, job, gone, whole=unit.core)
                steps.append((unit, cost.minus(before), unit.core))
                before = cost
            self._units[job.id] = steps
        return self._units[job.id]


def units_that_leave(job: Job) -> list[Unit]:
    """What the job can lose, in order. What has not started yet, and what leaves already, is one unit."""
    if job.phase in ("reserved", "evicting"):
        return [whole(job)]
    return victim_units(job)


def _short_grace(pool: Pool, asker: Job) -> int | None:
    """How soon victims of this asker should be gone, µs, where its class is to be served at once."""
    entry = pool.rules.find_class(asker.class_name)
    return entry.immediate_grace if entry is not None and entry.immediate else None
