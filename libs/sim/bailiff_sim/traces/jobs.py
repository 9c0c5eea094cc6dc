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
    """One job as the trace has it. Times µs; `submitted` counts from wherever the trace does.

    gpu_milli: of one GPU, for a job that shares one; else 1000. tier: the trace's own word for its class; empty: it has none.
    deadline: after the submission, by when its owner wants it.
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


@dataclass(frozen=True)
class Trace:
    """A trace that was read.

    tiers: the priority class of Bailiff's default policy that each of its own words suggests. cluster: machines to try it on
    where nobody says others. left_out: rows that are no jobs of GPUs, by why. notes: what its reader has to know.
    """

    name: str
    jobs: Sequence[TraceJob]
    cluster: str
    tiers: Mapping[str, str] = field(default_factory=dict)
    machines: Sequence[Machine] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()


class LeftOut:
    """Counts rows that become no jobs."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def __call__(self, why: str) -> TraceJob | None:
        """One more, for this reason. What `make` of a table may answer: no job."""
        self.counts[why] = self.counts.get(why, 0) + 1
        return None


UNFIT = re.compile(r"[^-a-z0-9._]+")


@lru_cache(maxsize=4096)
def named(text: str, prefix: str = "") -> str:
    """The trace's word as a name that Bailiff takes."""
    found = UNFIT.sub("-", f"{prefix}{text}".lower())[:63].strip("-._")
    return found or "none"


def job_name(row: Row, column: str, taken: dict[str, int]) -> str:
    """`job-` and the row's own id. taken: the line of each name so far; a second one is a fault."""
    found = named(row.text(column), "job-")
    if found in taken:
        raise TraceProblem(f"{row.file}:{row.line}: {column}: {row.text(column)!r} stands in line {taken[found]} already")
    taken[found] = row.line
    return found
