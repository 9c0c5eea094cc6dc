"""`budget`: limits how many jobs of a group, selected by labels and project, are evicted at a time.

A job counts from the eviction decision until its resources are released. Evicted surplus does not count, because the job
continues; neither do dropped reservations and cancelled jobs.
"""

from collections.abc import Iterable, Sequence

from bailiff_core.humanize import count_text
from bailiff_core.model.job_labels import matches
from bailiff_core.model.policy import Action, Budget
from bailiff_core.model.project_tree import tree_of
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit

from .rule import Rule, SetTest, Shield

NAME = "budget"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Running jobs of groups whose budget is used up."""
    usage = BudgetUsage(state)
    used_up = [budget for budget, left in usage.left if left < 1]

    def covered(unit: Unit) -> bool:
        return _counts(unit) and any(usage.covers(budget, unit.job) for budget in used_up)

    return covered if used_up else None


class BudgetUsage:
    """The policy's budgets and how many jobs of each may still be evicted. earlier: units evicted for earlier preemptors."""

    def __init__(self, state: PoolState, earlier: Sequence[Unit] = ()) -> None:
        budgets = state.rules.protections.budgets
        self._tree = tree_of(state)
        evicting = [state.jobs[name] for name in state.evicting] if budgets else []
        counted = [job for job in evicting if job.phase == "evicting" and not job.cancelled]
        counted += [unit.job for unit in earlier if _counts(unit)]
        self.left = [(budget, budget.max_disruptions - sum(self.covers(budget, job) for job in counted)) for budget in budgets]

    def covers(self, budget: Budget, job: Job) -> bool:
        """Whether the job belongs to the budget's group."""
        if not matches(job, budget.labels.items()):
            return False
        if budget.project is None:
            return True
        return budget.project in self._tree.branches[self._tree.leaf_of(job.project)].path

    def violation(self, victims: Iterable[Unit]) -> str | None:
        """The budget that these victims would exceed, as a sentence, or `None`."""
        jobs = [unit.job for unit in victims if _counts(unit)] if self.left else []
        for budget, left in self.left:
            evictions = sum(self.covers(budget, job) for job in jobs)
            if evictions and evictions > left:
                limit, more = budget.max_disruptions, max(0, left)
                return f"budget {budget.name!r} allows {count_text(limit, 'disruption')} at a time, {more} left"
        return None


def _counts(unit: Unit) -> bool:
    return unit.core and unit.job.phase != "reserved"


def set_test(state: PoolState, action: Action, preemptor: Job, earlier: Sequence[Unit]) -> SetTest | None:  # noqa: ARG001
    """Test for victims that together exceed a budget."""
    usage = BudgetUsage(state, earlier)
    return usage.violation if usage.left else None


PROTECTION = Rule(140, NAME, shield, "belongs to a group whose disruption budget is used up", set_test=set_test)
