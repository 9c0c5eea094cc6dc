"""Budgets in sentences, the same everywhere."""

from bailiff_core.humanize import cost_text
from bailiff_core.model.policy import GpuBudget
from bailiff_core.model.state import PoolState

from .months import month_text
from .use import GPU_HOUR, GPU_MS, hours_of, use_now


def left_ms(state: PoolState, row: GpuBudget) -> int:
    """GPU time that the budget has left in this month, ms, rounded down; never less than 0."""
    use = use_now(state, row)
    return max(0, hours_of(row, use) * GPU_HOUR - use.used) // GPU_MS


def use_text(state: PoolState, row: GpuBudget) -> str:
    """`the budget vision has used 8.2 GPU-h of 10 GPU-h in 2026-12`."""
    use = use_now(state, row)
    of = f"{hours_of(row, use)} GPU-h"
    return f"the budget {row.name} has used {cost_text(use.used // GPU_MS)} of {of} in {month_text(use.month)}"
