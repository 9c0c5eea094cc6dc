"""`higher-priority`: consolidate moves no job for one of lower priority, unless `preemption.move_higher_priority` says so."""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState

from .rule import Rule, Shield

NAME = "higher-priority"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:
    """Under consolidate, jobs whose effective priority is above the preemptor's."""
    if action != "consolidate" or state.rules.preemption.move_higher_priority:
        return None
    return lambda unit: unit.job.priority > preemptor.priority


PROTECTION = Rule(45, NAME, shield, "has higher priority", by_group=True, field="preemption.move_higher_priority")
