"""The common trace model: jobs, a default cluster, and omitted rows."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from bailiff_sim.cluster import Machine
from bailiff_sim.workload import End

from .rows import Row, TraceProblem


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace. Times in µs; the origin of `submitted` is the trace's.

    gpu_milli: thousandths of a GPU for a job with a GPU share; else 1000. tier: the trace's name of its class; empty: none.
    deadline: µs after the submission. run_time_limit: of each attempt, µs.
    """

    name: str
    submitted: int
    run_time: int
    gpus: int
    gpu_milli: int = 1000
    per_task: int | None = None
    project: str = ""
    tier: str = ""
    end: End = "succeeded"
    deadline: int | None = None
    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu_models: tuple[str, ...] = ()
    run_time_limit: int | None = None


@dataclass(frozen=True)
class Trace:
    """A loaded trace.

    tiers: default priority class per tier. cluster: default cluster. left_out: number of rows left out, by reason. notes: for the
    user, printed above the results.
    """

    name: str
    jobs: Sequence[TraceJob]
    cluster: str
    tiers: Mapping[str, str] = field(default_factory=dict)
    machines: Sequence[Machine] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()


class LeftOut:
    """Counts rows that are left out, by reason."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def __call__(self, reason: str) -> TraceJob | None:
        """Counts a row and returns None, so that a row parser can return the result."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        return None


INVALID = re.compile(r"[^-a-z0-9._]+")


@lru_cache(maxsize=4096)
def named(text: str, prefix: str = "") -> str:
    """Converts a text of the trace to a valid Bailiff name."""
    found = INVALID.sub("-", f"{prefix}{text}".lower())[:63].strip("-._")
    return found or "none"


def job_name(row: Row, column: str, taken: dict[str, int]) -> str:
    """Returns `job-` and the row's id. taken: line of each name so far. Raises `TraceProblem` for a duplicate."""
    found = named(row.text(column), "job-")
    if found in taken:
        raise TraceProblem(f"{row.file}:{row.line}: {column}: {row.text(column)!r} is a duplicate of line {taken[found]}")
    taken[found] = row.line
    return found
