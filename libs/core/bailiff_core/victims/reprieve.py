"""Cancels evictions that are no longer needed: victims of a preemption whose reservation is dropped for another preemptor."""

from collections.abc import Iterable

from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, has_resources, whole_job
from bailiff_core.placement.cluster_resources import ClusterResources


def evictions_to_cancel(state: PoolState, cluster: ClusterResources, dropped: Iterable[Job]) -> list[str]:
    """Victims of the dropped gangs' preemptions whose original place is free: whole jobs, or all evicting tasks of one.

    `cluster` is the pool after the drop, with the new gang placed. The resources of reprieved victims are taken in it.
    """
    cancelled = []
    for gang in dropped:
        plan = state.preemptions.get(gang.preemption) if gang.preemption is not None else None
        for name in plan.victims if plan is not None else ():
            victim = state.jobs.get(name)
            unit = _evicted_for(victim, gang.preemption) if victim is not None else None
            if unit is not None and cluster.original_place_is_free(unit):
                cluster.restore(unit)
                cancelled.append(name)
    return cancelled


def _evicted_for(victim: Job, plan: int | None) -> Unit | None:
    if victim.phase == "evicting":
        return whole_job(victim) if victim.eviction is not None and victim.eviction.preemption == plan else None
    tasks = [
        task for task in victim.tasks if task.eviction is not None and task.eviction.preemption == plan and has_resources(task)
    ]
    return Unit(victim, tuple(task.index for task in tasks), core=False) if tasks else None
