"""`excluded`: jobs with labels that the policy excludes are never victims."""

from bailiff_core.model.job_labels import is_excluded
from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState

from .rule import Rule, Shield

NAME = "excluded"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Jobs that have all labels of one of the policy's entries."""
    entries = state.rules.protections.excluded
    return (lambda unit: is_excluded(unit.job, entries)) if entries else None


PROTECTION = Rule(100, NAME, shield, "has a label that the policy excludes")
