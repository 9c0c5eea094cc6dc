"""Reclaim takes back what other projects borrowed: a project reclaims nothing from itself."""

from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, Pool

from .rule import Shield

NAME = "own-project"


def shield(pool: Pool, verb: Verb, asker: Job) -> Shield | None:  # noqa: ARG001
    """Under reclaim, jobs of the asker's project."""
    return (lambda unit: unit.job.project == asker.project) if verb == "reclaim" else None
