"""`finished-tasks`: consolidate moves no job of which a task has succeeded, as its next attempt would start that task again."""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState

from .rule import JobsShield, Rule, Shield

NAME = "finished-tasks"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Under consolidate, jobs that would need a place for tasks which hold none now, too."""
    if action != "consolidate":
        return None
    return JobsShield.where(state, _has_finished_tasks, lambda unit: _has_finished_tasks(unit.job))


def _has_finished_tasks(job: Job) -> bool:
    return any(task.finished for task in job.tasks)


PROTECTION = Rule(65, NAME, shield, "has a task that succeeded, which would start again")
