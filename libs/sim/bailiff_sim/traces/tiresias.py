"""Tiresias' demonstration (NSDI '19): 60 jobs, for 32 machines of 4 GPUs. Times are in seconds."""

from importlib.resources.abc import Traversable
from pathlib import Path

from .files import shipped
from .jobs import LeftOut, Trace, TraceJob, job_name
from .rows import Row, table

COLUMNS = ("job_id", "num_gpu", "submit_time", "duration")


def load(source: Path | Traversable | None = None) -> Trace:
    """Loads the trace, or a file with the same columns."""
    left_out, taken = LeftOut(), dict[str, int]()

    def job(row: Row) -> TraceJob | None:
        gpus, run_time, name = row.count("num_gpu"), row.micros("duration"), job_name(row, "job_id", taken)
        if not gpus or not run_time:
            return left_out("without GPUs or run time")
        return TraceJob(name, row.micros("submit_time"), run_time, gpus)

    jobs = table(source or shipped("tiresias-60", "60_job.csv"), COLUMNS, job)
    return Trace("tiresias-60", jobs, "32x4", left_out=left_out.counts)
