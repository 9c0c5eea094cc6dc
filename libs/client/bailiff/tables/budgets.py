"""Table of the policy's budgets: `bailiff budget list`."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from bailiff_core.views import BudgetView

from .style import table, text

TONES = {"within": "", "warning": "yellow", "exhausted": "red"}


def whose(row: Mapping[str, Any]) -> Text:
    """Whose jobs the budget is of."""
    of = {"project": row["project"], "user": row["user"], "class": row["priority_class"]}
    return text(", ".join(f"{kind} {name}" for kind, name in of.items() if name is not None) or "all jobs")


def budget_level(row: Mapping[str, Any]) -> Text:
    """How far it is used, in its colour."""
    return Text(row["level"], TONES[row["level"]])


def budgets_table(rows: Sequence[BudgetView]) -> RenderableType:
    """GPU-hours of each budget."""
    if not rows:
        return Text("No budgets: the policy field budgets has none.", "dim")
    hours = ("HOURS", "TOPPED UP", "TRANSFERRED", "USED", "LEFT")
    made = table("BUDGET", "OF", "MONTH", *hours, "LEVEL", "AT LIMIT", right=hours)
    for row in rows:
        made.add_row(
            text(row["budget"], "bold"),
            whose(row),
            row["month"],
            str(row["policy_hours"]),
            str(row["topped_up_hours"] or "-"),
            f"{row['transferred_hours']:+}" if row["transferred_hours"] else "-",
            f"{row['used_hours']:.1f}",
            f"{row['left_hours']:.1f}",
            budget_level(row),
            row["at_limit"],
        )
    return made
