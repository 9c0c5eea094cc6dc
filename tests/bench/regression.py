"""`--check`: compares with the figures in git, by ratio to the baseline of the same run, which a slower machine slows as well."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from .table import Row

FIGURES = Path(__file__).with_name("short_ratios.json")
REPETITIONS = 3
TOLERATED = 1.2
"""How much worse than in git a ratio may be."""

Figures = Mapping[str, Mapping[str, float]]
"""By bench, by what is measured: the ratio."""


def measured(measure: Callable[[], Sequence[Row]]) -> tuple[dict[str, float], dict[str, bool]]:
    """By what is measured, the median ratio of a few repetitions; and whether a higher one is better."""
    runs = [[row for row in measure() if row.ratio is not None] for _ in range(REPETITIONS)]
    ratios = {
        row.what: median([each.ratio for run in runs for each in run if each.what == row.what and each.ratio]) for row in runs[0]
    }
    return ratios, {row.what: row.higher_is_better for row in runs[0]}


def worse(before: Mapping[str, float], now: Mapping[str, float], higher_is_better: Mapping[str, bool]) -> list[str]:
    """A line for each figure that is worse than tolerated, or that is measured no more."""
    lines = [f"{what}: not measured any more" for what in before if what not in now]
    for what, ratio in now.items():
        if what in before:
            factor = before[what] / ratio if higher_is_better[what] else ratio / before[what]
            if factor > TOLERATED:
                lines.append(f"{what}: {ratio:.3g}× its baseline, was {before[what]:.3g}×: {100 * (factor - 1):.0f} % worse")
    return lines


def read_figures() -> dict[str, dict[str, float]]:
    """The figures in git."""
    found: dict[str, dict[str, float]] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return found


def write_figures(figures: Figures) -> None:
    """Replace the figures in git."""
    rounded = {bench: {what: float(f"{ratio:.3g}") for what, ratio in rows.items()} for bench, rows in figures.items()}
    FIGURES.write_text(json.dumps(rounded, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
