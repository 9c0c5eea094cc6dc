"""Which jobs preemption may not evict: one file per protection. Its name is in the record of each decision that it affected.

A protection tests, for one preemptor under one action, whether a unit is excluded from the victims. The first one that
excludes a unit (in the order of their `position`) names the group in which the explanation counts it. Some also test a set
of victims as a whole. Every module here with a `PROTECTION` is one: to add a protection, add its file, its field in the
policy model, and its description in the docs.
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from pkgutil import iter_modules

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, whole_job

from . import already_evicting
from .rule import Rule, SetTest, Shield


def _protections() -> tuple[Rule, ...]:
    modules = [import_module(f"{__name__}.{entry.name}") for entry in iter_modules(__path__)]
    found: list[Rule] = [module.PROTECTION for module in modules if hasattr(module, "PROTECTION")]
    return tuple(sorted(found, key=lambda rule: (rule.position, rule.name)))


RULES = _protections()


class Shields:
    """The rules that are on for one preemptor under one action: made once, asked for each unit."""

    def __init__(self, state: PoolState, action: Action, preemptor: Job) -> None:
        self._tests: list[tuple[str, Shield | Groups]] = []
        for rule in RULES:
            test = rule.shield(state, action, preemptor)
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
        return all(isinstance(test, Groups) or name == already_evicting.NAME for name, test in self._tests)

    def excluded_by(self, unit: Unit) -> str | None:
        """The name of the first rule that shields the unit, or `None`: it may be taken."""
        for name, test in self._tests:
            found = test(unit)
            if found:
                return name or str(found)
        return None


def next_to_open(state: PoolState, actions: Iterable[Action], preemptor: Job) -> int | None:
    """The first moment, µs, at which a shield of time ends that keeps a job from this preemptor now; `None`: there is none."""
    first: int | None = None
    for action in actions:
        timed = {rule.name: found for rule in RULES if rule.ends is not None and (found := rule.ends(state, action, preemptor))}
        shields = Shields(state, action, preemptor) if timed else None
        for job in state.active_jobs() if shields is not None else ():
            moments = [moment for ends in timed.values() if (moment := ends(job)) is not None and moment > state.now]
            if not moments or (first is not None and min(moments) >= first) or job.phase not in ("starting", "running"):
                continue
            rule = shields.excluded_by(whole_job(job)) if shields is not None else None
            moment = timed[rule](job) if rule in timed else None
            if moment is not None and moment > state.now and (first is None or moment < first):
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


def excluded_by(state: PoolState, action: Action, preemptor: Job, unit: Unit) -> str | None:
    """`Shields` for a single question."""
    return Shields(state, action, preemptor).excluded_by(unit)


class Together:
    """Tests of a set of victims as a whole. Made before any of them is evicted on the pool's snapshot.

    earlier: units that are evicted for others, as decided a moment ago. on: whether there is any such test.
    """

    def __init__(self, state: PoolState, action: Action, preemptor: Job, earlier: Sequence[Unit] = ()) -> None:
        tests = [rule.together(state, action, preemptor, earlier) for rule in reversed(RULES) if rule.together is not None]
        self._tests: list[SetTest] = [test for test in tests if test is not None]
        self.on = bool(self._tests)

    def forbids(self, leaving: Sequence[Unit]) -> str | None:
        """Why these units, each allowed by itself, may not all be evicted, as a sentence; or `None`."""
        return next((why for test in self._tests if (why := test(leaving)) is not None), None)


__all__ = ["RULES", "Rule", "Shields", "Together", "excluded_by", "next_to_open"]
