"""Protections: named rules that exclude jobs from being victims, one file each. Decisions record the names that affected them.

A protection tests, for one preemptor under one action, whether a unit is excluded from the victims. The first one that
excludes a unit (in the order of their `position`) names the group in which the explanation counts it. Some also test a set
of victims as a whole. Every module here that defines `PROTECTION` is a protection: to add one, add its file, its field in
the policy model, and its description in the docs. None but `already-evicting` holds for backfilled jobs against the head of the
queue (`queue/head.py`).
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from pkgutil import iter_modules

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, whole_job
from bailiff_core.placement.equivalence_classes import EquivalenceClass, class_of
from bailiff_core.queue.head import backfilled_victims

from . import already_evicting, quota_shields
from .rule import JobsShield, Rule, SetTest, Shield


def _protections() -> tuple[Rule, ...]:
    modules = [import_module(f"{__name__}.{entry.name}") for entry in iter_modules(__path__)]
    protections: list[Rule] = [module.PROTECTION for module in modules if hasattr(module, "PROTECTION")]
    return tuple(sorted(protections, key=lambda rule: (rule.position, rule.name)))


RULES = _protections()
RULE_NAMED = {rule.name: rule for rule in RULES}


class Shields:
    """The protections in effect for one preemptor under one action: created once, then tested for each unit."""

    def __init__(self, state: PoolState, action: Action, preemptor: Job) -> None:
        self._state = state
        self._backfilled = backfilled_victims(state, action, preemptor)
        self._tests: list[tuple[str, Shield | GroupShield]] = []
        for rule in RULES:
            test = rule.shield(state, action, preemptor)
            if test is None:
                continue
            if rule.by_group:
                last = self._tests[-1][1] if self._tests else None
                if isinstance(last, GroupShield):
                    last.shields.append((rule.name, test))
                else:
                    self._tests.append(("", GroupShield([(rule.name, test)])))
            else:
                self._tests.append((rule.name, test))

    def singled_out(self) -> dict[str, None]:
        """The active jobs that are not judged as their class is; units of one job may differ."""
        found: dict[str, None] = {} if self._backfilled is None else dict(self._state.backfilled)
        for _, test in self._tests:
            if isinstance(test, JobsShield):
                found.update(dict.fromkeys(test.jobs()))
        return found

    def class_excluded_by(self, job: Job) -> str | None:
        """`excluded_by` for the class of the job, of which some jobs are `singled_out`."""
        unit = whole_job(job)
        tests = ((name, test) for name, test in self._tests if not isinstance(test, JobsShield))
        return next((name or str(found) for name, test in tests if (found := test(unit))), None)

    def excluded_by(self, unit: Unit) -> str | None:
        """The name of the first protection that excludes the unit, or `None`: it may be a victim."""
        if self._backfilled is not None and unit.job.backfilled and self._backfilled.permits(unit.job):
            return already_evicting.NAME if already_evicting.is_evicting(unit) else None
        for name, test in self._tests:
            found = test(unit)
            if found:
                return name or str(found)
        return None


def next_protection_end(state: PoolState, actions: Iterable[Action], preemptor: Job) -> int | None:
    """When the first time-based protection ends that excludes a job as this preemptor's victim, µs; `None`: there is none."""
    first: int | None = None
    for action in actions:
        ends_by_rule = {
            rule.name: found for rule in RULES if rule.ends is not None and (found := rule.ends(state, action, preemptor))
        }
        if not ends_by_rule:
            continue
        shields = Shields(state, action, preemptor)
        for job in state.active_jobs():
            moments = [moment for ends in ends_by_rule.values() if (moment := ends(job)) is not None and moment > state.now]
            # The cheap test comes first: most jobs cannot end the wait earlier.
            if not moments or (first is not None and min(moments) >= first) or job.phase not in ("starting", "running"):
                continue
            rule = shields.excluded_by(whole_job(job))
            moment = ends_by_rule[rule](job) if rule in ends_by_rule else None
            if moment is not None and (first is None or moment < first):
                first = moment
    return first


class GroupShield:
    """Protections that depend on a job's class only. Tests each class once."""

    def __init__(self, shields: list[tuple[str, Shield]]) -> None:
        self.shields = shields
        self._by_group: dict[EquivalenceClass, str] = {}

    def __call__(self, unit: Unit) -> str:
        """The name of the first protection that excludes the unit's group; empty: none does."""
        group = class_of(unit.job)
        found = self._by_group.get(group)
        if found is None:
            found = self._by_group[group] = next((name for name, test in self.shields if test(unit)), "")
        return found


def excluded_by(state: PoolState, action: Action, preemptor: Job, unit: Unit) -> str | None:
    """`Shields.excluded_by` for a single unit."""
    return Shields(state, action, preemptor).excluded_by(unit)


class VictimSetTests:
    """Tests of a set of victims as a whole. Created before any victim is evicted on the scheduling snapshot.

    Attributes:
        any: Whether there is any such test.
        of_jobs: Whether there is one that looks at more than what their projects lose.

    Args:
        earlier: Units that are evicted for earlier preemptors of the batch.
    """

    def __init__(self, state: PoolState, action: Action, preemptor: Job, earlier: Sequence[Unit] = ()) -> None:
        tests = {rule.name: rule.set_test(state, action, preemptor, earlier) for rule in reversed(RULES) if rule.set_test}
        in_force = {name: test for name, test in tests.items() if test is not None}
        self._tests: list[SetTest] = list(in_force.values())
        self.any, self.of_jobs = bool(in_force), any(name != quota_shields.NAME for name in in_force)
        self._backfilled = backfilled_victims(state, action, preemptor) if self._tests else None

    def violation(self, victims: Sequence[Unit]) -> str | None:
        """Why these units, each a permitted victim by itself, may not all be evicted, as a sentence; or `None`."""
        if self._backfilled is not None:
            victims = [unit for unit in victims if not unit.job.backfilled or not self._backfilled.permits(unit.job)]
        return next((why for test in self._tests if (why := test(victims)) is not None), None)


__all__ = ["RULES", "RULE_NAMED", "Rule", "Shields", "VictimSetTests", "excluded_by", "next_protection_end"]
