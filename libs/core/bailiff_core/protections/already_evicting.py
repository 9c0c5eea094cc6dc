"""`already-evicting`: a job, or a surplus task, that is being evicted is no victim again; its resources count as releasing."""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit

from .rule import Rule, Shield

NAME = "already-evicting"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Jobs, and single tasks, that are being evicted."""
    return is_evicting


def is_evicting(unit: Unit) -> bool:
    """Whether the unit's job, or one of its tasks, is being evicted."""
    if unit.core or unit.job.phase == "evicting":
        return unit.job.phase == "evicting"
    tasks = (unit.job.task(index) for index in unit.indices)
    return any(task is not None and task.eviction is not None for task in tasks)


PROTECTION = Rule(10, NAME, shield, "is already being evicted")
