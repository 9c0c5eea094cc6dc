"""A group of jobs, named by labels and project, loses at most so many at a time.

A job counts from the decision that it leaves until it is gone. Surplus that leaves costs the group nothing: the job
goes on. Neither does a reservation that is dropped, nor a job that its owner wants gone.
"""

from collections.abc import Iterable, Sequence

from bailiff_core.model.policy import Action, Budget
from bailiff_core.model.project_tree import tree_of
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit

from .labels import matches
from .rule import Rule, SetTest, Shield

NAME = "budget"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Running jobs of a group that can lose nobody more at present."""
    groups = Groups(state)
    spent = [budget for budget, left in groups.left if left < 1]

    def covered(unit: Unit) -> bool:
        return _counts(unit) and any(groups.covers(budget, unit.job) for budget in spent)

    return covered if spent else None


class Groups:
    """The groups that the policy names, and what each may still lose. `earlier`: units about to leave for others."""

    def __init__(self, state: PoolState, earlier: Sequence[Unit] = ()) -> None:
        budgets = state.rules.protections.budgets
        self._tree = tree_of(state) if budgets else None
        leaving = [state.jobs[name] for name in state.evicting] if budgets else []
        gone = [job for job in leaving if job.phase == "evicting" and not job.cancelled]
        gone += [unit.job for unit in earlier if _counts(unit)]
        self.left = [(budget, budget.max_disruptions - sum(self.covers(budget, job) for job in gone)) for budget in budgets]

    def covers(self, budget: Budget, job: Job) -> bool:
        """Whether the job is one of the group."""
        if not matches(job, budget.labels.items()):
            return False
        if budget.project is None or self._tree is None:
            return True
        return budget.project in self._tree.branches[self._tree.leaf_of(job.project)].path

    def forbid(self, leaving: Iterable[Unit]) -> str | None:
        """Why these may not all go, as a sentence, or `None`."""
        jobs = [unit.job for unit in leaving if _counts(unit)] if self.left else []
        for budget, left in self.left:
            lost = sum(self.covers(budget, job) for job in jobs)
            if lost and lost > left:
                most, more = budget.max_disruptions, max(0, left)
                return f"budget {budget.name!r} lets at most {most} of its jobs leave at a time, {more} more now"
        return None


def _counts(unit: Unit) -> bool:
    return unit.core and unit.job.phase != "reserved"


def together(state: PoolState, action: Action, preemptor: Job, earlier: Sequence[Unit]) -> SetTest | None:  # noqa: ARG001
    """Sets of victims that a budget does not allow."""
    groups = Groups(state, earlier)
    return groups.forbid if groups.left else None


PROTECTION = Rule(140, NAME, shield, "belongs to a group whose disruption budget is used up", together=together)
