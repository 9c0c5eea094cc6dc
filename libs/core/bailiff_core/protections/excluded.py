"""Jobs that the policy names by their labels are nobody's victims."""

from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import Unit

from .labels import matches
from .rule import Shield

NAME = "excluded"


def shield(pool: Pool, verb: Verb, asker: Job) -> Shield | None:  # noqa: ARG001
    """Jobs that carry all labels of one of the policy's entries."""
    entries = [tuple(labels.items()) for labels in pool.rules.protections.excluded]

    def excluded(unit: Unit) -> bool:
        return any(matches(unit.job, labels) for labels in entries)

    return excluded if entries else None
