"""Muri (SIGCOMM '22): jobs of four Philly tenants with priorities assigned by its authors. Times are in milliseconds."""

from importlib.resources.abc import Traversable
from pathlib import Path

from .files import shipped
from .jobs import LeftOut, Trace, TraceJob, job_name
from .rows import Row, table

MILLISECOND = 1_000
TIERS = {"guaranteed": "inference", "opportunistic": "train"}
TIERS = {"0": "guaranteed", "1": "opportunistic"}
COLUMNS = ("job_id", "num_gpu", "submit_time", "duration", "priority")
CLUSTERS = {"trace1": "40x8", "trace2": "64x8", "trace3": "32x8", "trace4": "64x8"}
NOTES = ("its priorities are synthetic",)


def load(source: Path | Traversable | None = None, variant: str = "trace2") -> Trace:
    """Loads one of the four traces, or a file with the same columns."""
    left_out, taken = LeftOut(), dict[str, int]()

    def job(row: Row) -> TraceJob | None:
        gpus, run_time = row.count("num_gpu"), row.micros("duration", MILLISECOND)
        name, tier = job_name(row, "job_id", taken), row.choice("priority", TIERS)
        if not gpus or not run_time:
            return left_out("without GPUs or run time")
        return TraceJob(name, row.micros("submit_time", MILLISECOND), run_time, gpus, tier=tier)

    jobs = table(source or shipped("muri-philly-priority", f"{variant}.csv.gz"), COLUMNS, job)
    return Trace(f"muri-philly-priority/{variant}", jobs, CLUSTERS[variant], TIERS, left_out=left_out.counts, notes=NOTES)
