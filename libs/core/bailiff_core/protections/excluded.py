"""`excluded`: jobs with labels that the policy excludes are never victims."""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit

from .labels import matches
from .rule import Rule, Shield

NAME = "excluded"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Jobs that have all labels of one of the policy's entries."""
    entries = [tuple(labels.items()) for labels in state.rules.protections.excluded]

    def excluded(unit: Unit) -> bool:
        return any(matches(unit.job, labels) for labels in entries)

    return excluded if entries else None


PROTECTION = Rule(100, NAME, shield, "has a label that the policy excludes")
