"""`quota-shields`: with scope `pool`, protects jobs that run within the quota of their project from preempt.

A project is tested before each eviction, as for reclaim: while it uses more than its quota of a resource that the unit uses,
the unit may be evicted, so the last eviction may take the project below its quota. Jobs of the preemptor's own project are not
protected: they share one quota.

With reclaim enabled, part of the rule applies whatever the policy says, because the other project would reclaim the resources
at once and both would evict each other without end. Where the preemptor's project would exceed its quota, jobs of other
projects within their quota are protected; where it would exceed its fair share, those within their fair share. The bounds are
then those of the victim's project and of each of its ancestors that is not an ancestor of the preemptor. The same part applies
under consolidate: what is only borrowed moves no job of a project that is entitled to what it uses.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from bailiff_core.model.gpu_kinds import FIRST
from bailiff_core.model.policy import Action
from bailiff_core.model.project_tree import are_several, projects_text
from bailiff_core.model.resource_vector import UNLIMITED, ZERO, ResourceVector
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.placement.equivalence_classes import GPUS, KINDS, class_of
from bailiff_core.quota.demand_vector import of_unit
from bailiff_core.quota.usage import Usage
from bailiff_core.scheduling_snapshot import current_usage

from .rule import Rule, SetTest, Shield

NAME = "quota-shields"
Excess = tuple[bool, ...]


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:
    """Jobs of other projects that are within their bound for all resources that the job uses."""
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
            excess[project] = [_excess(usage.allocated(name), bound) for name, bound, _ in bounds.bounds_of(leaf)]
        return not all(_touches(each, unit) for each in excess[project])

    return shielded


def exceeded(state: PoolState, action: Action, preemptor: Job) -> tuple[tuple[Excess, ...], ...] | None:
    """Equal for preemptors of one project from which the rule protects the same units; `None` where it is off.

    By project, which of its bounds are exceeded. It depends on the preemptor's demand, and on what earlier preemptors of a batch
    evict and take.
    """
    bounds = _Bounds.of(state, action, preemptor)
    if bounds is None:
        return None
    usage = bounds.usage
    return tuple(
        tuple(_excess(usage.allocated(name), bound) for name, bound, _ in bounds.bounds_of(project))
        for project in usage.tree.branches
    )


class VictimQuotas:
    """Tests victims as a whole against the bounds of their projects, on the usage at the time of creation."""

    def __init__(self, preemptor: Job, bounds: "_Bounds") -> None:
        self._usage = bounds.usage
        self._preemptor = preemptor
        self._bounds = bounds
        self._allocated = bounds.usage.all_allocated()

    @classmethod
    def of(cls, state: PoolState, action: Action, preemptor: Job) -> "VictimQuotas | None":
        """`None` where the rule is off."""
        bounds = _Bounds.of(state, action, preemptor)
        return None if bounds is None else cls(preemptor, bounds)

    def violation(self, victims: Iterable[Unit]) -> str | None:
        """The bound that these victims would violate, as a sentence, or `None`.

        They are permitted if in some order each is evicted while its project, and the project's ancestors, exceed their bounds.
        Usage only shrinks, so the last eviction of each project decides; it may be the last unit of any of the jobs.
        """
        leaves: dict[str, None] = {}
        lost: dict[str, ResourceVector] = {}
        last_units: dict[str, dict[str, Unit]] = {}
        bounds: dict[str, tuple[ResourceVector, str]] = {}
        for unit in victims:
            if unit.job.project == self._preemptor.project:
                continue
            used, leaf = self._usage.allocated_to(unit), self._usage.leaf_of(unit.job)
            leaves[leaf] = None
            for name, bound, kind in self._bounds.bounds_of(leaf):
                bounds[name] = bound, kind
                lost[name] = lost.get(name, ZERO).plus(used)
                last = last_units.setdefault(name, {})
                if unit.job.id not in last or not last[unit.job.id].core:
                    last[unit.job.id] = unit

        def may_be_last(unit: Unit, name: str) -> bool:
            used = self._usage.allocated_to(unit)
            excess = _excess(self._allocated.get(name, ZERO).minus(lost[name]).plus(used), bounds[name][0])
            if len(used) > FIRST:  # of GPUs, those of the kinds that it holds
                return any(excess[at] and used[at] > 0 for at in range(1, len(used)))
            return _touches(excess[:FIRST], unit)

        def some_may_be_last(name: str) -> bool:
            for unit in last_units[name].values():
                path = [each for each, *_ in self._bounds.bounds_of(self._usage.leaf_of(unit.job))]
                if all(may_be_last(unit, each) for each in path[: path.index(name) + 1]):
                    return True
            return False

        barred = {name: bounds[name][1] for name in last_units if not some_may_be_last(name)}
        return self._barred_text(leaves, barred) if barred else None

    def _barred_text(self, leaves: Iterable[str], barred: Mapping[str, str]) -> str:
        """Who would lose too much, of each leaf and its ancestors the innermost one. barred: the kinds of their bounds."""
        of_kind: dict[str, dict[str, None]] = {}
        for leaf in leaves:
            name = next((name for name, *_ in self._bounds.bounds_of(leaf) if name in barred), None)
            if name is not None:
                of_kind.setdefault(barred[name], {})[name] = None
        texts = []
        for kind, names in of_kind.items():
            beyond = "they use beyond their" if are_several(list(names)) else "it uses beyond its"
            texts.append(f"{projects_text(list(names))} would lose more than {beyond} {kind}")
        return ", and ".join(texts)


class _Bounds:
    """The protected part of each project: its quota, or its share.

    _beyond_quota, _beyond_share: the preemptor's project and its ancestors that would exceed theirs.
    """

    def __init__(self, usage: Usage, preemptor: Job, *, shields: bool) -> None:
        self.usage = usage
        self._shields = shields
        self._path = usage.tree.branches[usage.leaf_of(preemptor)].path
        self._beyond_quota: dict[str, None] = {}
        self._beyond_share: dict[str, None] = {}
        self._by_leaf: dict[str, list[tuple[str, ResourceVector, str]]] = {}

    @classmethod
    def of(cls, state: PoolState, action: Action, preemptor: Job) -> "_Bounds | None":
        """`None` where the rule is off for this preemptor."""
        rules = state.rules
        moves = action == "consolidate"
        if not rules.projects or not (moves or (action == "preempt" and rules.scope == "pool")):
            return None
        found = cls(current_usage(state), preemptor, shields=rules.preemption.quota_shields and not moves)
        unit = next_unit(preemptor)
        if unit is not None and (moves or "reclaim" in rules.preemption.actions):
            found._note_exceeded(unit)
        return found if found._shields or found._beyond_quota else None

    def _note_exceeded(self, unit: Unit) -> None:
        usage = self.usage
        requested = of_unit(unit, usage.smallest)
        for name in self._path[:-1]:
            after = usage.allocated(name).plus(requested)
            if any(_excess(after, usage.entitlements[name].quota)):
                self._beyond_quota[name] = None
            if any(_excess(after, usage.entitlements[name].most)):
                self._beyond_share[name] = None

    def bounds_of(self, leaf: str) -> list[tuple[str, ResourceVector, str]]:
        """The project and its ancestors outside the preemptor's path, innermost first: name, bound, kind of bound."""
        if leaf not in self._by_leaf:
            self._by_leaf[leaf] = list(self._find_bounds(leaf))
        return self._by_leaf[leaf]

    def _find_bounds(self, leaf: str) -> Iterator[tuple[str, ResourceVector, str]]:
        path = self.usage.tree.branches[leaf].path
        own_side = [name for name in self._path if name not in path]
        share = any(name in self._beyond_share for name in own_side)
        reclaimable = any(name in self._beyond_quota for name in own_side)
        if not reclaimable and not self._shields:
            return
        for name in path if reclaimable else path[:1]:
            if name in self._path and name != leaf:
                return
            entitled = self.usage.entitlements[name]
            yield name, entitled.most if share else entitled.quota, "share" if share else "quota"


def _excess(allocated: ResourceVector, quota: ResourceVector) -> Excess:
    return tuple(bound != UNLIMITED and used > bound for used, bound in zip(allocated, quota, strict=False))


def _touches(excess: Excess, unit: Unit) -> bool:
    """Whether the unit's job uses a resource of which its project exceeds the bound."""
    *_, kinds = class_of(unit.job)
    all_kinds = (*KINDS, *(GPUS for _ in excess[len(KINDS) :]))  # perhaps it holds GPUs of that kind
    return any(exceeds and kinds & kind for exceeds, kind in zip(excess, all_kinds, strict=True))


def set_test(state: PoolState, action: Action, preemptor: Job, earlier: Sequence[Unit]) -> SetTest | None:  # noqa: ARG001
    """Test for victims that together would take a project below its entitlement."""
    quotas = VictimQuotas.of(state, action, preemptor)
    return None if quotas is None else quotas.violation


PROTECTION = Rule(
    90,
    NAME,
    shield,
    "is within the quota, or the fair share, of its project",
    set_test=set_test,
    by_group=True,
    field="preemption.quota_shields",
)
