"""`bailiff budget`: the policy's budgets of GPU-hours in this month. `requests.py` has the commands that add and move hours."""

from . import requests  # noqa: F401 - `budget top-up` and `budget transfer`
from .session import Session, command


@command("budget list", names="budget")
async def list_budgets(session: Session) -> None:
    """List budgets: GPU-hours of this month (UTC), used and left. They are part of the policy: bailiff policy show"""
    from bailiff.client.preview import at
    from bailiff.tables.budgets import budgets_table
    from bailiff_core.views import budget_views

    async with session.client() as client:
        projection = await client.projection(session.pool)
        rows = budget_views(at(projection.state, client.now()))
        session.show(rows, lambda: budgets_table(rows))
