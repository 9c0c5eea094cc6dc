"""A job on its way out is room to come, not a victim once more. So is a surplus task that leaves by itself."""

from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import Unit

from .rule import Shield

NAME = "already-leaving"


def shield(pool: Pool, verb: Verb, asker: Job) -> Shield | None:  # noqa: ARG001
    """Jobs, and single tasks, that are being evicted."""
    return _leaving


def _leaving(unit: Unit) -> bool:
    if unit.core or unit.job.phase == "evicting":
        return unit.job.phase == "evicting"
    tasks = (unit.job.task(index) for index in unit.indices)
    return any(task is not None and task.eviction is not None for task in tasks)
