"""A sample of Acme's Kalos cluster (NSDI '24): 319 LLM jobs, as converted by a third party."""

from importlib.resources.abc import Traversable
from pathlib import Path

from .files import shipped
from .jobs import LeftOut, Trace, TraceJob, job_name
from .rows import SECOND, Row, table

ITERATION = SECOND // 2
COLUMNS = ("job_id", "arrival_time", "num_iteration", "gpu_workers", "gpu_per_worker")
NOTES = ("the run time is the number of iterations times 0.5 s, as in the converter; completed jobs only",)


def load(source: Path | Traversable | None = None) -> Trace:
    """Loads the trace, or a file with the same columns."""
    left_out, taken = LeftOut(), dict[str, int]()

    def job(row: Row) -> TraceJob | None:
        per_task, run_time = row.count("gpu_per_worker"), row.micros("num_iteration", ITERATION)
        name, gpus = job_name(row, "job_id", taken), per_task * row.count("gpu_workers")
        if not gpus or not run_time:
            return left_out("without GPUs or run time")
        return TraceJob(name, row.micros("arrival_time"), run_time, gpus, per_task=per_task)

    jobs = table(source or shipped("acme-kalos-sample", "converted_kalos_trace.csv"), COLUMNS, job)
    return Trace("acme-kalos-sample", jobs, "302x8", left_out=left_out.counts, notes=NOTES)
