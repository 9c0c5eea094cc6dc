"""Evicts what a policy applied with `enforce` would not have admitted."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.project_tree import project_text
from bailiff_core.model.resource_vector import UNLIMITED, ResourceVector, resource_text
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, victim_units
from bailiff_core.quota.usage import Usage
from bailiff_core.records.decisions import ReservationDropped
from bailiff_core.records.payload import Decision
from bailiff_core.scheduling_snapshot import current_snapshot

from .termination import eviction_decision

MAX_REASON_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Bound:
    """Upper bound of a project's usage: of all its jobs, or only of those that are not preemptible."""

    project: str
    name: str
    maximum: ResourceVector
    used: Callable[[str], ResourceVector]
    preemptible_too: bool
    resources: Sequence[str]

    def exceeded(self, resource: int) -> bool:
        """Whether the project uses more of the resource."""
        most = self.maximum.bound(resource)
        return most != UNLIMITED and self.used(self.project).amount(resource) > most

    def satisfied(self) -> bool:
        """Whether no resource is exceeded."""
        return not any(self.exceeded(resource) for resource in range(len(self.resources)))

    def violation(self) -> str:
        """The first resource that is exceeded, as a sentence."""
        for at, resource in enumerate(self.resources):
            if self.exceeded(at):
                used, maximum = resource_text(at, self.used(self.project)[at]), resource_text(at, self.maximum[at], up=False)
                return f"{project_text(self.project)} uses {used} of its {self.name} of {maximum} {resource}"
        return f"{project_text(self.project)} is within its {self.name}"


def enforcement(state: PoolState) -> Iterator[Decision]:
    """Evicts where a project exceeds a limit, or where its non-preemptible usage exceeds its quota, the least valuable first.

    Order: reservations of jobs that are being relocated, jobs that have only a reservation, then lower priority, then later
    submission; of one job the surplus first. What turns out not to be needed is restored.
    """
    if not state.enforcing:
        return
    usage = current_snapshot(state).usage
    bounds = [bound for bound in _bounds(usage) if not bound.satisfied()]
    violations = {bound.project: bound.violation() for bound in bounds}
    mark = usage.mark()
    dropped = _drop_reservations(state, usage, bounds)
    evicted = _restore_unneeded(usage, bounds, _evict(state, usage, bounds))
    dropped = [job for job in reversed(dropped) if not _restores_reservation(usage, bounds, job)]
    usage.rollback(mark)
    for job in dropped:
        part = "" if job.phase == "evicting" else ranges(task.index for task in job.reservation)
        yield ReservationDropped(job=job.id, reason="policy", tasks=part)
    for job in sorted((units[0].job for units in evicted.values()), key=lambda job: (job.seq, job.id)):
        path = usage.tree.branches[usage.leaf_of(job)].path
        reason = "; ".join(violations[project] for project in path if project in violations)
        yield _decision(state, job, evicted[job.id], f"the policy is enforced: {reason}"[:MAX_REASON_CHARS])


def _bounds(usage: Usage) -> Iterator[Bound]:
    for name, branch in usage.tree.branches.items():
        yield Bound(name, "limit", branch.limit, usage.allocated, True, usage.tree.resources)
        yield Bound(
            name, "quota for work that is not preemptible", branch.quota, usage.non_preemptible, False, usage.tree.resources
        )


def _drop_reservations(state: PoolState, usage: Usage, bounds: Iterable[Bound]) -> list[Job]:
    """Drops in `usage` reservations of jobs that are relocated, whole or in part, as the bounds need; most valuable job last."""
    jobs = sorted((job for job in state.active_jobs() if job.reservation), key=lambda job: (job.priority, -job.seq, job.id))
    dropped: dict[str, Job] = {}
    for bound in bounds:
        for job in jobs:
            inside = bound.project in usage.tree.branches[usage.leaf_of(job)].path
            if job.id in dropped or not inside or not (bound.preemptible_too or not job.preemptible):
                continue
            reserved = usage.reservation_usage(job)
            if any(bound.exceeded(at) and amount > 0 for at, amount in enumerate(reserved)):
                usage.drop_reservation(job)
                dropped[job.id] = job
    return [job for job in jobs if job.id in dropped]


def _restores_reservation(usage: Usage, bounds: list[Bound], job: Job) -> bool:
    """Restores the job's reservation in `usage` if that violates no bound; whether it does."""
    usage.restore_reservation(job)
    if all(bound.satisfied() for bound in bounds):
        return True
    usage.drop_reservation(job)
    return False


def _evict(state: PoolState, usage: Usage, bounds: Iterable[Bound]) -> dict[str, list[Unit]]:
    """Evicts in `usage` until all bounds are satisfied or no victim is left; the evicted units by job."""
    jobs = sorted(state.active_jobs(), key=lambda job: (job.phase != "reserved", job.priority, -job.seq, job.id))
    evicted: dict[str, list[Unit]] = {}
    for bound in bounds:
        inside = [job for job in jobs if bound.project in usage.tree.branches[usage.leaf_of(job)].path]
        units = {job.id: victim_units(job) for job in inside if bound.preemptible_too or not job.preemptible}
        for resource in range(len(bound.resources)):
            for name, parts in units.items():
                taken = evicted.setdefault(name, [])
                for end in range(len(taken) + 1, len(parts) + 1):
                    if not bound.exceeded(resource):
                        break
                    more = parts[len(taken) : end]
                    if any(usage.allocated_to(part).amount(resource) > 0 for part in more):
                        for part in more:
                            usage.evict(part)
                        taken += more
    return {name: units for name, units in evicted.items() if units}


def _restore_unneeded(usage: Usage, bounds: list[Bound], evicted: dict[str, list[Unit]]) -> dict[str, list[Unit]]:
    """Restores in `usage` units whose eviction is not needed, the most valuable first; the remaining units by job."""
    for units in sorted(evicted.values(), key=lambda units: (-units[0].job.priority, units[0].job.seq, units[0].job.id)):
        while units:
            usage.restore(units[-1])
            if not all(bound.satisfied() for bound in bounds):
                usage.evict(units[-1])
                break
            units.pop()
    return {name: units for name, units in evicted.items() if units}


def _decision(state: PoolState, job: Job, units: list[Unit], reason: str) -> Decision:
    if job.phase == "reserved" and units[-1].core:
        return ReservationDropped(job=job.id, reason="policy", preemption=job.preemption)
    tasks = "" if units[-1].core else ranges(index for unit in units for index in unit.indices)
    return eviction_decision(state, job, "policy", reason, tasks)
