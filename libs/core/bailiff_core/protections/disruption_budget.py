"""`budget`: limits how many jobs of a group, selected by labels and project, are evicted at a time.

A job counts from the eviction decision until its resources are released. Evicted surplus counts only where the job restarts
to shrink, else it continues; neither do dropped reservations and cancelled jobs.
"""

from collections.abc import Iterable, Sequence

from bailiff_core.humanize import count_text
from bailiff_core.model.job_labels import is_covered
from bailiff_core.model.policy import Action, Budget
from bailiff_core.model.project_tree import tree_of
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, restarts_to_shrink

from .rule import JobsShield, Rule, SetTest, Shield

NAME = "budget"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Running jobs of groups whose budget is used up."""
    usage = BudgetUsage(state)
    used_up = [budget for budget, left in usage.left if left < 1]

    def covers(job: Job) -> bool:
        return job.id not in usage.counted and any(usage.covers(budget, job) for budget in used_up)

    return JobsShield.where(state, covers, lambda unit: _counts(unit) and covers(unit.job)) if used_up else None


class BudgetUsage:
    """The policy's budgets and how many jobs of each may still be evicted.

    Attributes:
        counted: Jobs that are being evicted: what more of them goes counts no further.

    Args:
        earlier: Units evicted for earlier preemptors.
    """

    def __init__(self, state: PoolState, earlier: Sequence[Unit] = ()) -> None:
        budgets = state.rules.protections.budgets
        self._state, self._tree = state, tree_of(state)
        evicting = [state.jobs[name] for name in state.evicting]
        stopping = (job for job in evicting if job.phase == "evicting" or restarts_to_shrink(job))
        self.counted = {job.id: job for job in stopping if not job.cancelled}
        self.counted |= {unit.job.id: unit.job for unit in earlier if _counts(unit)}
        used = [(budget, sum(self.covers(budget, job) for job in self.counted.values())) for budget in budgets]
        self.left = [(budget, budget.max_disruptions - disruptions) for budget, disruptions in used]

    def covers(self, budget: Budget, job: Job) -> bool:
        """Whether the job belongs to the budget's group."""
        if not is_covered(self._state, job, budget.labels):
            return False
        if budget.project is None:
            return True
        return budget.project in self._tree.branches[self._tree.leaf_of(job.project)].path

    def violation(self, victims: Iterable[Unit]) -> str | None:
        """The budget that these victims would exceed, as a sentence, or `None`."""
        jobs = {unit.job.id: unit.job for unit in victims if _counts(unit) and unit.job.id not in self.counted}
        for budget, left in self.left:
            evictions = sum(self.covers(budget, job) for job in jobs.values())
            if evictions and evictions > left:
                limit, more = budget.max_disruptions, max(0, left)
                return f"budget {budget.name!r} allows {count_text(limit, 'disruption')} at a time, {more} left"
        return None


def _counts(unit: Unit) -> bool:
    return unit.stops_job and unit.job.phase != "reserved"


def set_test(state: PoolState, action: Action, preemptor: Job, earlier: Sequence[Unit]) -> SetTest | None:  # noqa: ARG001
    """Test for victims that together exceed a budget."""
    usage = BudgetUsage(state, earlier)
    return usage.violation if usage.left else None


PROTECTION = Rule(
    140, NAME, shield, "belongs to a group whose disruption budget is used up", set_test=set_test, field="protections.budgets"
)
