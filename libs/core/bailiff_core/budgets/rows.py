"""Which budgets of the policy a job's use counts for."""

from collections.abc import Iterator
from itertools import product

from bailiff_core.model.policy import GpuBudget, Policy
from bailiff_core.model.project_tree import ProjectTree, tree_of
from bailiff_core.model.state import Job, PoolState
from bailiff_core.permissions import Requester, sender_name

Jobs = tuple[str | None, str | None, str | None]


class Rows:
    """The budgets by the jobs that they are of: project, user and class."""

    def __init__(self, budgets: tuple[GpuBudget, ...]) -> None:
        self.budgets = budgets
        self.has_users = any(row.user is not None for row in budgets)
        self.by_jobs: dict[Jobs, GpuBudget] = {(row.project, row.user, row.priority_class): row for row in budgets}

    def of(
        self, policy: Policy, tree: ProjectTree, project: str, user: str, priority_class: str, *, verified: bool
    ) -> Iterator[GpuBudget]:
        """Those that a job of this project, user and class uses."""
        path = tree.branches[tree.leaf_of(project)].path[:-1]  # without the root
        users = (user_of(policy, user, verified=verified), None) if self.has_users else (None,)
        for jobs in dict.fromkeys(product((*path, None), users, (priority_class, None))):
            row = self.by_jobs.get(jobs)
            if row is not None:
                yield row


def rows_of(state: PoolState, job: Job) -> Iterator[GpuBudget]:
    """The budgets that the job uses: of its project and those above it, of its user, of its class."""
    budgets = state.rules.budgets
    if not budgets:
        return
    rows = state.indices.budget_rows
    if not isinstance(rows, Rows) or rows.budgets is not budgets:
        rows = state.indices.budget_rows = Rows(budgets)
    yield from rows.of(state.rules, tree_of(state), job.project, job.user, job.class_name, verified=job.user_verified)


def user_of(policy: Policy, user: str, *, verified: bool) -> str | None:
    """A verified user as one, by whatever names below it; what others claim to be counts where the policy has no keys."""
    if verified:
        return sender_name(policy, Requester(user, "signed"))
    return None if policy.identity.keys else user or None


def row_named(state: PoolState, name: str) -> GpuBudget | None:
    """The budget of that name; `None`: the policy has none."""
    return next((row for row in state.rules.budgets if row.name == name), None)
