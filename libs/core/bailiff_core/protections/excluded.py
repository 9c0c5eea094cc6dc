"""`excluded`: jobs with labels that the policy excludes are never victims."""

from bailiff_core.model.job_labels import is_excluded
from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState

from .rule import JobsShield, Rule, Shield

NAME = "excluded"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Jobs that have all labels of one of the policy's entries."""
    if not state.rules.protections.excluded:
        return None
    return JobsShield.where(state, lambda job: bool(job.demand.labels), lambda unit: is_excluded(state, unit.job))


PROTECTION = Rule(100, NAME, shield, "has a label that the policy excludes", field="protections.excluded")
