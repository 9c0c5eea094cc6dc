"""What a restart to grow with all that fits now wins and loses: what allocate decides by, and what it says of it."""

from dataclasses import replace

from bailiff_core.model.state import PoolState, Task
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.placement.gang import GangPlacement
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.protections.payback import Growth, growth_by
from bailiff_core.quota.quota_aware_placement import find_within_bounds
from bailiff_core.scheduling_snapshot import current_snapshot


def growth_that_fits(state: PoolState, unit: Unit, place: GangPlacement) -> Growth:
    """The growth by this unit, and by further units that fit beside it, until it pays; what is reserved already counts.

    Args:
        place: Where the unit fits now.
    """
    snapshot, job = current_snapshot(state), unit.job
    mark, grown = snapshot.mark(), job
    try:
        while True:
            joining = [Task(each.index, each.node, each.devices, "reserved") for each in place.tasks]
            grown = replace(grown, tasks=sorted([*grown.tasks, *joining], key=lambda task: task.index))
            growth = growth_by(state, job, [task for task in grown.tasks if task.state == "reserved"])
            more = None if growth.pays else next_unit(grown)
            if more is None:
                return growth
            snapshot.place(unit, place)
            found = find_within_bounds(snapshot, more, StepBudget(state.rules.preemption.search_steps))
            if not isinstance(found, GangPlacement):
                return growth
            unit, place = more, found
    finally:
        snapshot.rollback(mark)
