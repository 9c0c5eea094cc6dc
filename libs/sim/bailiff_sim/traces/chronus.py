"""Chronus (SoCC '21): Philly's jobs with synthetic deadlines. Times are in minutes."""

from importlib.resources.abc import Traversable
from pathlib import Path

from .files import shipped
from .jobs import LeftOut, Trace, TraceJob, job_name, named
from .rows import SECOND, Row, table

MINUTE = 60 * SECOND
TIERS = {"strict": "inference", "soft": "interactive", "best": "train"}
COLUMNS = ("job_id", "user", "num_gpu", "submit_time", "duration", "expect_time_list", "job_type")
NOTES = ("deadlines and their kinds are synthetic; a soft job has several, of which the first is used",)


def load(source: Path | Traversable | None = None, variant: str = "MIX1") -> Trace:
    """Loads the trace (`MIX1`: strict and best effort; `MIX2`: also soft), or a file with the same columns."""
    left_out, taken = LeftOut(), dict[str, int]()

    def job(row: Row) -> TraceJob | None:
        gpus, run_time, tier = row.count("num_gpu"), row.micros("duration", MINUTE), row.choice("job_type", {t: t for t in TIERS})
        name = job_name(row, "job_id", taken)
        if not gpus or not run_time:
            return left_out("without GPUs or run time")
        first = row.text("expect_time_list").partition("-")[0]
        if not first.isdecimal():
            raise row.fault("expect_time_list", "minutes separated by -")
        deadline = None if tier == "best" else int(first) * MINUTE
        submitted = row.micros("submit_time", MINUTE)
        return TraceJob(name, submitted, run_time, gpus, project=named(row.text("user")), tier=tier, deadline=deadline)

    jobs = table(source or shipped("chronus-philly-slo", f"trace_job_Philly_{variant}.csv.gz"), COLUMNS, job)
    return Trace(f"chronus-philly-slo/{variant}", jobs, "150x8", TIERS, left_out=left_out.counts, notes=NOTES)
