"""Tables of GPU-hours: `bailiff accounting`."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from bailiff.client.accounting import FIGURES, cell

from .budgets import budget_level, whose
from .cells import RESTART
from .style import MOST_WIDTH, Unsqueezed, table, text

HEADINGS = tuple({"restart": RESTART}.get(name, name.replace("_", " ").upper()) for name in FIGURES)


def accounting_table(found: Mapping[str, Any], by: Sequence[str]) -> RenderableType:
    """A row for each combination of the keys, and the totals."""
    made = table(*(key.upper() for key in by), *HEADINGS, "PREEMPTED", "JOBS", right=(*HEADINGS, "PREEMPTED", "JOBS"))
    rows = found["rows"] if by else []
    for row in rows:
        made.add_row(*(text(cell(row, key) or "(none)") for key in by), *_figures(row))
    made.add_row(*(["TOTAL", *[""] * (len(by) - 1)] if by else []), *_figures(found["totals"]))
    lines: list[RenderableType] = [Unsqueezed(made, MOST_WIDTH), Text(_window(found), "dim")]
    if found["more"]:
        lines.append(Text(f"only the first {len(rows)} rows are shown; the total has all", "yellow"))
    return Group(*lines)


def month_tables(found: Mapping[str, Any]) -> RenderableType:
    """The report of a month: the budgets, the projects, and below each whom most was lost to."""
    losses = ("LOST", RESTART, "PREEMPTED")
    hours = ("HOURS", "USED", "LEFT", *losses)
    budgets = table("BUDGET", "OF", *hours, "LEVEL", "LOST TO", right=hours)
    for row in found["budgets"]:
        amounts = (str(row["hours"]), f"{row['used']:.2f}", f"{row['left']:.2f}")
        budgets.add_row(text(row["budget"], "bold"), whose(row), *amounts, *_losses(row), budget_level(row), _lost_to(row))
    projects = table("PROJECT", "USED", *losses, "LOST TO", right=("USED", *losses))
    for row in found["projects"]:
        projects.add_row(text(row["project"] or "(none)"), f"{row['used']:.2f}", *_losses(row), _lost_to(row))
    known = found["known_until"]
    late = "" if known is None or str(known) >= str(found["to"]) else f", known until {str(known)[:16].replace('T', ' ')} UTC"
    parts: list[RenderableType] = [Unsqueezed(budgets, MOST_WIDTH), ""] if found["budgets"] else []
    return Group(*parts, Unsqueezed(projects, MOST_WIDTH), Text(f"GPU-hours in {found['month']}{late}.", "dim"))


def _losses(row: Mapping[str, Any]) -> list[str]:
    return [f"{row['lost']:.2f}", f"{row['restart']:.2f}", str(row["preemptions"])]


def _lost_to(row: Mapping[str, Any]) -> Text:
    """The projects that most was lost to, with work and restarts together."""
    named = [f"{each['project'] or '(none)'} {each['lost'] + each['restart']:.2f}" for each in row["lost_to"][:3]]
    return text(", ".join(named) + (f" and {len(row['lost_to']) - 3} more" if len(row["lost_to"]) > 3 else ""))


def _figures(row: Mapping[str, Any]) -> list[str]:
    return [*(f"{row[name]:.2f}" for name in FIGURES), str(row["preemptions"]), str(row["jobs"])]


def _window(found: Mapping[str, Any]) -> str:
    begin, end = (str(found[name])[:16].replace("T", " ") for name in ("from", "to"))
    known = found["known_until"]
    late = "" if known is None or str(known) >= str(found["to"]) else f", known until {str(known)[:16].replace('T', ' ')}"
    return f"GPU-hours, {begin} to {end} UTC{late}. Capacity: {found['capacity_gpu_hours']:.2f} GPU-hours."
