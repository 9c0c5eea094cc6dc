"""Budgets: how far they are used, on record, and the evictions that the policy asks for (`at_limit: evict`)."""

from collections.abc import Iterator

from bailiff_core.budgets.effects import exhausted, exhausted_of
from bailiff_core.budgets.months import month_begins
from bailiff_core.budgets.use import GPU_MS, hours_of, level_changes, level_of, use_now
from bailiff_core.model.state import PoolState
from bailiff_core.records.decisions import BudgetLevelChanged, ReservationDropped
from bailiff_core.records.payload import Decision

from .termination import ACTIVE, eviction_decision

HOUR_MS = 3_600_000


def budget_levels(state: PoolState) -> Iterator[Decision]:
    """Records how far a budget is used, whenever that changes."""
    for row in level_changes(state).due(state) if state.rules.budgets else ():
        use = use_now(state, row)
        yield BudgetLevelChanged(
            budget=row.name,
            level=level_of(row, use),
            month=month_begins(use.month),
            used_gpu_ms=use.used // GPU_MS,
            of_gpu_ms=hours_of(row, use) * HOUR_MS,
        )


def budget_evictions(state: PoolState) -> Iterator[Decision]:
    """Evicts the jobs of exhausted budgets where the policy says so, oldest job first."""
    if not exhausted(state, "evict"):
        return
    for job in sorted(state.active_jobs(), key=lambda job: (job.seq, job.id)):
        row = exhausted_of(state, job, "evict")
        if row is None:
            continue
        if job.phase == "reserved":
            yield ReservationDropped(job=job.id, reason="policy", preemption=job.preemption)
        elif job.phase in ACTIVE:
            yield eviction_decision(state, job, "budget", f"the budget {row.name} is exhausted (policy field budgets: at_limit)")
