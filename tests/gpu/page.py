"""What was measured, as docs/measurements.md."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HEAD = """# Measurements on a GPU

`make test-gpu` writes this page: it runs the pool's services and jobs on the machine's GPU, and measures them. It takes at most
eight minutes. Every figure below is from the one run that this table names.

"""
NO_CARD = """
This run had **no GPU**: a mock of the library answered for NVML. What needs CUDA is empty, and the times are those of a busy
machine. They show that the program runs, and say nothing about a GPU.
"""


NO_GPU = "– (needs a GPU)"


@dataclass(frozen=True)
class Row:
    """One figure, or one outcome. values: of all runs, none where it could not be measured. outcome: where it is no figure."""

    what: str
    values: Sequence[float] = ()
    unit: str = "ms"
    outcome: str = ""
    failed: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing was measured."""
        return not self.values and not self.outcome


@dataclass
class Section:
    """Rows of one step, and why some are empty."""

    title: str
    rows: list[Row] = field(default_factory=list)
    note: str = ""


def written(machine: Mapping[str, str], sections: Sequence[Section], *, has_card: bool) -> str:
    """The page."""
    parts = [HEAD, table(("", ""), [(name, value) for name, value in machine.items()])]
    if not has_card:
        parts.append(NO_CARD)
    for section in sections:
        parts.append(f"\n## {section.title}\n\n")
        if section.note:
            parts.append(f"{section.note}\n\n")
        figures = [row for row in section.rows if not row.outcome]
        outcomes = [row for row in section.rows if row.outcome]
        if figures:
            parts.append(table(("", "runs", "median", "95 %", "longest"), [figure(row) for row in figures]))
        if outcomes:
            gap = "\n" if figures else ""
            parts.append(gap + table(("", "outcome"), [(row.what, row.outcome) for row in outcomes]))
    return "".join(parts)


def figure(row: Row) -> tuple[str, ...]:
    """The cells of a row with values."""
    if not row.values:
        return row.what, "0", "–", "–", "–"
    ordered = sorted(row.values)
    shown = [amount(value, row.unit) for value in (quantile(ordered, 0.5), quantile(ordered, 0.95), ordered[-1])]
    return row.what, str(len(ordered)), *shown


def quantile(ordered: Sequence[float], part: float) -> float:
    """The smallest value that at least this part of the values does not exceed."""
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def amount(value: float, unit: str) -> str:
    """Three digits are enough."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown; figures are aligned to the right."""
    rule = ["---", *("--:" if len(head) > 2 else "---" for _ in head[1:])]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, rule, *rows))


def write(path: Path, text: str) -> None:
    """Replace the page."""
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
