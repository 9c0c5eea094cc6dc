"""Who may not be a victim. One file per named rule; the name stands in the record of the decision.

A rule answers for one candidate whether it is excluded. The first rule of `RULES` that excludes a job names the group
in which the explanation counts it.
"""

from bailiff_core.model.pool import Job, Pool

from . import already_leaving, held, not_preemptible, priority
from .rule import Rule

RULES = (
    Rule(already_leaving.NAME, already_leaving.excludes, "is on its way out already"),
    Rule(held.NAME, held.excludes, "waits for room reserved for it"),
    Rule(not_preemptible.NAME, not_preemptible.excludes, "is not preemptible"),
    Rule(priority.NAME, priority.excludes, "does not have lower priority"),
)


def excluded_by(pool: Pool, asker: Job, candidate: Job) -> str | None:
    """The name of the first rule that shields the candidate from the asker, or `None`: it may be a victim."""
    for rule in RULES:
        if rule.excludes(pool, asker, candidate):
            return rule.name
    return None


__all__ = ["RULES", "Rule", "excluded_by"]
