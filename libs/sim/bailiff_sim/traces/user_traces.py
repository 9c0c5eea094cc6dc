"""Loaders of user-supplied traces: Alibaba 2026 spot, Helios and Acme as published, and Slurm accounting."""

import re
from pathlib import Path

from bailiff_sim.workload import End

from .jobs import LeftOut, Trace, TraceJob, job_name, named
from .rows import Row, table

SPOT_TIERS = {"HP": "inference", "Spot": "train"}
SPOT = ("job_name", "organization", "gpu_model", "gpu_request", "worker_num", "submit_time", "duration", "job_type")
HELIOS = ("job_id", "user", "vc", "gpu_num", "node_num", "state", "submit_time", "duration")
ACME = ("job_id", "user", "gpu_num", "node_num", "type", "state", "submit_time", "duration")
SACCT = ("JobIDRaw", "User", "Account", "Partition", "QOS", "Submit", "Start", "End", "State", "AllocTRES")
SACCT_COMMAND = f"sacct --allusers --allocations --parsable2 --format={','.join(SACCT)} --starttime=… > jobs.txt"
OUTCOMES: dict[str, End] = {
    "COMPLETED": "succeeded", "FAILED": "failed", "TIMEOUT": "failed", "NODE_FAIL": "failed", "OUT_OF_MEMORY": "failed",
    "CANCELLED": "cancelled", "DEADLINE": "failed", "BOOT_FAIL": "failed", "PREEMPTED": "succeeded", "SUSPENDED": "cancelled",
}  # fmt: skip
NOT_ENDED = ("PENDING", "RUNNING", "REQUEUED", "RESIZING", "REVOKED")
GPUS = re.compile(r"(?:^|,)gres/gpu=(\d+)(?:,|$)")
MODELS = re.compile(r"(?:^|,)gres/gpu:[^=,]+=(\d+)")
NODES = re.compile(r"(?:^|,)node=(\d+)(?:,|$)")


def spot(source: Path) -> Trace:
    """Loads `job_info_df.csv` of Alibaba's cluster-trace-v2026-spot-gpu; times are in seconds, `gpu_request` is per worker."""
    left_out, taken = LeftOut(), dict[str, int]()

    def job(row: Row) -> TraceJob | None:
        per_task, workers, run_time = row.micros("gpu_request", 1000), max(1, row.count("worker_num")), row.micros("duration")
        name, tier = job_name(row, "job_name", taken), row.choice("job_type", {tier: tier for tier in SPOT_TIERS})
        model = row.text("gpu_model")
        if not per_task or not run_time:
            return left_out("without GPUs or run time")
        if per_task % 1000 and per_task > 1000:
            raise row.fault("gpu_request", "whole GPUs, or a fraction of one")
        whole = max(1, per_task // 1000)
        return TraceJob(
            name, row.micros("submit_time"), run_time, whole * workers, gpu_milli=max(100, min(1000, per_task)), per_task=whole,
            project=named(row.text("organization")), tier=tier, gpu_models=(model,) if model else (),
        )  # fmt: skip

    return Trace("spot-2026", table(source, SPOT, job), "64x8", SPOT_TIERS, left_out=left_out.counts)


def helios(source: Path) -> Trace:
    """Loads a `cluster_log.csv` of HeliosData."""
    return _states(source, "helios", HELIOS, "vc", "133x8")


def acme(source: Path) -> Trace:
    """Loads `trace_seren.csv` or `trace_kalos.csv` of AcmeTrace."""
    return _states(source, "acme", ACME, "type", "302x8")


def _states(source: Path, name: str, columns: tuple[str, ...], project: str, cluster: str) -> Trace:
    left_out, taken = LeftOut(), dict[str, int]()
    ends = {state: state for state in (*OUTCOMES, *NOT_ENDED)}

    def job(row: Row) -> TraceJob | None:
        gpus, nodes = row.count("gpu_num"), max(1, row.count("node_num"))
        job_id, state = job_name(row, "job_id", taken), row.choice("state", ends)
        if not gpus:
            return left_out("without a GPU")
        if state in NOT_ENDED or not row.micros("duration"):
            return left_out("not ended, or without run time")
        per_task = gpus // nodes if gpus % nodes == 0 else None
        end = OUTCOMES[state]
        owner = named(row.text(project))
        return TraceJob(
            job_id, row.moment("submit_time"), row.micros("duration"), gpus, per_task=per_task, project=owner, end=end
        )

    return Trace(name, table(source, columns, job), cluster, left_out=left_out.counts)


def slurm(source: Path) -> Trace:
    """Loads the output of `SACCT_COMMAND`. The account is the project, the QOS is the tier."""
    left_out, taken, tiers = LeftOut(), dict[str, int](), dict[str, str]()

    def job(row: Row) -> TraceJob | None:
        state = row.text("State").split(" ")[0]
        if state not in OUTCOMES and state not in NOT_ENDED:
            raise row.fault("State", "a state of Slurm, such as COMPLETED")
        if "." in row.text("JobIDRaw"):
            return left_out("job steps")
        job_id, tres = job_name(row, "JobIDRaw", taken), row.text("AllocTRES")
        whole = GPUS.search(tres)
        gpus = int(whole[1]) if whole else sum(map(int, MODELS.findall(tres)))
        if not gpus:
            return left_out("without a GPU")
        if state in NOT_ENDED or row.text("Start") in ("Unknown", "None", ""):
            return left_out("not ended, or never started")
        run_time = row.moment("End") - row.moment("Start")
        if run_time <= 0:
            return left_out("without run time")
        nodes = NODES.search(tres)
        per_task = gpus // int(nodes[1]) if nodes and int(nodes[1]) and gpus % int(nodes[1]) == 0 else None
        tier = row.text("QOS")
        tiers.setdefault(tier, "")
        return TraceJob(
            job_id, row.moment("Submit"), run_time, gpus, per_task=per_task, project=named(row.text("Account")), tier=tier,
            end=OUTCOMES[state],
        )  # fmt: skip

    return Trace("slurm", table(source, SACCT, job, delimiter="|"), "16x8", tiers, left_out=left_out.counts)
