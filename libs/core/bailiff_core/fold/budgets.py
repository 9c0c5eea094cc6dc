"""Budgets: how far they are used, and the GPU-hours that requests add or move."""

from bailiff_core.budgets.rows import rows_of
from bailiff_core.budgets.use import use_to_change
from bailiff_core.model.state import ENDED, PoolState
from bailiff_core.records import decisions, facts

from .allocation import reordering
from .classes import apply_priority_class
from .log import remember
from .registry import folds


@folds(decisions.BudgetLevelChanged)
def budget_level_changed(state: PoolState, decision: decisions.BudgetLevelChanged) -> None:
    """What follows of it, or not any more, holds from now on."""
    use = use_to_change(state, decision.budget)
    exhausted = "exhausted" in (use.level, decision.level)
    use.level = decision.level
    if not exhausted:
        return
    for job in state.jobs.values():
        entry = state.rules.find_class(job.class_name)
        if job.phase not in ENDED and entry is not None and any(row.name == decision.budget for row in rows_of(state, job)):
            with reordering(state, job):
                apply_priority_class(state, job, entry)
    state.indices.snapshot = None  # the quotas in force are others
    state.indices.retry_unschedulable = True


@folds(facts.BudgetToppedUp)
def budget_topped_up(state: PoolState, fact: facts.BudgetToppedUp) -> None:
    """More of this month."""
    use_to_change(state, fact.budget).topped_up += fact.gpu_hours
    remember(state, fact.request)


@folds(facts.BudgetTransferred)
def budget_transferred(state: PoolState, fact: facts.BudgetTransferred) -> None:
    """What one has less, the other has more of this month."""
    use_to_change(state, fact.budget).transferred -= fact.gpu_hours
    use_to_change(state, fact.to).transferred += fact.gpu_hours
    remember(state, fact.request)
