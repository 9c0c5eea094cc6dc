"""Table of GPU-hours: `bailiff accounting`."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from bailiff.client.accounting import FIGURES, cell

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


def _figures(row: Mapping[str, Any]) -> list[str]:
    return [*(f"{row[name]:.2f}" for name in FIGURES), str(row["preemptions"]), str(row["jobs"])]


def _window(found: Mapping[str, Any]) -> str:
    begin, end = (str(found[name])[:16].replace("T", " ") for name in ("from", "to"))
    known = found["known_until"]
    late = "" if known is None or str(known) >= str(found["to"]) else f", known until {str(known)[:16].replace('T', ' ')}"
    return f"GPU-hours, {begin} to {end} UTC{late}. Capacity: {found['capacity_gpu_hours']:.2f} GPU-hours."
