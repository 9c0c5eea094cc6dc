"""Alibaba's cluster of 2023 (ATC '23): pods with QoS classes, many with GPU shares. Times are in seconds."""

from importlib.resources.abc import Traversable
from pathlib import Path

from bailiff_sim.cluster import Machine

from .files import shipped
from .jobs import LeftOut, Trace, TraceJob, job_name
from .rows import Row, table

MIB = 1 << 20
SMALLEST_SHARE = 100
TIERS = {"Guaranteed": "inference", "LS": "inference", "Burstable": "interactive", "BE": "train"}
COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos",
    "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip
NOTES = (
    "the trace never requests more than 66 GPUs at once: for contention use a small --cluster or --compress",
    "pods that were still running end with the trace; shares below a tenth of a GPU count as a tenth",
)


def load(source: Path | Traversable | None = None, variant: str = "default") -> Trace:
    """Loads the trace (`default`, `gpuspec33`, `gpushare100`), or a file with the same columns."""
    left_out, taken = LeftOut(), dict[str, int]()

    def job(row: Row) -> TraceJob | None:
        name, gpus, tier = job_name(row, "name", taken), row.count("num_gpu"), row.choice("qos", {tier: tier for tier in TIERS})
        if not gpus:
            return left_out("without a GPU")
        if not row.text("scheduled_time"):
            return left_out("never scheduled")
        began, ended = row.micros("scheduled_time"), row.micros("deletion_time")
        if ended <= began:
            return left_out("without run time")
        return TraceJob(
            name,
            row.micros("creation_time"),
            ended - began,
            gpus,
            gpu_milli=max(SMALLEST_SHARE, min(1000, row.count("gpu_milli"))) if gpus == 1 else 1000,
            tier=tier,
            cpu_milli=row.count("cpu_milli"),
            memory_bytes=row.count("memory_mib") * MIB,
            gpu_models=tuple(model for model in row.text("gpu_spec").split("|") if model),
        )

    jobs = table(source or shipped("alibaba-openb-2023", f"openb_pod_list_{variant}.csv.gz"), COLUMNS, job)
    return Trace(f"alibaba-openb-2023/{variant}", jobs, "3x8", TIERS, left_out=left_out.counts, notes=NOTES)


def cluster() -> list[Machine]:
    """The 1,213 machines with GPUs."""

    def machine(row: Row) -> Machine:
        return Machine(
            row.text("sn"),
            row.count("gpu"),
            row.text("model"),
            cpu_milli=row.count("cpu_milli"),
            memory_bytes=row.count("memory_mib") * MIB,
        )

    columns = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
    return table(shipped("alibaba-openb-2023", "openb_node_list_gpu_node.csv"), columns, machine)
