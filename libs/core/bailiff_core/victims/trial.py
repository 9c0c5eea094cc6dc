"""One request's trial: the evictions and placements tried for a preemptor, and what its action permits.

Solvers try evictions and placements only through the trial: `mark` and `rollback` cover the nodes' resources and the projects'
usage together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from bailiff_core.model.policy import Action
from bailiff_core.model.project_tree import NO_BOUNDS, are_several, projects_text
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement, NoFit, place_unit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.protections import RULE_NAMED, Shields, VictimSetTests, payback
from bailiff_core.queue.head import backfilled_victims
from bailiff_core.quota.demand_vector import Scale
from bailiff_core.quota.quota_aware_placement import of_each_kind, place_within_bounds
from bailiff_core.quota.quota_checks import (
    CapAtFairShare,
    Excess,
    Shares,
    cooldown_violation,
    excesses,
    may_reclaim,
    over_limit,
    over_quota,
)
from bailiff_core.quota.reclaim import Reclaim
from bailiff_core.quota.resource_snapshot import Mark
from bailiff_core.scheduling_snapshot import SchedulingSnapshot

from .candidates import CandidateIndex, Candidates, EvictionChain, EvictionStep
from .knapsack import KnapsackCache


def action_not_permitted(
    snapshot: SchedulingSnapshot, shares: Shares, unit: Unit, action: Action, scale: Scale | None = None
) -> str | None:
    """Why the unit may not use this action, whatever the victims; `None` if it may.

    Args:
        scale: Measures the unit for its fair share; default: by the largest device that it accepts.
    """
    return payback.why_not_grow(snapshot.state, unit) or _not_entitled(snapshot, shares, unit, action, scale)


def _not_entitled(snapshot: SchedulingSnapshot, shares: Shares, unit: Unit, action: Action, scale: Scale | None) -> str | None:
    rules = snapshot.state.rules.preemption
    if action not in rules.actions:
        return "policy field preemption.actions lacks it"
    if action == "preempt" and not unit.job.may_preempt and backfilled_victims(snapshot.state, action, unit.job) is None:
        return f"jobs of class {unit.job.class_name} may not preempt (policy field preemption_policy of the class: Never)"
    if action == "reclaim" and not snapshot.state.rules.projects:
        return "the policy has no projects to reclaim from (policy field projects)"
    if action == "reclaim":
        scale = scale or snapshot.usage.largest
        barred = [may_reclaim(snapshot, shares, each, scale) for each in of_each_kind(snapshot, unit) or [unit]]
        return None if None in barred else barred[0]
    if action == "consolidate":
        if rules.max_migrations == 0:
            return "the policy does not allow migrations (policy field preemption.max_migrations is 0)"
        if not unit.job.preemptible:
            return "no job is relocated for a job that is not preemptible itself"
        return over_limit(snapshot, unit) or cooldown_violation(snapshot, unit)
    return over_quota(snapshot, unit)


def over_limits(
    snapshot: SchedulingSnapshot, unit: Unit, action: Action, cap: CapAtFairShare | None, place: GangPlacement | None = None
) -> str | None:
    """Why the unit would exceed a limit or, with a `cap`, its fair share, or violate a cooldown, on the pool as it is tried."""
    over = over_limit(snapshot, unit, place)
    if over is None and cap is not None:
        over = cap.forbids(place)
    return over if over is not None or action == "reclaim" else cooldown_violation(snapshot, unit)


class Moves:
    """The gates of victims that are moved and that the action may not take: those of consolidate, whatever the action.

    Attributes:
        most: The most jobs that may move.
    """

    def __init__(self, snapshot: SchedulingSnapshot, shares: Shares, unit: Unit, earlier: Sequence[Unit]) -> None:
        self._snapshot, self._job, self._earlier = snapshot, unit.job, earlier
        self.forbidden = action_not_permitted(snapshot, shares, unit, "consolidate")
        allowed = snapshot.state.rules.preemption.max_migrations
        self.most = len(snapshot.state.active) if allowed is None else allowed

    def violation(self, moved: Sequence[Unit], taken: Sequence[Unit]) -> str | None:
        """Why these units may not be moved, as a sentence, or `None`.

        Args:
            taken: Units of the same set that are not moved: their projects do not use them any more.
        """
        if self.forbidden is not None:
            return f"nothing may be moved: {self.forbidden}"
        state, usage = self._snapshot.state, self._snapshot.usage
        if len({unit.job.id for unit in moved}) > self.most:
            return "the policy does not allow that many migrations (policy field preemption.max_migrations)"
        mark = usage.mark()
        try:
            for unit in taken:
                usage.evict(unit)
            shields = Shields(state, "consolidate", self._job)
            for unit in moved:
                rule = shields.excluded_by(unit)
                if rule is not None:
                    return f"{unit.job.id!r} may not be moved: it {RULE_NAMED[rule].predicate}"
            return VictimSetTests(state, "consolidate", self._job, (*self._earlier, *taken)).violation(moved)
        finally:
            usage.rollback(mark)


class Trial:
    """Evictions and placements tried for one preemptor under one action. Created before anything is evicted for it.

    Where the preemptor's limits may depend on who is evicted (`has_limits`), the usage of projects follows each eviction. `free`
    leaves the usage as it is: for victims that are relocated, and for sets that `rejects` judges as a whole.

    Args:
        earlier: Units evicted for earlier preemptors of the same batch.
    """

    def __init__(
        self, snapshot: SchedulingSnapshot, shares: Shares, unit: Unit, action: Action, earlier: Sequence[Unit] = ()
    ) -> None:
        self.snapshot = snapshot
        self.cluster = snapshot.cluster
        self.unit = unit
        self.action = action
        self.set_tests = VictimSetTests(snapshot.state, action, unit.job, earlier)
        self._shares, self._earlier = shares, earlier
        self.reclaim = Reclaim(snapshot, shares, unit) if action == "reclaim" else None
        self.cap_at_fair_share = CapAtFairShare.of(snapshot, shares, unit, action)
        self.limited = self.over_limit_now() is not None
        self.constrains_placement = snapshot.usage.by_place(unit.job) and self._has_bounds()
        self.has_limits = self.limited or self.constrains_placement  # evictions may be needed for the preemptor's limits alone
        self.constrains_set = self.reclaim is not None or self.set_tests.any

    # --- trying

    def mark(self) -> Mark:
        """A savepoint for `rollback`."""
        return self.snapshot.mark()

    def rollback(self, mark: Mark) -> None:
        """Undo everything since `mark`."""
        self.snapshot.rollback(mark)

    def evict(self, unit: Unit) -> None:
        """Try the unit's eviction: its resources are releasing, and its project does not use them any more."""
        self.cluster.evict(unit)
        if self.has_limits:
            self.snapshot.usage.evict(unit)

    def restore(self, unit: Unit) -> None:
        """Undo `evict` of this unit."""
        self.cluster.restore(unit)
        if self.has_limits:
            self.snapshot.usage.restore(unit)

    def free(self, unit: Unit) -> None:
        """Only free the unit's resources."""
        self.cluster.evict(unit)

    def occupy(self, unit: Unit) -> None:
        """Undo `free` of this unit."""
        self.cluster.restore(unit)

    def could_stay(self, unit: Unit) -> bool:
        """Whether an evicted unit still fits in its original placement."""
        return self.cluster.original_place_is_free(unit)

    def take(self, unit: Unit, place: GangPlacement) -> None:
        """Take the resources of a placement found for the unit."""
        self.cluster.place(unit, place)

    def place(self, budget: StepBudget) -> GangPlacement | NoFit | str:
        """A reserved placement of the preemptor within its limits; its resources are taken."""
        return place_within_bounds(self.snapshot, self.unit, budget, reserve=True, over=self._over)

    def find_place(self, budget: StepBudget, *, limits: bool = True) -> GangPlacement | NoFit | str:
        """As `place`, without taking anything.

        Args:
            limits: Whether the placement must be within the preemptor's limits.
        """
        mark = self.mark()
        limits = limits and self.constrains_placement
        found = self.place(budget) if limits else place_unit(self.cluster, self.unit, budget, reserve=True)
        self.rollback(mark)
        return found

    # --- what the action permits

    def violation(self, evicted: Sequence[Unit], taken: Sequence[Unit] | None = None) -> str | None:
        """Why these units may not all be evicted. Monotone: subsets of permitted sets are permitted.

        Args:
            taken: Units that are not relocated; None: all.
        """
        violation = self.set_tests.violation(evicted)
        if violation is not None or self.reclaim is None:
            return violation
        taken = evicted if taken is None else taken
        return None if self.reclaim.admits(taken) else self._excess_loss_text(self.reclaim, taken)

    def allows(self, evicted: Sequence[Unit], taken: Sequence[Unit] | None = None) -> bool:
        """Whether `violation` is None, without building the sentence."""
        if self.set_tests.violation(evicted) is not None:
            return False
        return self.reclaim is None or self.reclaim.admits(evicted if taken is None else taken)

    def allowed_alone(self, candidates: Candidates) -> dict[str, EvictionChain]:
        """By job the steps that are allowed if no other job is evicted: no allowed set has others."""
        if not self.constrains_set:
            return candidates.chains
        found: dict[str, EvictionChain] = {}
        for name, chain in candidates.chains.items():
            allowed: EvictionChain = []
            for step in chain:
                if not self.allows([*(each.unit for each in allowed), step.unit]):
                    break
                allowed.append(step)
            if allowed:
                found[name] = allowed
        return found

    def imbalance(self, taken: Sequence[Unit]) -> str | None:
        """Why a permitted set may not be evicted as a whole: reclaim would only reverse the imbalance."""
        return None if self.reclaim is None else self.reclaim.imbalance(taken)

    @cached_property
    def moves(self) -> Moves:
        """The gates of victims that the action may not take."""
        return Moves(self.snapshot, self._shares, self.unit, self._earlier)

    def move_violation(self, evicted: Sequence[Unit], taken: Sequence[Unit]) -> str | None:
        """Why those of the evicted units that are not `taken` may not be moved instead, as a sentence, or `None`.

        Whoever may be taken may be moved: only under reclaim may some not be taken.
        """
        stopped = {id(unit): None for unit in taken}
        moved = [unit for unit in evicted if id(unit) not in stopped]
        if not moved or self.reclaim is None or (self.allows(evicted) and self.imbalance(evicted) is None):
            return None
        return self.moves.violation(moved, taken)

    def forbids(self, taken: Sequence[Unit]) -> str | None:
        """Why this set may not be evicted, as a sentence, or `None`."""
        return self.violation(taken) or self.imbalance(taken)

    def rejects(self, taken: Sequence[Unit]) -> bool:
        """Whether this set is not permitted: forbidden, imbalanced, or too small to keep the preemptor within its limits."""
        return not self.allows(taken) or self.imbalance(taken) is not None or self.over_limit_after(taken) is not None

    def over_limit_after(self, evicted: Iterable[Unit], place: GangPlacement | None = None) -> str | None:
        """Why the preemptor would exceed a limit or its fair share, or violate a cooldown, even after these evictions."""
        usage = self.snapshot.usage
        mark = usage.mark()
        for unit in evicted:
            usage.evict(unit)
        over = self.over_limit_now(place)
        usage.rollback(mark)
        return over

    def over_limit_now(self, place: GangPlacement | None = None) -> str | None:
        """`over_limit_after` on the pool as it is tried now."""
        return over_limits(self.snapshot, self.unit, self.action, self.cap_at_fair_share, place)

    def excesses(self) -> list[Excess]:
        """What has to be given back before the preemptor is within its limits, on the pool as it is tried now."""
        return list(excesses(self.snapshot, self.unit, self.cap_at_fair_share, may_borrow=self.action == "reclaim"))

    def _over(self, place: GangPlacement) -> str | None:
        return self.over_limit_now(place) or over_quota(self.snapshot, self.unit, place)

    def _has_bounds(self) -> bool:
        """Whether any limit of its projects could apply to the preemptor."""
        branches, leaf = self.snapshot.usage.tree.branches, self.snapshot.usage.leaf_of(self.unit.job)
        limited = any(branches[name].limit != NO_BOUNDS for name in branches[leaf].path)
        capped_by_quota = not self.unit.job.preemptible and bool(self.snapshot.state.rules.projects)
        return limited or capped_by_quota or self.cap_at_fair_share is not None or bool(self.snapshot.state.gpu_reservations)

    def _excess_loss_text(self, reclaim: Reclaim, taken: Iterable[Unit]) -> str:
        of_project: dict[str, list[Unit]] = {}
        for unit in taken:
            of_project.setdefault(reclaim.losing_project(unit.job), []).append(unit)
        barred = {name: units for name, units in of_project.items() if not reclaim.admits(units)}
        within = [name for name, units in barred.items() if not any(reclaim.admits([unit]) for unit in units)]
        beyond = [name for name in barred if name not in within]
        parts = []
        if within:
            parts.append(f"{projects_text(within)} {'use' if are_several(within) else 'uses'} no more than {{}}")
        if beyond:
            parts.append(
                f"{projects_text(beyond)} would lose more than {'they use' if are_several(beyond) else 'it uses'} beyond {{}}"
            )
        theirs = "their fair share and their quota" if are_several(list(barred)) else "its fair share and its quota"
        return ", and ".join(parts).format(theirs, theirs)


