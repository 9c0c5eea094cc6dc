"""`no-counter-reclaim`: nobody reclaims room from those who displaced it, or who displaced those who did, and so on.

Each action has its own idea of who is entitled to room; gangs that lie across a share are taken whole. So two jobs could
displace each other in turns for ever, with a third that borrows in between. With this rule the jobs that displace each
other form no circle, as long as preempt takes strictly lower priority only; and without a circle there is an end.

It holds until something changes what projects may claim: somebody submits, ends or changes a job, a node, the policy.
After that it holds for those whose project would be within its fair share without what started later.
"""

from bailiff_core.fold.displacements import SURPLUS, is_current
from bailiff_core.model.policy import Action
from bailiff_core.model.resource_vector import ZERO, ResourceVector
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, allocated_tasks
from bailiff_core.quota.fair_share import fair_shares
from bailiff_core.scheduling_snapshot import current_usage

from .rule import Rule, Shield

NAME = "no-counter-reclaim"


def may_be_shielded_from(state: PoolState, action: Action, preemptor: Job) -> bool:
    """Whether the rule knows this preemptor, and not only its like."""
    return action == "reclaim" and _asks_as(preemptor) in state.displaced_by


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:
    """Under reclaim, units of jobs that displaced the preemptor since anything changed, or that are within their share."""
    if not may_be_shielded_from(state, action, preemptor):
        return None
    lately, ever = (_above(state, _asks_as(preemptor), since) for since in (state.entitlements_changed, -1))
    if not ever:
        return None
    shares = _Shares(state)

    def shielded(unit: Unit) -> bool:
        name = unit.job.id
        parts = (name, name + SURPLUS) if unit.core else (name + SURPLUS,)
        if any(part in lately for part in parts):
            return True
        return any(part in ever for part in parts) and shares.cover(unit)

    return shielded


def _asks_as(preemptor: Job) -> str:
    return preemptor.id + SURPLUS if preemptor.tasks else preemptor.id


def _above(state: PoolState, name: str, since: int) -> dict[str, None]:
    """All who displaced it after that record, and who displaced those, and so on."""
    found: dict[str, None] = {}
    look = [name]
    while look:
        for by, seq in state.displaced_by.get(look.pop(), {}).items():
            if seq > since and by not in found and is_current(state, by, seq):
                found[by] = None
                look.append(by)
    return found


class _Shares:
    """Whether a project would be within its fair share without what started after a unit."""

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self._of: dict[str, tuple[ResourceVector, list[tuple[int, ResourceVector]]]] = {}

    def cover(self, unit: Unit) -> bool:
        usage = current_usage(self._state)
        leaf = usage.leaf_of(unit.job)
        if leaf not in self._of:
            share = fair_shares(usage.tree, usage.total, usage.requests, usage.divided)[leaf]
            started = [
                (self._start(job, task.index), usage.allocated_to(Unit(job, (task.index,), core=False)))
                for job in self._state.active_jobs()
                if usage.leaf_of(job) == leaf
                for task in allocated_tasks(job)
            ]
            self._of[leaf] = share, started
        share, started = self._of[leaf]
        last = max((self._start(unit.job, index) for index in unit.indices), default=self._state.seq)
        used = ZERO
        for start, amounts in started:
            used = used.plus(amounts) if start <= last else used
        return used.within(share)

    def _start(self, job: Job, index: int) -> int:
        task = job.task(index)
        return self._state.seq if task is None or task.start_seq is None else task.start_seq


PROTECTION = Rule(80, NAME, shield, "preempted the preemptor, or a job that preempted it")
