"""Checks, before eviction notices are sent, whether a reserved gang fits without its evictions by now."""

from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit
from bailiff_core.placement.cluster_resources import ClusterResources
from bailiff_core.placement.gang import GangPlacement, place_unit
from bailiff_core.placement.step_budget import StepBudget


def fits_without_evictions(cluster: ClusterResources, state: PoolState, job: Job) -> bool:
    """Whether the job's reserved tasks could start now on free, unreserved resources. `cluster` is unchanged."""
    reserved = tuple(task.index for task in job.tasks if task.state == "reserved")
    unit = Unit(job, reserved, core=job.phase == "reserved")
    mark = cluster.mark()
    cluster.evict(unit)
    place = place_unit(cluster, unit, StepBudget(state.rules.preemption.search_steps))
    cluster.rollback(mark)
    return isinstance(place, GangPlacement) and not place.future
