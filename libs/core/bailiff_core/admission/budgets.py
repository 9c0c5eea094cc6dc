"""Admits what adds GPU-hours to budgets or moves them, and says why a budget admits no job."""

from bailiff_core.budgets.effects import STOPPING, exhausted_of
from bailiff_core.budgets.months import month_begins, month_of
from bailiff_core.budgets.rows import row_named
from bailiff_core.budgets.text import left_ms, use_text
from bailiff_core.budgets.use import hours_of, use_now
from bailiff_core.humanize import cost_text, first_names
from bailiff_core.model.document import MAX_GPU_HOURS
from bailiff_core.model.state import Job, PoolState
from bailiff_core.records.budget_requests import TopUpBudget, TransferBudget
from bailiff_core.records.payload import Fact

from .handlers import Context, admits
from .rejected import Rejected

HOUR_MS = 3_600_000


def budget_exhausted(state: PoolState, job: Job) -> Rejected | None:
    """Why the job is not admitted in this month."""
    row = exhausted_of(state, job, *STOPPING)
    if row is None:
        return None
    reason = f"{use_text(state, row)}, and the policy admits no more of its jobs (budgets: at_limit {row.at_limit})"
    return Rejected.later("budget-exhausted", reason, month_begins(month_of(state.now) + 1), job.id)


@admits(TopUpBudget)
def top_up(context: Context, body: TopUpBudget) -> Fact | Rejected:
    """Of a budget that the policy has."""
    state = context.state
    return _without_reason(body) or _unknown(state, body.budget) or _too_many(state, body.budget, body) or context.record(body)


@admits(TransferBudget)
def transfer(context: Context, body: TransferBudget) -> Fact | Rejected:
    """Between two budgets that the policy has, of what the first has left."""
    state = context.state
    unknown = _without_reason(body) or _unknown(state, body.budget) or _unknown(state, body.to)
    if unknown is not None:
        return unknown
    if body.budget == body.to:
        return Rejected("malformed", "to: name another budget than the one that gives")
    row = row_named(state, body.budget)
    left = left_ms(state, row) if row is not None else 0
    if body.gpu_hours * HOUR_MS > left:
        return Rejected("not-enough-budget", f"the budget {body.budget} has {cost_text(left)} left in this month")
    return _too_many(state, body.to, body) or context.record(body)


def _without_reason(body: TopUpBudget | TransferBudget) -> Rejected | None:
    return None if body.reason.strip() else Rejected("malformed", "reason: say why")


def _too_many(state: PoolState, name: str, body: TopUpBudget | TransferBudget) -> Rejected | None:
    row = row_named(state, name)
    if row is None or hours_of(row, use_now(state, row)) + body.gpu_hours <= MAX_GPU_HOURS:
        return None
    return Rejected("malformed", f"gpu_hours: the budget {name} would have more than {MAX_GPU_HOURS} in this month")


def _unknown(state: PoolState, name: str) -> Rejected | None:
    if row_named(state, name) is not None:
        return None
    known = [row.name for row in state.rules.budgets]
    has = f"it has {first_names(known)}" if known else "it has none"
    return Rejected("no-such-budget", f"the policy has no budget {name!r}: {has}")
