"""`no-counter-reclaim`: a job does not reclaim from jobs that displaced it, directly or through other jobs.

Each action has its own definition of entitlement, and a gang that exceeds a fair share only in part is evicted whole. So two
jobs could displace each other without end, with a third job that borrows in between. With this rule displacements form no
cycle, as long as preempt evicts strictly lower priority only, and so they end.

The rule applies until the entitlements of projects change: a job, a node or the policy is submitted, ended or changed. From
then on it protects only jobs whose project would be within its fair share without tasks that started after theirs.
"""

from bailiff_core.fold.displacements import SURPLUS, is_current
from bailiff_core.model.policy import Action
from bailiff_core.model.resource_vector import ZERO, ResourceVector
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, allocated_tasks
from bailiff_core.scheduling_snapshot import current_usage

from .rule import JobsShield, Rule, Shield

NAME = "no-counter-reclaim"


def may_be_shielded_from(state: PoolState, action: Action, preemptor: Job) -> bool:
    """Whether the rule may protect jobs from this preemptor, as opposed to other preemptors of its group."""
    return action == "reclaim" and _displacement_key(preemptor) in state.displaced_by


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:
    """Under reclaim, units of jobs that displaced the preemptor: since entitlements changed, or before and within their share."""
    if not may_be_shielded_from(state, action, preemptor):
        return None
    recent, all_time = (_displacing(state, _displacement_key(preemptor), since) for since in (state.entitlements_changed, -1))
    if not all_time:
        return None
    shares = _Shares(state)

    def shielded(unit: Unit) -> bool:
        name = unit.job.id
        parts = (name, name + SURPLUS) if unit.core else (name + SURPLUS,)
        if any(part in recent for part in parts):
            return True
        return any(part in all_time for part in parts) and shares.cover(unit)

    return JobsShield(shielded, lambda: (name.removesuffix(SURPLUS) for name in all_time))


def _displacement_key(preemptor: Job) -> str:
    return preemptor.id + SURPLUS if preemptor.tasks else preemptor.id


def _displacing(state: PoolState, name: str, since: int) -> dict[str, None]:
    """Jobs that displaced it after the record `since`, directly or through other jobs."""
    found: dict[str, None] = {}
    to_visit = [name]
    while to_visit:
        for by, seq in state.displaced_by.get(to_visit.pop(), {}).items():
            if seq > since and by not in found and is_current(state, by, seq):
                found[by] = None
                to_visit.append(by)
    return found


class _Shares:
    """Tests whether a project would be within its fair share without the tasks that started after a unit."""

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self._by_project: dict[str, tuple[ResourceVector, list[tuple[int, ResourceVector]]]] = {}

    def cover(self, unit: Unit) -> bool:
        usage = current_usage(self._state)
        leaf = usage.leaf_of(unit.job)
        if leaf not in self._by_project:
            share = usage.entitlements[leaf].share
            started = [
                (self._start(job, task.index), usage.allocated_to(Unit(job, (task.index,), core=False)))
                for job in self._state.active_jobs()
                if usage.leaf_of(job) == leaf
                for task in allocated_tasks(job)
            ]
            self._by_project[leaf] = share, started
        share, started = self._by_project[leaf]
        last = max((self._start(unit.job, index) for index in unit.indices), default=self._state.seq)
        used = ZERO
        for start, amounts in started:
            used = used.plus(amounts) if start <= last else used
        return used.within(share)

    def _start(self, job: Job, index: int) -> int:
        task = job.task(index)
        return self._state.seq if task is None or task.start_seq is None else task.start_seq


PROTECTION = Rule(80, NAME, shield, "preempted the preemptor, or a job that preempted it")
