"""The budgets of a pool in this month: how far they are used, top-ups, transfers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bailiff.client.errors import InvalidRequest
from bailiff.pool_results import Budget
from bailiff.results import Accepted

from . import convert
from .access import Access

if TYPE_CHECKING:
    from bailiff_core.records.request import RequestBody

BudgetList = list[Budget]


class Budgets:
    """The budgets of a pool's policy in this month (UTC)."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def list(self, *, pool: str | None = None) -> BudgetList:
        """All budgets, in the policy's order, with what they have used until now."""
        from bailiff.client.preview import at
        from bailiff_core.views import budget_views

        state = await self._access.state(pool)
        return [convert.budget(row) for row in budget_views(at(state, self._access.client.now()))]

    async def top_up(self, budget: str, gpu_hours: int, *, reason: str, pool: str | None = None) -> Accepted:
        """Adds GPU-hours to a budget until the end of this month.

        Args:
            budget: Its name in the policy.
            reason: Recorded in the log.

        Raises:
            InvalidRequest: An argument is invalid; nothing was sent.
            Rejected: Admission rejected it, as `no-such-budget`.
            NotPermitted: You are no operator.
        """
        from bailiff_core.records.budget_requests import TopUpBudget

        return await self._request(pool, TopUpBudget, budget=budget, gpu_hours=gpu_hours, reason=reason)

    async def transfer(self, budget: str, to: str, gpu_hours: int, *, reason: str, pool: str | None = None) -> Accepted:
        """Gives GPU-hours that a budget has left to another one until the end of this month.

        Args:
            budget: The one that gives them.
            to: The one that gets them.
            reason: Recorded in the log.

        Raises:
            InvalidRequest: An argument is invalid; nothing was sent.
            Rejected: Admission rejected it, as `not-enough-budget`.
            NotPermitted: You are no operator.
        """
        from bailiff_core.records.budget_requests import TransferBudget

        return await self._request(pool, TransferBudget, budget=budget, to=to, gpu_hours=gpu_hours, reason=reason)

    async def _request(self, pool: str | None, kind: type[RequestBody], **values: Any) -> Accepted:
        from pydantic import ValidationError

        try:
            body = kind.model_validate(values)
        except ValidationError as error:
            faults = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_url=False)]
            raise InvalidRequest(faults) from None
        return await self._access.request(await self._access.pool(pool), body)
