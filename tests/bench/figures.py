"""The figures of all benches: `figures.json` keeps them, and docs/reference/figures.md is rendered from it.

`python -m tests.bench --keep [NAME …]` measures anew and keeps the figures; `python -m tests.bench.figures [--check]` renders.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bailiff_core.engine import LOGIC

from .table import Row, number

FILE = Path(__file__).with_name("figures.json")
PAGE = Path(__file__).parents[2] / "docs/reference/figures.md"
TARGET = re.compile(r"([≤≥]) ([\d.,]+) ?(\S+)")
HEAD = """# Figures

Rendered from `tests/bench/figures.json` by `python -m tests.bench.figures`; do not edit. How to measure, and what limits each
figure: [benchmarks](benchmarks.md).

The command is `.venv/bin/python -m tests.bench` with the words in the column *bench*, unless it is written out. A figure is
*stale* when decisions have changed since it was measured (`LOGIC` is {logic} now).

| what | figure | baseline of the same run | target | bench | measured |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Figure:
    """One figure, as the page shows it. target: with its verdict."""

    what: str
    figure: str
    baseline: str
    target: str


@dataclass(frozen=True)
class Measurement:
    """One run of a bench. bench: its words on the command line. logic: None before the numbering of 0.1.0. machine: its load."""

    bench: str
    date: str
    machine: str
    commit: str | None
    logic: int | None
    figures: tuple[Figure, ...]

    @property
    def stale(self) -> bool:
        """Whether decisions have changed since."""
        return self.logic is None or self.logic < LOGIC


def figure_of(row: Row) -> Figure:
    """A row of a bench as the page shows it."""
    baseline = "–" if row.baseline is None else f"{number(row.baseline)} {row.baseline_is}"
    if row.ratio is not None:
        baseline = f"{baseline} ({row.ratio:.2f}×)"
    return Figure(row.what, f"{number(row.figure)} {row.unit}", baseline, _with_verdict(row))


def _with_verdict(row: Row) -> str:
    found = TARGET.fullmatch(row.target)
    if found is None:
        return "–" if row.target == "-" else row.target
    sign, limit, unit = found.groups()
    reached = row.ratio if unit == "×" else row.figure if row.unit.startswith(unit) else None
    if reached is None:
        return row.target
    met = reached <= float(limit.replace(",", "")) if sign == "≤" else reached >= float(limit.replace(",", ""))
    return f"{row.target}: {'met' if met else '**missed**'}"


def read() -> list[Measurement]:
    """What is kept, in the page's order."""
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    return [Measurement(**{**each, "figures": tuple(Figure(**figure) for figure in each["figures"])}) for each in kept]


def keep(measured: Measurement) -> None:
    """Replace what is kept of this bench, in its place."""
    before = read()
    name = measured.bench.split()[0]
    at = next((place for place, each in enumerate(before) if each.bench.split()[0] == name), len(before))
    others = [each for each in before if each.bench.split()[0] != name]
    write([*others[:at], measured, *others[at:]])


def write(measurements: Iterable[Measurement]) -> None:
    """Replace the file and the page."""
    kept = list(measurements)
    FILE.write_text(json.dumps([asdict(each) for each in kept], indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(kept), encoding="utf-8")


def page(measurements: Sequence[Measurement]) -> str:
    """The page of the documentation."""
    lines = []
    for each in measurements:
        bench = f"`{each.bench}`"
        measured = ", ".join(filter(None, (each.date, each.machine, each.commit, "*stale*" if each.stale else "")))
        lines += [
            f"| {row.what} | {row.figure} | {row.baseline} | {row.target} | {bench} | {measured} |\n" for row in each.figures
        ]
    return HEAD.format(logic=LOGIC) + "".join(lines)


def main() -> None:
    """Render the page, or compare it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.figures", description="Renders docs/reference/figures.md.")
    parser.add_argument("--check", action="store_true", help="1 if the page is not what the file renders to")
    rendered = page(read())
    if not parser.parse_args().check:
        PAGE.write_text(rendered, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != rendered:
        sys.exit("docs/reference/figures.md is out of date: run `make docs`")


if __name__ == "__main__":
    main()
