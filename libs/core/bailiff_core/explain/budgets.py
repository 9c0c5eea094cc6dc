"""Budgets in explanations: why a job waits for one, what it would use of one, and how far each is used."""

from collections.abc import Iterator

from bailiff_core.budgets.effects import STOPPING, exhausted_of, lowest_class
from bailiff_core.budgets.months import month_begins, month_of
from bailiff_core.budgets.rows import rows_of
from bailiff_core.budgets.text import left_ms, use_text
from bailiff_core.budgets.use import hours_of, use_now
from bailiff_core.humanize import cost_text, duration_text, gpus_text
from bailiff_core.model.policy import GpuBudget
from bailiff_core.model.project_tree import tree_of
from bailiff_core.model.state import Job, PoolState
from bailiff_core.quota.demand_vector import of_job
from bailiff_core.records.wire import time_text
from bailiff_core.scheduling_snapshot import current_usage

from .sentences import Sentence, seqs_of


def waits_for_budget(state: PoolState, job: Job) -> str | None:
    """Why nothing more of the job starts in this month; None: no budget stops it."""
    row = exhausted_of(state, job, *STOPPING)
    return None if row is None else f"{use_text(state, row)}: {_follows(state, row)}"


def budget_sentences(state: PoolState, job: Job) -> Iterator[Sentence]:
    """The budgets of the job that are at their warning or exhausted, and what follows."""
    for row in rows_of(state, job):
        text = _near(state, row)
        if text:
            yield Sentence(text, seqs_of(state.policy_revision))


def budgets_near(state: PoolState, project: str | None = None) -> list[str]:
    """The same for all budgets, as texts.

    Args:
        project: Only those of everybody's jobs in it.
    """
    tree = tree_of(state)
    path = (None, *tree.branches[tree.leaf_of(project or "")].path)
    rows = [row for row in state.rules.budgets if project is None or (row.user is None and row.project in path)]
    return [text for row in rows if (text := _near(state, row))]


def would_use(state: PoolState, job: Job, *, short: bool = False) -> list[str]:
    """What the job would use of what its budgets have left, as sentences without a full stop.

    Args:
        short: Only of budgets that are at their warning, or that the job would exhaust within its limit or the month.
    """
    gpus = int(of_job(job, current_usage(state).largest).gpu_milli)
    found = []
    for row in rows_of(state, job) if gpus else ():
        left, limit = left_ms(state, row), job.demand.run_time_limit
        until = month_begins(month_of(state.now) + 1) - state.now
        most = gpus * min(until, until if limit is None else limit) // 1_000_000
        if short and state.budgets[row.name].level == "within" and most <= left:
            continue
        of = f"{cost_text(left)} of {hours_of(row, use_now(state, row))} GPU-h left this month"
        if limit is None:
            lasts = duration_text(left * 1_000_000 // gpus // 1_000_000 * 1_000_000)
            follows = f"with {gpus_text(gpus)} they last {lasts}"
        else:
            follows = f"it would use at most {cost_text(gpus * limit // 1_000_000)} of them"
        found.append(f"the budget {row.name} has {of}: {follows}")
    return found


def _near(state: PoolState, row: GpuBudget) -> str:
    level = state.budgets[row.name].level
    if level == "within":
        return ""
    text = use_text(state, row)
    return f"{text[0].upper()}{text[1:]}: {_follows(state, row) if level == 'exhausted' else f'warned at {row.warn_at} %'}."


def _follows(state: PoolState, row: GpuBudget) -> str:
    """What an exhausted budget means for its jobs, and until when."""
    follows = {
        "lowest-class": f"its jobs are as of the class {lowest_class(state.rules).name}",
        "borrow-only": f"project {row.project} has no quota, and only borrows",
        "stop-admitting": "no more of its jobs start",
        "evict": "its jobs are evicted, and no more start",
    }[row.at_limit]
    until = time_text(month_begins(month_of(state.now) + 1))[:16].replace("T", " ")
    return f"{follows} until {until} UTC or a top-up (policy field budgets: at_limit {row.at_limit})"
