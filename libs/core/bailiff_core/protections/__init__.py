"""Who may not be a victim, and when. One file per named rule; the name stands in the record of the decision.

A rule of `RULES` gives, for one asker under one verb, the test whether a unit is shielded. The first rule that shields a
unit names the group in which the explanation counts it. Two rules also look at a chosen set as a whole (`Together`).
The other files are rules of their own kind: about the asker (`delay`, `no_borrowing`), about those who wait (`ageing`,
`schedule_timeout`, `start_within`), about a gang that broke (`stale_gang`).
"""

from collections.abc import Iterable, Sequence

from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import Unit, whole

from . import (
    already_leaving,
    budget,
    cooldown,
    displaced_asker,
    eviction_cap,
    excluded,
    held,
    lower_priority_only,
    min_runtime,
    not_preemptible,
    own_project,
    own_room,
    quota_shields,
    scope,
)
from .rule import Rule, Shield

RULES = (
    Rule(already_leaving.NAME, already_leaving.shield, "is on its way out already"),
    Rule(held.NAME, held.shield, "waits for room reserved for it", by_group=True),
    Rule(not_preemptible.NAME, not_preemptible.shield, "is not preemptible", by_group=True),
    Rule(lower_priority_only.NAME, lower_priority_only.shield, "does not have lower priority", by_group=True),
    Rule(scope.NAME, scope.shield, "is of another project", by_group=True),
    Rule(own_project.NAME, own_project.shield, "is of the same project", by_group=True),
    Rule(own_room.NAME, own_room.shield, "waits for room that jobs of the asker's project are leaving"),
    Rule(displaced_asker.NAME, displaced_asker.shield, "has displaced the asker, or one that displaced it"),
    Rule(quota_shields.NAME, quota_shields.shield, "is within the quota, or the share, of its own project"),
    Rule(excluded.NAME, excluded.shield, "has a label that the policy excludes"),
    Rule(min_runtime.NAME, min_runtime.shield, "has not had its minimum run time yet", ends=min_runtime.ends),
    Rule(eviction_cap.NAME, eviction_cap.shield, "was evicted as often as the policy allows", ends=eviction_cap.ends),
    Rule(cooldown.NAME, cooldown.shield, "has only just come back from an eviction", ends=cooldown.ends),
    Rule(budget.NAME, budget.shield, "is of a group that can lose nobody more at present"),
)


class Shields:
    """The rules that are on for one asker under one verb: made once, asked for each unit."""

    def __init__(self, pool: Pool, verb: Verb, asker: Job) -> None:
        self._tests: list[tuple[str, Shield | Groups]] = []
        for rule in RULES:
            test = rule.shield(pool, verb, asker)
            if test is None:
                continue
            if rule.by_group:
                last = self._tests[-1][1] if self._tests else None
                if isinstance(last, Groups):
                    last.rules.append((rule.name, test))
                else:
                    self._tests.append(("", Groups([(rule.name, test)])))
            else:
                self._tests.append((rule.name, test))

    @property
    def by_group(self) -> bool:
        """Whether no rule is on that could tell jobs of one group apart; units of one job it may."""
        return all(isinstance(test, Groups) or name == already_leaving.NAME for name, test in self._tests)

    def excluded_by(self, unit: Unit) -> str | None:
        """The name of the first rule that shields the unit, or `None`: it may be taken."""
        for name, test in self._tests:
            found = test(unit)
            if found:
                return name or str(found)
        return None


def next_to_open(pool: Pool, verbs: Iterable[Verb], asker: Job) -> int | None:
    """The first moment, µs, at which a shield of time ends that keeps a job from this asker now; `None`: there is none."""
    first: int | None = None
    for verb in verbs:
        timed = {rule.name: found for rule in RULES if rule.ends is not None and (found := rule.ends(pool, verb, asker))}
        shields = Shields(pool, verb, asker) if timed else None
        for job in pool.active_jobs() if shields is not None else ():
            moments = [moment for ends in timed.values() if (moment := ends(job)) is not None and moment > pool.now]
            if not moments or (first is not None and min(moments) >= first) or job.phase not in ("starting", "running"):
                continue
            rule = shields.excluded_by(whole(job)) if shields is not None else None
            moment = timed[rule](job) if rule in timed else None
            if moment is not None and moment > pool.now and (first is None or moment < first):
                first = moment
    return first


class Groups:
    """Rules that cannot tell jobs of one group apart: each group is tested once."""

    def __init__(self, rules: list[tuple[str, Shield]]) -> None:
        self.rules = rules
        self._known: dict[tuple[str, int, str, bool], str] = {}

    def __call__(self, unit: Unit) -> str:
        """The first of the rules that shields the unit's group; empty: none does."""
        job = unit.job
        group = (job.phase, job.priority, job.project, job.preemptible)
        found = self._known.get(group)
        if found is None:
            found = self._known[group] = next((name for name, test in self.rules if test(unit)), "")
        return found


def excluded_by(pool: Pool, verb: Verb, asker: Job, unit: Unit) -> str | None:
    """`Shields` for a single question."""
    return Shields(pool, verb, asker).excluded_by(unit)


class Together:
    """What rules say of a set of units as a whole. Made before any of them is evicted in the pool's scene.

    earlier: units that leave for others, as decided a moment ago.
    """

    def __init__(self, pool: Pool, verb: Verb, asker: Job, earlier: Sequence[Unit] = ()) -> None:
        self._budgets = budget.Groups(pool, earlier)
        self._quotas = quota_shields.Quotas.of(pool, verb, asker)
        self.on = bool(self._budgets.left) or self._quotas is not None

    def forbids(self, leaving: Sequence[Unit]) -> str | None:
        """Why these units, each allowed by itself, may not all leave; a sentence, or `None`."""
        spent = self._budgets.forbid(leaving)
        return spent if spent is not None or self._quotas is None else self._quotas.forbid(leaving)


__all__ = ["RULES", "Rule", "Shields", "Together", "excluded_by", "next_to_open"]
