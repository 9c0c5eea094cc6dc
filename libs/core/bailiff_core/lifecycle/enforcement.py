"""Evicts what a policy applied with `enforce` would not have admitted."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from bailiff_core.model.grace import grace_of
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.project_tree import project_text
from bailiff_core.model.resource_vector import RESOURCES, UNLIMITED, ResourceVector, resource_text
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, victim_units
from bailiff_core.quota.usage import Usage
from bailiff_core.records.decisions import EvictionDecided, ReservationDropped
from bailiff_core.records.payload import Decision
from bailiff_core.scheduling_snapshot import current_snapshot

MOST_TOLD = 1000


@dataclass(frozen=True, slots=True)
class Bound:
    """So much of a project's use may not be exceeded, counting all its jobs or only those that are not preemptible."""

    project: str
    what: str
    most: ResourceVector
    used: Callable[[str], ResourceVector]
    preemptible_too: bool

    def exceeded(self, resource: int) -> bool:
        """Whether more of the resource is used."""
        return self.most[resource] != UNLIMITED and self.used(self.project)[resource] > self.most[resource]

    def holds(self) -> bool:
        """Whether nothing is exceeded."""
        return not any(self.exceeded(resource) for resource in range(len(RESOURCES)))

    def says(self) -> str:
        """What is exceeded."""
        for at, name in enumerate(RESOURCES):
            if self.exceeded(at):
                used, most = resource_text(at, self.used(self.project)[at]), resource_text(at, self.most[at], up=False)
                return f"{project_text(self.project)} uses {used} of its {self.what} of {most} {name}"
        return f"{project_text(self.project)} keeps to its {self.what}"


def enforcement(state: PoolState) -> Iterator[Decision]:
    """Where a project is above a limit, or its use that is not preemptible above its quota, the least valuable leave.

    Places kept for who moves go first, then what was only promised room, then lower priority, then what was submitted
    later; surplus before a whole job. Whoever turns out not to be in the way stays.
    """
    if not state.enforcing:
        return
    usage = current_snapshot(state).usage
    bounds = [bound for bound in _bounds(usage) if not bound.holds()]
    said = {bound.project: bound.says() for bound in bounds}
    mark = usage.mark()
    homeless = _drop_promises(state, usage, bounds)
    gone = _put_back(usage, bounds, _take(state, usage, bounds))
    homeless = [job for job in reversed(homeless) if not _finds_promise_kept(usage, bounds, job)]
    usage.rollback(mark)
    for job in homeless:
        part = "" if job.phase == "evicting" else ranges(task.index for task in job.reservation)
        yield ReservationDropped(job=job.id, reason="policy", tasks=part)
    for job in sorted((units[0].job for units in gone.values()), key=lambda job: (job.seq, job.id)):
        path = usage.tree.branches[usage.leaf_of(job)].path
        reason = "; ".join(said[project] for project in path if project in said)
        yield _leave(state, job, gone[job.id], f"the policy is enforced: {reason}"[:MOST_TOLD])


def _bounds(usage: Usage) -> Iterator[Bound]:
    for name, branch in usage.tree.branches.items():
        yield Bound(name, "limit", branch.limit, usage.allocated, True)
        yield Bound(name, "quota for work that is not preemptible", branch.quota, usage.non_preemptible, False)


def _drop_promises(state: PoolState, usage: Usage, bounds: Iterable[Bound]) -> list[Job]:
    """Jobs that are to move, or whose members are, and for whom no place is kept any more in `usage`; the most valuable last."""
    jobs = sorted((job for job in state.active_jobs() if job.reservation), key=lambda job: (job.priority, -job.seq, job.id))
    gone: dict[str, Job] = {}
    for bound in bounds:
        for job in jobs:
            inside = bound.project in usage.tree.branches[usage.leaf_of(job)].path
            if job.id in gone or not inside or not (bound.preemptible_too or not job.preemptible):
                continue
            if any(bound.exceeded(at) and usage.kept_for(job)[at] > 0 for at in range(len(RESOURCES))):
                usage.drop_reservation(job)
                gone[job.id] = job
    return [job for job in jobs if job.id in gone]


def _finds_promise_kept(usage: Usage, bounds: list[Bound], job: Job) -> bool:
    """Whether its place may be kept for it after all."""
    usage.restore_reservation(job)
    if all(bound.holds() for bound in bounds):
        return True
    usage.drop_reservation(job)
    return False


def _take(state: PoolState, usage: Usage, bounds: Iterable[Bound]) -> dict[str, list[Unit]]:
    """Evict in `usage` until all bounds hold, or nobody is left who could leave; by job."""
    jobs = sorted(state.active_jobs(), key=lambda job: (job.phase != "reserved", job.priority, -job.seq, job.id))
    gone: dict[str, list[Unit]] = {}
    for bound in bounds:
        inside = [job for job in jobs if bound.project in usage.tree.branches[usage.leaf_of(job)].path]
        units = {job.id: victim_units(job) for job in inside if bound.preemptible_too or not job.preemptible}
        for resource in range(len(RESOURCES)):
            for name, parts in units.items():
                left = gone.setdefault(name, [])
                for end in range(len(left) + 1, len(parts) + 1):
                    if not bound.exceeded(resource):
                        break
                    more = parts[len(left) : end]
                    if any(usage.allocated_to(part)[resource] > 0 for part in more):
                        for part in more:
                            usage.evict(part)
                        left += more
    return {name: units for name, units in gone.items() if units}


def _put_back(usage: Usage, bounds: list[Bound], gone: dict[str, list[Unit]]) -> dict[str, list[Unit]]:
    """Who need not leave, the most valuable first."""
    for units in sorted(gone.values(), key=lambda units: (-units[0].job.priority, units[0].job.seq, units[0].job.id)):
        while units:
            usage.restore(units[-1])
            if not all(bound.holds() for bound in bounds):
                usage.evict(units[-1])
                break
            units.pop()
    return {name: units for name, units in gone.items() if units}


def _leave(state: PoolState, job: Job, units: list[Unit], reason: str) -> Decision:
    if job.phase == "reserved" and units[-1].core:
        return ReservationDropped(job=job.id, reason="policy", preemption=job.preemption)
    tasks = "" if units[-1].core else ranges(index for unit in units for index in unit.indices)
    grace = grace_of(state, job)
    return EvictionDecided(job=job.id, attempt=job.attempt, cause="policy", grace=grace, reason=reason, tasks=tasks)
