"""`lower-priority-only`: preempt evicts strictly lower priority only, and so never the preemptor itself."""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState

from .rule import Rule, Shield

NAME = "lower-priority-only"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Under preempt, jobs whose effective priority is not below the preemptor's."""
    return (lambda unit: unit.job.priority >= preemptor.priority) if action == "preempt" else None


PROTECTION = Rule(40, NAME, shield, "does not have lower priority", by_group=True)
