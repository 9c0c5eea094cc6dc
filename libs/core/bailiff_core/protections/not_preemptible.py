"""`not-preemptible`: jobs that are not preemptible, by their class or by their own setting."""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState

from .rule import Rule, Shield

NAME = "not-preemptible"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Jobs that are not preemptible, surplus included."""
    return lambda unit: not unit.job.preemptible


PROTECTION = Rule(30, NAME, shield, "is not preemptible", by_group=True)
