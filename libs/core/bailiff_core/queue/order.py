"""The order in which pending jobs are tried: by project (fair share), then priority, submission and id."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heapify, heappop, heappush

from bailiff_core.model.project_tree import ROOT
from bailiff_core.model.resource_vector import UNLIMITED, Amount, ResourceVector
from bailiff_core.model.state import Job
from bailiff_core.model.units import Unit, next_unit, victim_units
from bailiff_core.quota.demand_vector import of_unit
from bailiff_core.quota.fair_share import NOTHING, Entitlements
from bailiff_core.quota.resource_snapshot import ResourceSnapshot

Ratio = tuple[int, Fraction]
Entry = tuple[tuple[object, ...], int, str]


def shares_now(snapshot: ResourceSnapshot) -> Entitlements:
    """Current fair shares, which a pass uses unchanged from its start to its end."""
    return snapshot.usage.entitlements


def try_key(job: Job) -> tuple[int, int, int, str]:
    """A job's place among those of its project: below its minimum before at it before above it, where priorities are equal."""
    return (-job.priority, _stage(job), job.seq, job.id)


def _stage(job: Job) -> int:
    if not job.tasks:
        return 0
    unit = next_unit(job)
    if unit is not None and unit.core:
        return 0
    if job.demand.sub_groups:
        return 1 if all(leaving.core for leaving in victim_units(job)) else 2
    return 1 if sum(task.eviction is None for task in job.tasks) <= job.minimum else 2


@dataclass(slots=True)
class _Candidates:
    """What is left to try in one project: its jobs, or the best of each child. `version`: which entry of it is valid above."""

    name: str
    heap: list[Entry] = field(default_factory=list)
    version: int = 0
    best: Unit | None = None


class Pass:
    """Yields jobs in the order in which one pass tries them. Fair shares stay as they were at its start.

    After each success (it shows in the snapshot: a unit placed, victims gone) the order is computed again where amounts
    changed. Allocate requeues a job after a success; the other actions try each job once.
    """

    def __init__(self, snapshot: ResourceSnapshot, jobs: Iterable[Job], shares: Entitlements | None = None) -> None:
        self._usage = snapshot.usage
        self._tree = snapshot.usage.tree
        self.shares = shares_now(snapshot) if shares is None else shares
        self._jobs: dict[str, Job] = {}
        self._candidates: dict[str, _Candidates] = {}
        self._seen = self._usage.position
        self._unsure: list[str] = []
        for job in jobs:
            self._jobs[job.id] = job
        for job in self._jobs.values():
            self._at(self._usage.leaf_of(job)).heap.append((try_key(job), 0, job.id))
        for name, found in self._candidates.items():
            heapify(found.heap)
            self._unsure.append(name)

    def next(self) -> Unit | None:
        """The next unit to try, `None` when there is no job left. Its job is removed until `put_back`."""
        if not self._tree.children:
            return self._next_of_all()
        self._look_again([*self._changed(), *self._unsure])
        top = self._candidates.get(ROOT)
        if top is None or top.best is None:
            return None
        unit = top.best
        leaf = self._usage.leaf_of(unit.job)
        heappop(self._candidates[leaf].heap)
        del self._jobs[unit.job.id]
        self._unsure = [leaf]
        return unit

    def _next_of_all(self) -> Unit | None:
        """`next` without projects: by job order alone."""
        waiting = self._at(ROOT).heap
        while waiting:
            unit = next_unit(self._jobs.pop(heappop(waiting)[2]))
            if unit is not None:
                return unit
        return None

    def put_back(self, job: Job) -> None:
        """Add the job at its current position in the order: after a success, or as a further job to try."""
        if job.id in self._jobs or next_unit(job) is None:
            return
        self._jobs[job.id] = job
        leaf = self._usage.leaf_of(job)
        heappush(self._at(leaf).heap, (try_key(job), 0, job.id))
        self._unsure.append(leaf)

    def _at(self, project: str) -> _Candidates:
        if project not in self._candidates:
            self._candidates[project] = _Candidates(project)
        return self._candidates[project]

    def _changed(self) -> list[str]:
        changed = self._usage.changes_since(self._seen)
        self._seen = self._usage.position
        if changed is None:
            return list(self._candidates)
        return [name for name in dict.fromkeys(changed) if name in self._candidates]

    def _look_again(self, projects: list[str]) -> None:
        """Find the best below each of these projects anew, and their places among their siblings."""
        levels: dict[int, dict[str, None]] = {}
        for name in projects:
            levels.setdefault(len(self._tree.branches[name].path), {})[name] = None
        depth = max(levels, default=0)
        while depth:
            for name in levels.get(depth, ()):
                self._find_best(name)
                path = self._tree.branches[name].path
                if len(path) > 1:
                    levels.setdefault(depth - 1, {})[path[1]] = None
                    self._enter(name, path[1])
            depth -= 1

    def _find_best(self, project: str) -> None:
        found = self._at(project)
        found.best = None
        while found.heap and found.best is None:
            _, version, name = found.heap[0]
            if project in self._tree.children:
                below = self._candidates[name]
                found.best = below.best if below.version == version else None
            else:
                found.best = next_unit(self._jobs[name])
                if found.best is None:
                    del self._jobs[name]
            if found.best is None:
                heappop(found.heap)

    def _enter(self, project: str, parent: str) -> None:
        found = self._candidates[project]
        found.version += 1
        if found.best is not None:
            heappush(self._at(parent).heap, (self._key(project, found.best), found.version, project))

    def _key(self, project: str, unit: Unit) -> tuple[object, ...]:
        """A project's place among its siblings, with the unit that it would have tried next."""
        branch, entitled = self._tree.branches[project], self.shares.get(project, NOTHING)
        used = self._usage.allocated(project)
        with_unit = used.plus(of_unit(unit, self._usage.smallest))
        bound = entitled.most
        return (
            not used.within(entitled.share),
            any(quota != UNLIMITED and amount > quota for amount, quota in zip(with_unit, entitled.quota, strict=False)),
            -branch.priority,
            any(most == 0 and amount > 0 for amount, most in zip(with_unit, bound, strict=False)),
            self._dominant(with_unit, bound),
            self._dominant(used, bound),
            tuple((most == UNLIMITED, most) for most in bound),
            branch.age,
        )

    def _dominant(self, used: ResourceVector, bound: ResourceVector) -> Ratio:
        """The largest part that the project uses of its allocatable share; unbounded: of the pool. A share of 0 counts most."""
        beyond = 0
        part: Amount = 0
        of: Amount = 1
        for amount, most, total in zip(used, bound, self._usage.total, strict=False):
            if amount > 0:
                whole = total if most == UNLIMITED else most
                none, whole = (0, whole) if whole else (1, total or 1)
                if none > beyond or (none == beyond and amount * of > part * whole):
                    beyond, part, of = none, amount, whole
        return beyond, Fraction(part, of)
