"""Requests about the policy's budgets of GPU-hours, and the record that each leads to."""

from typing import Annotated

from pydantic import Field

from bailiff_core.model.document import MAX_GPU_HOURS, BudgetName, Integer

from .request import Recorded, RequestBody, RequestFact

Budget = Annotated[BudgetName, Field(description="The name of the budget, as in the policy.")]
GpuHours = Annotated[Integer, Field(ge=1, le=MAX_GPU_HOURS, description="How many GPU-hours.")]


class TopUpBudget(RequestBody):
    """Add GPU-hours to a budget until the end of this month (UTC)."""

    VERB = "budget top-up"
    DONE = "{budget} has {gpu_hours} GPU-hours more until the end of the month"
    budget: Budget
    gpu_hours: GpuHours
    reason: Recorded


class BudgetToppedUp(RequestFact, TopUpBudget):
    """The budget has more GPU-hours until the end of the month."""


class TransferBudget(RequestBody):
    """Give GPU-hours of one budget to another until the end of this month (UTC)."""

    VERB = "budget transfer"
    DONE = "{gpu_hours} GPU-hours of {budget} are with {to} until the end of the month"
    budget: Budget
    to: Annotated[BudgetName, Field(description="The budget that gets them.")]
    gpu_hours: GpuHours
    reason: Recorded


class BudgetTransferred(RequestFact, TransferBudget):
    """GPU-hours of one budget are with another until the end of the month."""
