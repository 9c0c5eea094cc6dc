"""Cells of tables as plain text, for pipes and terminals."""

from collections.abc import Sequence

from bailiff_core.humanize import duration_text

RESTART = "RESTART COST"
"""The heading of what restarts cost: as the policy assumes, or as measured of jobs that their nodes saved and restored."""


def seconds_cell(number: int | None) -> str:
    """A duration for a cell."""
    return "" if number is None else duration_text(number * 1_000_000) if number else "0s"


def gpus_cell(value: float) -> str:
    """A number of GPUs: `8`, `0.571`."""
    return f"{value:.10g}"


def some(names: Sequence[str], most: int) -> str:
    """The first names, and the number of others."""
    return ", ".join(names[:most]) + (f" +{len(names) - most}" if len(names) > most else "") if names else "-"
