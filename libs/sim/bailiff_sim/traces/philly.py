"""Philly (Microsoft, 2017; ATC '19), in the version of Pollux's simulator: 82,247 jobs of 15 tenants, without priorities."""

from importlib.resources.abc import Traversable
from pathlib import Path

from .files import shipped
from .jobs import LeftOut, Trace, TraceJob, named
from .rows import Row, table

CLUSTER = "231x8,321x2"  # the 2,490 GPUs of the paper, by the machine list of the original trace
NOTES = ("the arrival is the trace's timestamp; the trace has no queueing times and no outcomes",)


def load(source: Path | Traversable | None = None) -> Trace:
    """Loads the trace, or a file with the same columns."""
    left_out = LeftOut()

    def job(row: Row) -> TraceJob | None:
        gpus, run_time = row.count("num_gpus"), row.micros("duration")
        if not gpus or not run_time:
            return left_out("without GPUs or run time")
        name = f"job-{row.line - 1:06d}"
        return TraceJob(name, row.moment("timestamp"), run_time, gpus, project=named(row.text("cluster"), "vc-"))

    jobs = table(source or shipped("philly-2017", "philly.csv.gz"), ("timestamp", "duration", "num_gpus", "cluster"), job)
    return Trace("philly-2017", jobs, CLUSTER, left_out=left_out.counts, notes=NOTES)
