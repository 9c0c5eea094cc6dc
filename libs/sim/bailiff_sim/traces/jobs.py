"""The common trace model: jobs, a default cluster, and omitted rows."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from bailiff_sim.cluster import Machine
from bailiff_sim.workload import End

from .rows import Row, TraceProblem, shipped, table


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace. Times in µs; the origin of `submitted` is the trace's.

    Attributes:
        gpu_milli: Thousandths of a GPU for a job with a GPU share; else 1000.
        tier: The trace's name of its class; empty: none.
        deadline: µs after the submission.
        run_time_limit: Of each attempt, µs.
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

    Attributes:
        tiers: Default priority class per tier.
        cluster: Default cluster.
        left_out: Number of rows left out, by reason.
        notes: For the user, printed above the results.
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


class Jobs(LeftOut):
    """The jobs of one file, so far: their names, and what is left out."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[str, int] = {}

    def name(self, row: Row, column: str) -> str:
        """Returns `job-` and the row's id. Raises `TraceProblem` for a duplicate."""
        found = named(row.text(column), "job-")
        if found in self._lines:
            raise TraceProblem(
                f"{row.file}:{row.line}: {column}: {row.text(column)!r} is a duplicate of line {self._lines[found]}"
            )
        self._lines[found] = row.line
        return found


@dataclass(frozen=True)
class Format:
    """A table with a job in each row.

    Attributes:
        job: Makes the job of a row; None: it is left out.
        file: The table in `traces_data`, if Bailiff brings it.
    """

    name: str
    columns: Sequence[str]
    job: Callable[[Row, Jobs], TraceJob | None]
    cluster: str
    tiers: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    file: str = ""
    delimiter: str = ","

    def load(self, source: Path | None = None) -> Trace:
        """Reads the bundled table, or a file with the same columns. Raises `TraceProblem`."""
        read = Jobs()
        table_file = shipped(*self.file.split("/")) if source is None else source
        jobs = table(table_file, self.columns, lambda row: self.job(row, read), self.delimiter)
        tiers = dict.fromkeys((job.tier for job in jobs if job.tier), "") | dict(self.tiers)
        return Trace(self.name, jobs, self.cluster, tiers, left_out=read.counts, notes=self.notes)
