"""Which budgets of the policy a job's use counts for."""

from collections.abc import Iterator
from itertools import product

from bailiff_core.model.policy import GpuBudget
from bailiff_core.model.project_tree import tree_of
from bailiff_core.model.state import Job, PoolState
from bailiff_core.permissions import Requester, sender_name

Jobs = tuple[str | None, str | None, str | None]


class Rows:
    """The budgets by the jobs that they are of: project, user and class."""

    def __init__(self, budgets: tuple[GpuBudget, ...]) -> None:
        self.budgets = budgets
        self.has_users = any(row.user is not None for row in budgets)
        self.by_jobs: dict[Jobs, GpuBudget] = {(row.project, row.user, row.priority_class): row for row in budgets}


def rows_of(state: PoolState, job: Job) -> Iterator[GpuBudget]:
    """The budgets that the job uses: of its project and those above it, of its user, of its class."""
    budgets = state.rules.budgets
    if not budgets:
        return
    rows = state.indices.budget_rows
    if not isinstance(rows, Rows) or rows.budgets is not budgets:
        rows = state.indices.budget_rows = Rows(budgets)
    tree = tree_of(state)
    path = tree.branches[tree.leaf_of(job.project)].path[:-1]  # without the root
    users = (_user_of(state, job), None) if rows.has_users else (None,)
    for jobs in dict.fromkeys(product((*path, None), users, (job.class_name, None))):
        row = rows.by_jobs.get(jobs)
        if row is not None:
            yield row


def _user_of(state: PoolState, job: Job) -> str | None:
    """A verified user as one, by whatever names below it; what others claim to be counts where the policy has no keys."""
    if job.user_verified:
        return sender_name(state.rules, Requester(job.user, "signed"))
    return None if state.rules.identity.keys else job.user or None


def row_named(state: PoolState, name: str) -> GpuBudget | None:
    """The budget of that name; `None`: the policy has none."""
    return next((row for row in state.rules.budgets if row.name == name), None)
