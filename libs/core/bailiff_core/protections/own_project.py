"""`own-project`: reclaim takes back what other projects borrowed, so a project does not reclaim from itself."""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState

from .rule import Rule, Shield

NAME = "own-project"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Under reclaim, jobs of the preemptor's project."""
    return (lambda unit: unit.job.project == preemptor.project) if action == "reclaim" else None


PROTECTION = Rule(60, NAME, shield, "belongs to the same project", by_group=True)
