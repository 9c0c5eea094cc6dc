"""Jobs that are being evicted and are pending again at once: nobody is started on what they would take back by right."""

from collections.abc import Sequence
from dataclasses import replace

from bailiff_core.fold.eviction_causes import VOLUNTARY
from bailiff_core.fold.pending_queue import queue_key
from bailiff_core.model.policy import Action
from bailiff_core.model.resource_vector import ZERO
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, has_resources, next_unit
from bailiff_core.placement.gang import GangPlacement, TaskPlacement, place_unit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.protections import Shields
from bailiff_core.queue.preemption_delay import delay_of
from bailiff_core.quota.demand_vector import of_unit
from bailiff_core.quota.fair_share import Entitlements
from bailiff_core.scheduling_snapshot import SchedulingSnapshot, current_snapshot
from bailiff_core.victims.trial import Trial, action_not_permitted

RETURNING = ("preemption", "requested", "drain", "device", "over-share", "policy", "stale-gang", "migration", "resize")
DISPLACING: tuple[Action, ...] = ("reclaim", "preempt")
STEPS = 1_000  # of the search for a place of one of these jobs


class ReturningJobs:
    """The jobs that are being evicted and then pending, without a reservation, in queue order."""

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self._actions = [action for action in DISPLACING if action in state.rules.preemption.actions]
        jobs = sorted((state.jobs[name] for name in state.evicting), key=queue_key)
        self._evicted = [job for job in jobs if _returns(job) and delay_of(state, job) == 0]
        self._units: list[tuple[Job, Unit]] | None = None
        self._shares: Entitlements | None = None

    def taking_back(self, unit: Unit, place: GangPlacement) -> Job | None:
        """The first of these jobs that has a place now, would have none beside the unit, and may displace it; or `None`."""
        if not unit.job.preemptible:
            return None
        rivals = [(job, again) for job, again in self._pending() if self._may_outrank(job, unit.job)]
        snapshot = current_snapshot(self._state)
        mark = snapshot.mark()
        placeable = _placeable(snapshot, rivals)
        snapshot.rollback(mark)
        if placeable:
            snapshot.place(unit, place)
            after = snapshot.mark()
            beside = dict.fromkeys(job.id for job, _ in _placeable(snapshot, placeable))
            snapshot.rollback(after)
            placeable = [rival for rival in placeable if rival[0].id not in beside]
        found = next((job for job, again in placeable if self._may_displace(snapshot, again, unit)), None)
        snapshot.rollback(mark)
        return found

    def _pending(self) -> list[tuple[Job, Unit]]:
        """Each job with the unit that it asks for once it is pending."""
        if self._units is None:
            copies = [(job, next_unit(replace(job, tasks=[], eviction=None, phase="pending"))) for job in self._evicted]
            self._units = [(job, unit) for job, unit in copies if unit is not None]
        return self._units

    def _may_outrank(self, job: Job, other: Job) -> bool:
        """A cheap test before `_may_displace`."""
        reclaims = "reclaim" in self._actions and bool(self._state.rules.projects) and job.project != other.project
        return reclaims or ("preempt" in self._actions and job.may_preempt and job.priority > other.priority)

    def _may_displace(self, snapshot: SchedulingSnapshot, again: Unit, unit: Unit) -> bool:
        """Whether an action permits the job to evict the unit, which is placed in `snapshot`, alone or among others."""
        shares = self._shares_on_return(snapshot)
        for action in self._actions:
            if action_not_permitted(snapshot, shares, again, action) is not None:
                continue
            if Shields(self._state, action, again.job).excluded_by(unit) is not None:
                continue
            trial = Trial(snapshot, shares, again, action)
            if trial.allows([unit]) and trial.imbalance([unit]) is None:
                return True
        return False

    def _shares_on_return(self, snapshot: SchedulingSnapshot) -> Entitlements:
        """Fair shares with the requests of these jobs, which do not count while they are being evicted."""
        if self._shares is None:
            usage = snapshot.usage
            requests = dict(usage.requests)
            for job, again in self._pending():
                for project in usage.tree.branches[usage.leaf_of(job)].path:
                    asked = of_unit(again, usage.asking)
                    requests[project] = requests.get(project, ZERO).plus(asked)
            self._shares = usage.entitlements_if(requests)
        return self._shares


def _returns(job: Job) -> bool:
    """Whether the job is pending, without a backoff, once it is gone, as far as its eviction tells."""
    eviction = job.eviction
    if eviction is None or eviction.cause not in RETURNING or eviction.cancel_seq is not None:
        return False
    if job.reservation or job.cancelled or job.paused_seq is not None or job.suspended_reason is not None:
        return False
    return job.demand.on_eviction == "requeue" or eviction.cause in VOLUNTARY


def _placeable(snapshot: SchedulingSnapshot, jobs: Sequence[tuple[Job, Unit]]) -> list[tuple[Job, Unit]]:
    """Those of the jobs that fit one beside the other, at their old place or elsewhere; their resources are taken."""
    return [(job, again) for job, again in jobs if _place(snapshot, job, again)]


def _place(snapshot: SchedulingSnapshot, job: Job, again: Unit) -> bool:
    cluster = snapshot.cluster
    indices = tuple(task.index for task in job.tasks)
    old = Unit(job, indices, core=True)
    if (
        sorted(indices) == sorted(again.indices)
        and all(has_resources(task) and task.node in cluster.nodes for task in job.tasks)
        and cluster.original_place_is_free(old)
    ):
        places = tuple(TaskPlacement(task.index, task.node, task.devices) for task in job.tasks)
        cluster.place(old, GangPlacement(places, future=True))
        return True
    return isinstance(place_unit(cluster, again, StepBudget(STEPS), reserve=True), GangPlacement)
