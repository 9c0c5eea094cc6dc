"""Who may not be a victim, and when. One file per named rule; the name stands in the record of the decision.

A rule of `RULES` gives, for one asker under one verb, the test whether a unit is shielded. The first rule that shields a
unit names the group in which the explanation counts it. Two rules also look at a chosen set as a whole (`forbidden`).
The other files are rules of their own kind: about the asker (`delay`, `no_borrowing`), about those who wait (`ageing`,
`schedule_timeout`, `start_within`), about a gang that broke (`stale_gang`).
"""

from collections.abc import Sequence

from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import Unit

from . import (
    already_leaving,
    budget,
    cooldown,
    eviction_cap,
    excluded,
    held,
    lower_priority_only,
    min_runtime,
    not_preemptible,
    own_project,
    quota_shields,
    scope,
)
from .rule import Rule, Shield

RULES = (
    Rule(already_leaving.NAME, already_leaving.shield, "is on its way out already"),
    Rule(held.NAME, held.shield, "waits for room reserved for it"),
    Rule(not_preemptible.NAME, not_preemptible.shield, "is not preemptible"),
    Rule(lower_priority_only.NAME, lower_priority_only.shield, "does not have lower priority"),
    Rule(scope.NAME, scope.shield, "is of another project"),
    Rule(own_project.NAME, own_project.shield, "is of the same project"),
    Rule(quota_shields.NAME, quota_shields.shield, "is within its own project's quota"),
    Rule(excluded.NAME, excluded.shield, "has a label that the policy excludes"),
    Rule(min_runtime.NAME, min_runtime.shield, "has not had its minimum run time yet"),
    Rule(eviction_cap.NAME, eviction_cap.shield, "was evicted as often as the policy allows"),
    Rule(cooldown.NAME, cooldown.shield, "has only just come back from an eviction"),
    Rule(budget.NAME, budget.shield, "is of a group that can lose nobody more at present"),
)


class Shields:
    """The rules that are on for one asker under one verb: made once, asked for each unit."""

    def __init__(self, pool: Pool, verb: Verb, asker: Job) -> None:
        made = ((rule.name, rule.shield(pool, verb, asker)) for rule in RULES)
        self._tests: list[tuple[str, Shield]] = [(name, test) for name, test in made if test is not None]

    def excluded_by(self, unit: Unit) -> str | None:
        """The name of the first rule that shields the unit, or `None`: it may be taken."""
        for name, test in self._tests:
            if test(unit):
                return name
        return None


def excluded_by(pool: Pool, verb: Verb, asker: Job, unit: Unit) -> str | None:
    """`Shields` for a single question."""
    return Shields(pool, verb, asker).excluded_by(unit)


def forbidden(pool: Pool, verb: Verb, asker: Job, leaving: Sequence[Unit]) -> str | None:
    """Why these units, each allowed by itself and none evicted yet, may not all leave; a sentence, or `None`."""
    return budget.within(pool, leaving) or quota_shields.within(pool, verb, asker, leaving)


__all__ = ["RULES", "Rule", "Shields", "excluded_by", "forbidden"]
