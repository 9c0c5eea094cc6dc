"""Where preempt may take jobs anywhere in the pool, what runs within the quota of its own project is left alone.

A project is tested before each unit is taken, as reclaim does it: while it uses more than its quota of something that
the unit uses, the unit may go, and so the last one may take it below. The preemptor's own project is not bound by it: the
quota is its own.

Whatever the policy says, with reclaim on what would be taken straight back is not taken, or the two would evict each other
for ever: from an preemptor whose project would end above its quota, what others run within theirs is left alone, and from one
whose project would end above its share what others run within their shares; "theirs" is then their own project's and that
of each above it which the preemptor is not in.
"""

from collections.abc import Iterable, Iterator, Sequence

from bailiff_core.model.policy import Action
from bailiff_core.model.project_tree import project_text
from bailiff_core.model.resource_vector import UNLIMITED, ZERO, ResourceVector
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.quota.demand_vector import of_unit
from bailiff_core.quota.fair_share import allocatable, fair_shares
from bailiff_core.quota.usage import Usage
from bailiff_core.scheduling_snapshot import current_usage

from .rule import Rule, SetTest, Shield

NAME = "quota-shields"
NO_EXCESS = (False, False, False)
Excess = tuple[bool, ...]


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:
    """Jobs of other projects that are within their quota of all that the job uses."""
    bounds = _Bounds.of(state, action, preemptor)
    if bounds is None:
        return None
    usage = bounds.usage
    excess: dict[str, list[Excess]] = {}

    def shielded(unit: Unit) -> bool:
        project = unit.job.project
        if project == preemptor.project:
            return False
        if project not in excess:
            leaf = usage.leaf_of(unit.job)
            excess[project] = [_excess(usage.allocated(name), bound) for name, bound, _ in bounds.around(leaf)]
        return not all(_touches(each, unit) for each in excess[project])

    return shielded


class Quotas:
    """What projects use and may lose, as it was when this was made."""

    def __init__(self, preemptor: Job, bounds: "_Bounds") -> None:
        self._usage = bounds.usage
        self._asker = preemptor
        self._bounds = bounds
        self._before = bounds.usage.all_allocated()

    @classmethod
    def of(cls, state: PoolState, action: Action, preemptor: Job) -> "Quotas | None":
        """`None` where the rule is off."""
        bounds = _Bounds.of(state, action, preemptor)
        return None if bounds is None else cls(preemptor, bounds)

    def forbid(self, leaving: Iterable[Unit]) -> str | None:
        """Why these may not all go, as a sentence, or `None`.

        They may go where, in some order, each finds its project, and those above it, beyond their bounds. What is left only
        shrinks, so it is the last one of each project that decides, and it may be any job's last.
        """
        lost: dict[str, ResourceVector] = {}
        ends: dict[str, dict[str, Unit]] = {}
        words: dict[str, tuple[ResourceVector, str]] = {}
        for unit in leaving:
            if unit.job.project == self._asker.project:
                continue
            held = self._usage.allocated_to(unit)
            for name, bound, word in self._bounds.around(self._usage.leaf_of(unit.job)):
                words[name] = bound, word
                lost[name] = lost.get(name, ZERO).plus(held)
                last = ends.setdefault(name, {})
                if unit.job.id not in last or not last[unit.job.id].core:
                    last[unit.job.id] = unit

        def may_be_last(unit: Unit, name: str) -> bool:
            left = self._before.get(name, ZERO).minus(lost[name]).plus(self._usage.allocated_to(unit))
            return _touches(_excess(left, words[name][0]), unit)

        for name, units in ends.items():
            for unit in units.values():
                inner = self._bounds.around(self._usage.leaf_of(unit.job))
                path = [each for each, *_ in inner]
                if all(may_be_last(unit, each) for each in path[: path.index(name) + 1]):
                    break
            else:
                return f"{project_text(name)} would lose more than it uses beyond its {words[name][1]}"
        return None


class _Bounds:
    """What of each project is left alone: its quota, or its share.

    beyond_quota, beyond_share: projects of the preemptor that would end above theirs.
    """

    def __init__(self, usage: Usage, preemptor: Job, *, shields: bool) -> None:
        self.usage = usage
        self._shields = shields
        self._path = usage.tree.branches[usage.leaf_of(preemptor)].path
        self._shares: dict[str, ResourceVector] = {}
        self._beyond_quota: dict[str, None] = {}
        self._beyond_share: dict[str, None] = {}
        self._known: dict[str, list[tuple[str, ResourceVector, str]]] = {}

    @classmethod
    def of(cls, state: PoolState, action: Action, preemptor: Job) -> "_Bounds | None":
        """`None` where the rule is off for this preemptor."""
        rules = state.rules
        if action != "preempt" or rules.scope != "pool" or not rules.projects:
            return None
        found = cls(current_usage(state), preemptor, shields=rules.preemption.quota_shields)
        unit = next_unit(preemptor)
        if unit is not None and "reclaim" in rules.preemption.actions:
            found._look_beyond(unit)
        return found if found._shields or found._beyond_quota else None

    def _look_beyond(self, unit: Unit) -> None:
        usage = self.usage
        self._shares = fair_shares(usage.tree, usage.total, usage.requests, usage.divided)
        asked = of_unit(unit, usage.smallest)
        for name in self._path[:-1]:
            after = usage.allocated(name).plus(asked)
            if any(_excess(after, usage.tree.branches[name].quota)):
                self._beyond_quota[name] = None
            if any(_excess(after, self._share(name))):
                self._beyond_share[name] = None

    def around(self, leaf: str) -> list[tuple[str, ResourceVector, str]]:
        """The project and those above it that the preemptor is not in, innermost first, with what of each is left alone."""
        if leaf not in self._known:
            self._known[leaf] = list(self._around(leaf))
        return self._known[leaf]

    def _around(self, leaf: str) -> Iterator[tuple[str, ResourceVector, str]]:
        path = self.usage.tree.branches[leaf].path
        mine = [name for name in self._path if name not in path]
        share = any(name in self._beyond_share for name in mine)
        taken_back = any(name in self._beyond_quota for name in mine)
        if not taken_back and not self._shields:
            return
        for name in path if taken_back else path[:1]:
            if name in self._path and name != leaf:
                return
            yield name, self._share(name) if share else self.usage.tree.branches[name].quota, "share" if share else "quota"

    def _share(self, name: str) -> ResourceVector:
        return allocatable(self.usage.tree.branches[name], self._shares[name])


def _excess(allocated: ResourceVector, quota: ResourceVector) -> Excess:
    return tuple(bound != UNLIMITED and used > bound for used, bound in zip(allocated, quota, strict=True))


def _touches(excess: Excess, unit: Unit) -> bool:
    """Whether the unit uses something of which there is more than enough."""
    return excess != NO_EXCESS and any(
        (excess[0] and (group.gpu_milli or group.gpu_share_milli or group.gpu_share_bytes))
        or (excess[1] and group.cpu_milli)
        or (excess[2] and group.memory_bytes)
        for group in unit.job.demand.tasks
    )


def together(state: PoolState, action: Action, preemptor: Job, earlier: Sequence[Unit]) -> SetTest | None:  # noqa: ARG001
    """Sets of victims that would take a project below what it is entitled to."""
    quotas = Quotas.of(state, action, preemptor)
    return None if quotas is None else quotas.forbid


PROTECTION = Rule(90, NAME, shield, "is within the quota, or the fair share, of its project", together=together)
