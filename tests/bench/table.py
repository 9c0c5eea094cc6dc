"""What the bench prints: one line per figure, and the same as JSON."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass
class Row:
    """One figure. `baseline` is of the same run and unit; `detail` goes into the JSON only."""

    what: str
    figure: float
    unit: str
    target: str = "-"
    baseline: float | None = None
    baseline_is: str = ""
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Figure by baseline."""
        return self.figure / self.baseline if self.baseline else None

    @property
    def higher_is_better(self) -> bool:
        """Rates; of times and sizes less is better."""
        return self.unit.endswith("/s")

    def to_data(self) -> dict[str, Any]:
        """For the JSON file."""
        return {**asdict(self), "ratio": self.ratio}


@dataclass
class Run:
    """What a bench is given: whether to be quick, a folder of its own, the size of the log to restart on, a voice."""

    quick: bool
    folder: Path
    records: int
    console: Console

    def say(self, text: str) -> None:
        """Tell what is going on."""
        self.console.print(f"  {text}", style="dim", highlight=False)


def show(console: Console, rows: list[Row]) -> None:
    """The table."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("what", "figure", "baseline of the same run", "ratio", "target"):
        table.add_column(name, justify="right" if name in ("figure", "ratio") else "left", overflow="fold")
    for row in rows:
        baseline = f"{number(row.baseline)} {row.baseline_is}" if row.baseline is not None else "-"
        ratio = f"{row.ratio:.2f}×" if row.ratio is not None else "-"
        table.add_row(row.what, f"{number(row.figure)} {row.unit}", baseline, ratio, row.target)
    console.print(table)


def number(value: float) -> str:
    """Three digits that count."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def percentile(values: list[float], percent: float) -> float:
    """The smallest value that this percentage of values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
