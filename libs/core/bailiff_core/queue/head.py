"""The head of the queue, the first pending job that only a lack of resources keeps from starting, and its backfilled victims.

A job is backfilled if it started behind the head, on a node that the head could use, and `BackfilledVictims` permits its
eviction for that head, which must not wait for it. Under `preempt`, the head may evict such jobs whatever its class, their
priority and the scope, and no protection that depends on time, on a quota or on a budget holds against it
(docs/concepts/semantics/placement.md).
"""

from collections.abc import Sequence
from functools import cached_property

from bailiff_core.budgets.effects import is_stopped
from bailiff_core.fold.failed_starts import evicted_in_vain, is_spared
from bailiff_core.fold.pending_queue import queue_key
from bailiff_core.model.job_labels import is_excluded
from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, next_unit, whole_job
from bailiff_core.placement.feasibility import could_ever_fit
from bailiff_core.quota.fair_share import Entitlements
from bailiff_core.quota.quota_checks import CapAtFairShare, cooldown_violation, may_reclaim, over_bounds
from bailiff_core.scheduling_snapshot import SchedulingSnapshot, current_snapshot

from .order import shares_now


def head_of_queue(state: PoolState) -> Job | None:
    """The head, `None` if there is none. Running jobs that lack surplus are not considered."""
    snapshot = current_snapshot(state)
    for job in map(state.jobs.__getitem__, state.queue):
        if job.phase != "pending" or not is_schedulable(state, job) or lets_others_pass(state, job):
            continue
        unit = next_unit(job)
        if unit is None or over_bounds(snapshot, unit) or cooldown_violation(snapshot, unit):
            continue
        if could_ever_fit(state, job.demand) is None:
            return job
    return None


def is_schedulable(state: PoolState, job: Job) -> bool:
    """Whether the job is not suspended after a failed decision, not cancelled, not stopped by a budget, and past its backoff."""
    return job.suspended_reason is None and not job.cancelled and state.now >= job.not_before and not is_stopped(state, job)


def lets_others_pass(state: PoolState, job: Job) -> bool:
    """Whether the timed-out job no longer gets a reservation by backfill."""
    rules = state.rules.protections.schedule_timeout
    return rules is not None and rules.action == "pass" and job.timeout_recorded


class BackfilledVictims:
    """Which jobs one head of the queue may evict, with fair shares as they are at the first call."""

    def __init__(self, snapshot: SchedulingSnapshot, head: Unit) -> None:
        self._snapshot = snapshot
        self._head = head
        self._key = queue_key(head.job)
        self._rules = snapshot.state.rules
        self._in_vain = evicted_in_vain(snapshot.state, "preempt", head.job)
        self._by_preempt = "preempt" in self._rules.preemption.actions
        self._checked: dict[tuple[int, bool], tuple[bool, bool]] = {}

    def covers(self, job: Job) -> bool:
        """Whether the job may be evicted for the head at some time: it is preemptible, not excluded, and behind the head."""
        if not self._by_preempt or not job.preemptible or queue_key(job) <= self._key:
            return False
        state = self._snapshot.state
        return not is_spared(state, self._in_vain, job) and not is_excluded(state, job)

    def permits(self, job: Job) -> bool:
        """Whether the head may evict this job now if it is backfilled.

        Where there are projects, the head must be within what its project may take by preempt, and for jobs of other projects
        within its fair share, once the backfilled jobs are gone: otherwise these could reclaim the resources again.
        """
        return self.covers(job) and self._projects_permit(job)

    def would_permit(self, job: Job, ended: Sequence[Unit]) -> bool:
        """Whether the head may evict this job once these units have ended."""
        return self.covers(job) and self._projects_permit(job, ended)

    def _projects_permit(self, job: Job, ended: Sequence[Unit] = ()) -> bool:
        if not self._rules.projects:
            return True
        usage, state = self._snapshot.usage, self._snapshot.state
        key = usage.position, bool(ended)
        if key not in self._checked:
            backfilled = (state.jobs[name] for name in state.backfilled)
            gone = {other.id: whole_job(other) for other in backfilled if other.phase != "evicting" and self.covers(other)}
            gone |= {unit.job.id: unit for unit in ended}
            with usage.without(gone.values()):
                self._checked[key] = self._check_projects()
        own, others = self._checked[key]
        return own if job.project == self._head.job.project else others

    def now(self) -> dict[str, None]:
        """The active backfilled jobs that the head may evict and that are not being evicted yet."""
        jobs = (self._snapshot.state.jobs[name] for name in self._snapshot.state.backfilled)
        return {job.id: None for job in jobs if job.phase != "evicting" and self.permits(job)}

    def _check_projects(self) -> tuple[bool, bool]:
        """Whether the head may evict jobs of its own project, and those of others, with the present use of the projects."""
        usage = self._snapshot.usage
        cap = CapAtFairShare.of(self._snapshot, self._shares, self._head, "preempt")
        own = cap is None or cap.forbids() is None
        return own, own and may_reclaim(self._snapshot, self._shares, self._head, usage.smallest) is None

    @cached_property
    def _shares(self) -> Entitlements:
        return shares_now(self._snapshot)


def backfilled_victims(state: PoolState, action: Action, preemptor: Job) -> BackfilledVictims | None:
    """The test, if this preemptor is the head of the queue and may evict at least one backfilled job; else `None`."""
    if action != "preempt" or not state.backfilled or preemptor.phase != "pending":
        return None
    unit, head = next_unit(preemptor), head_of_queue(state)
    if unit is None or head is None or head.id != preemptor.id:
        return None
    found = BackfilledVictims(current_snapshot(state), unit)
    return found if found.now() else None
