"""Conditions of an action on the preemptor and on the victim set as a whole (docs/concepts/semantics/actions.md)."""

from collections.abc import Iterable, Sequence

from bailiff_core.model.policy import Action
from bailiff_core.model.project_tree import NO_BOUNDS, project_text
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement, NoFit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.protections import VictimSetTests
from bailiff_core.queue.backfilled import backfilled_victims
from bailiff_core.quota.cap_at_fair_share import CapAtFairShare
from bailiff_core.quota.demand_vector import by_bytes
from bailiff_core.quota.project_cooldown import cooldown_violation
from bailiff_core.quota.quota_aware_placement import place_within_bounds
from bailiff_core.quota.quota_checks import Shares, may_reclaim, over_limit, over_quota
from bailiff_core.quota.reclaim import Reclaim
from bailiff_core.scheduling_snapshot import SchedulingSnapshot


def action_not_permitted(snapshot: SchedulingSnapshot, shares: Shares, unit: Unit, action: Action) -> str | None:
    """Why the unit may not use this action, whatever the victims; `None` if it may."""
    rules = snapshot.state.rules.preemption
    if action not in rules.actions:
        return f"the policy does not allow {action}"
    if action == "preempt" and not unit.job.may_preempt and backfilled_victims(snapshot.state, action, unit.job) is None:
        return "its priority class may not preempt"
    if action == "reclaim" and not snapshot.state.rules.projects:
        return "the policy has no projects to reclaim from"
    if action == "reclaim":
        return may_reclaim(snapshot, shares, unit)
    if action == "consolidate":
        if rules.max_migrations == 0:
            return "the policy does not allow migrations (max_migrations is 0)"
        if not unit.job.preemptible:
            return "no job is relocated for a job that is not preemptible itself"
        return over_limit(snapshot, unit) or cooldown_violation(snapshot, unit)
    return over_quota(snapshot, unit)


class Constraints:
    """Tests victim sets for one preemptor. Created before anything is evicted in `snapshot`.

    earlier: units evicted for earlier preemptors of the same batch.
    """

    def __init__(
        self, snapshot: SchedulingSnapshot, shares: Shares, unit: Unit, action: Action, earlier: Sequence[Unit] = ()
    ) -> None:
        self.snapshot = snapshot
        self.unit = unit
        self.action = action
        self.set_tests = VictimSetTests(snapshot.state, action, unit.job, earlier)
        self.reclaim = Reclaim(snapshot, shares, unit) if action == "reclaim" else None
        self.cap_at_fair_share = CapAtFairShare.of(snapshot, shares, unit, action)
        self.limited = self.over_limit_now() is not None
        self.constrains_placement = by_bytes(unit.job) and self._has_bounds()  # its usage depends on the devices of its placement
        self.has_limits = self.limited or self.constrains_placement  # evictions may be needed for the preemptor's limits alone
        self.constrains_set = self.reclaim is not None or self.set_tests.any

    def violation(self, evicted: Sequence[Unit], taken: Sequence[Unit] | None = None) -> str | None:
        """Why these units may not all be evicted. Monotone: subsets of permitted sets are permitted.

        taken: units that are not relocated (default: all).
        """
        if not self.constrains_set:
            return None
        violation = self.set_tests.violation(evicted)
        if violation is not None or self.reclaim is None:
            return violation
        taken = evicted if taken is None else taken
        return None if self.reclaim.admits(taken) else self._excess_loss_text(self.reclaim, taken)

    def allows(self, evicted: Sequence[Unit], taken: Sequence[Unit] | None = None) -> bool:
        """Whether `violation` is None, without building the sentence."""
        if not self.constrains_set:
            return True
        if self.set_tests.violation(evicted) is not None:
            return False
        return self.reclaim is None or self.reclaim.admits(evicted if taken is None else taken)

    def imbalance(self, taken: Sequence[Unit]) -> str | None:
        """Why a permitted set may not be evicted as a whole: reclaim would only reverse the imbalance."""
        return None if self.reclaim is None else self.reclaim.imbalance(taken)

    def _has_bounds(self) -> bool:
        """Whether any limit of its projects could apply to the preemptor."""
        branches, leaf = self.snapshot.usage.tree.branches, self.snapshot.usage.leaf_of(self.unit.job)
        limited = any(branches[name].limit != NO_BOUNDS for name in branches[leaf].path)
        capped_by_quota = not self.unit.job.preemptible and bool(self.snapshot.state.rules.projects)
        return limited or capped_by_quota or self.cap_at_fair_share is not None

    def rejects(self, taken: Sequence[Unit]) -> bool:
        """Whether this set is not permitted: forbidden, imbalanced, or too small to keep the preemptor within its limits."""
        if not self.allows(taken) or self.imbalance(taken) is not None:
            return True
        return self.limited and self.over_limit_after(taken) is not None

    def _excess_loss_text(self, reclaim: Reclaim, taken: Iterable[Unit]) -> str:
        of_project: dict[str, list[Unit]] = {}
        for unit in taken:
            of_project.setdefault(reclaim.losing_project(unit.job), []).append(unit)
        names = [project_text(project) for project, units in of_project.items() if not reclaim.admits(units)]
        return f"{names[0]} would lose more than it uses beyond its fair share and its quota"

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
        """`over_limit_after` on the current snapshot."""
        over = over_limit(self.snapshot, self.unit, place)
        if over is None and self.cap_at_fair_share is not None:
            over = self.cap_at_fair_share.forbids(place)
        return over if over is not None or self.action == "reclaim" else cooldown_violation(self.snapshot, self.unit)

    def place(self, budget: StepBudget) -> GangPlacement | NoFit | str:
        """A reserved placement of the preemptor within its limits on the current snapshot; its resources are taken."""
        return place_within_bounds(self.snapshot, self.unit, budget, reserve=True, over=self._over)

    def _over(self, place: GangPlacement) -> str | None:
        return self.over_limit_now(place) or over_quota(self.snapshot, self.unit, place)