@dataclass(frozen=True, slots=True)
class Problem:
    """Find the cheapest permitted set of victims whose eviction makes `unit` fit.

    Solvers roll their trials back and count their steps in `budget`.

    Attributes:
        unit: The trial's unit, or some of its tasks.
        index: Candidates of the batch.
        under_share: Projects whose GPUs count on level 2 of the objective.
        knapsacks: Shared by the searches of a batch.
    """

    trial: Trial
    unit: Unit
    index: CandidateIndex
    under_share: Mapping[str, bool]
    budget: StepBudget
    knapsacks: KnapsackCache

    def candidates(self) -> Candidates:
        """All candidates for this preemptor under the action."""
        return self.index.candidates(self.trial.action, self.unit.job, self.under_share)


@dataclass(slots=True)
class Solution:
    """The best set of victims found, or None.

    Attributes:
        proven: No set is cheaper; without a set: no set suffices.
        candidates: All considered candidates.
        bound: A cost below which no set exists.
        place: Placement of the preemptor, if the solver determined it.
        relocations: Placements of relocated victims, if the solver determined them.
        why: The reason for no set, if known.
    """

    candidates: Candidates
    victims: list[EvictionStep] | None = None
    proven: bool = False
    why: str = ""
    runner_up: Sequence[EvictionStep] = ()
    bound: Sequence[EvictionStep] = ()
    place: GangPlacement | None = None
    relocations: dict[str, GangPlacement] = field(default_factory=dict)


class Solver(Protocol):
    """One method of solving the problem."""

    def solve(self, problem: Problem) -> Solution | None:
        """The solution; `None` if this method does not apply or is inconclusive, so that the next solver is tried."""
        ...
