"""Published tables of jobs, and the accounting of Slurm: how a row becomes a job.

Tables without a unit in their column names have times in seconds.
"""

from dataclasses import replace

from bailiff_sim.history.slurm_values import tres
from bailiff_sim.history.values import Unreadable
from bailiff_sim.workload import End

from .jobs import Format, Jobs, TraceJob, named
from .rows import SECOND, Row

MILLISECOND, MINUTE, MIB = 1_000, 60 * SECOND, 1 << 20
NOTHING_RAN = "without GPUs or run time"
NOT_ENDED = ("PENDING", "RUNNING", "REQUEUED", "RESIZING", "REVOKED")
OUTCOMES: dict[str, End] = {
    "COMPLETED": "succeeded",
    "FAILED": "failed",
    "TIMEOUT": "failed",
    "NODE_FAIL": "failed",
    "OUT_OF_MEMORY": "failed",
    "CANCELLED": "cancelled",
    "DEADLINE": "failed",
    "BOOT_FAIL": "failed",
    "PREEMPTED": "succeeded",
    "SUSPENDED": "cancelled",
}
STATES = dict.fromkeys((*OUTCOMES, *NOT_ENDED))


def _usual(row: Row, jobs: Jobs, unit: int = SECOND, tier: str = "", project: str = "") -> TraceJob | None:
    """A job of the columns that most of these tables have. unit: µs per unit of time."""
    gpus, run_time, name = row.count("num_gpu"), row.micros("duration", unit), jobs.name(row, "job_id")
    if not gpus or not run_time:
        return jobs(NOTHING_RAN)
    return TraceJob(name, row.micros("submit_time", unit), run_time, gpus, project=project, tier=tier)


# --- Philly (Microsoft, 2017; ATC '19), in the version of Pollux's simulator: 82,247 jobs of 15 tenants, without priorities


def _philly(row: Row, jobs: Jobs) -> TraceJob | None:
    gpus, run_time = row.count("num_gpus"), row.micros("duration")
    if not gpus or not run_time:
        return jobs(NOTHING_RAN)
    name = f"job-{row.line - 1:06d}"
    return TraceJob(name, row.moment("timestamp"), run_time, gpus, project=named(row.text("cluster"), "vc-"))


PHILLY = Format(
    "philly-2017",
    ("timestamp", "duration", "num_gpus", "cluster"),
    _philly,
    "231x8,321x2",  # the 2,490 GPUs of the paper, by the machine list of the original trace
    notes=("the arrival is the trace's timestamp; the trace has no queueing times and no outcomes",),
    file="philly-2017/philly.csv.gz",
)


# --- Alibaba's cluster of 2023 (ATC '23): pods with QoS classes, many with GPU shares

OPENB_TIERS = {"Guaranteed": "inference", "LS": "inference", "Burstable": "interactive", "BE": "train"}
SMALLEST_SHARE = 100  # thousandths of a GPU


def _openb(row: Row, jobs: Jobs) -> TraceJob | None:
    name, gpus, tier = jobs.name(row, "name"), row.count("num_gpu"), row.word("qos", OPENB_TIERS)
    if not gpus:
        return jobs("without a GPU")
    if not row.text("scheduled_time"):
        return jobs("never scheduled")
    began, ended = row.micros("scheduled_time"), row.micros("deletion_time")
    if ended <= began:
        return jobs("without run time")
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


OPENB = {
    variant: Format(
        f"alibaba-openb-2023/{variant}",
        (
            "name",
            "cpu_milli",
            "memory_mib",
            "num_gpu",
            "gpu_milli",
            "gpu_spec",
            "qos",
            "creation_time",
            "deletion_time",
            "scheduled_time",
        ),
        _openb,
        "3x8",
        OPENB_TIERS,
        (
            "the trace never requests more than 66 GPUs at once: for contention use a small --cluster or --compress",
            "pods that were still running end with the trace; shares below a tenth of a GPU count as a tenth",
        ),
        f"alibaba-openb-2023/openb_pod_list_{variant}.csv.gz",
    )
    for variant in ("default", "gpuspec33", "gpushare100")
}


# --- Chronus (SoCC '21): Philly's jobs with synthetic deadlines, in minutes. MIX1: strict and best effort; MIX2: also soft

CHRONUS_TIERS = {"strict": "inference", "soft": "interactive", "best": "train"}


def _chronus(row: Row, jobs: Jobs) -> TraceJob | None:
    tier = row.word("job_type", CHRONUS_TIERS)
    job = _usual(row, jobs, MINUTE, tier, named(row.text("user")))
    if job is None or tier == "best":
        return job
    first = row.text("expect_time_list").partition("-")[0]
    if not first.isdecimal():
        raise row.fault("expect_time_list", "minutes separated by -")
    return replace(job, deadline=int(first) * MINUTE)


CHRONUS = {
    variant: Format(
        f"chronus-philly-slo/{variant}",
        ("job_id", "user", "num_gpu", "submit_time", "duration", "expect_time_list", "job_type"),
        _chronus,
        "150x8",
        CHRONUS_TIERS,
        ("deadlines and their kinds are synthetic; a soft job has several, of which the first is used",),
        f"chronus-philly-slo/trace_job_Philly_{variant}.csv.gz",
    )
    for variant in ("MIX1", "MIX2")
}


# --- Muri (SIGCOMM '22): jobs of four Philly tenants with priorities assigned by its authors, in milliseconds


def _muri(row: Row, jobs: Jobs) -> TraceJob | None:
    return _usual(row, jobs, MILLISECOND, row.choice("priority", {"0": "guaranteed", "1": "opportunistic"}))


MURI = {
    variant: Format(
        f"muri-philly-priority/{variant}",
        ("job_id", "num_gpu", "submit_time", "duration", "priority"),
        _muri,
        cluster,
        {"guaranteed": "inference", "opportunistic": "train"},
        ("its priorities are synthetic",),
        f"muri-philly-priority/{variant}.csv.gz",
    )
    for variant, cluster in {"trace1": "40x8", "trace2": "64x8", "trace3": "32x8", "trace4": "64x8"}.items()
}


# --- A sample of Acme's Kalos cluster (NSDI '24): 319 LLM jobs, as converted by a third party


def _kalos(row: Row, jobs: Jobs) -> TraceJob | None:
    per_task, run_time = row.count("gpu_per_worker"), row.micros("num_iteration", SECOND // 2)
    name, gpus = jobs.name(row, "job_id"), per_task * row.count("gpu_workers")
    if not gpus or not run_time:
        return jobs(NOTHING_RAN)
    return TraceJob(name, row.micros("arrival_time"), run_time, gpus, per_task=per_task)


KALOS = Format(
    "acme-kalos-sample",
    ("job_id", "arrival_time", "num_iteration", "gpu_workers", "gpu_per_worker"),
    _kalos,
    "302x8",
    notes=("the run time is the number of iterations times 0.5 s, as in the converter; completed jobs only",),
    file="acme-kalos-sample/converted_kalos_trace.csv",
)


# --- Tiresias' demonstration (NSDI '19): 60 jobs, for 32 machines of 4 GPUs


TIRESIAS = Format("tiresias-60", ("job_id", "num_gpu", "submit_time", "duration"), _usual, "32x4", file="tiresias-60/60_job.csv")


# --- `job_info_df.csv` of Alibaba's cluster-trace-v2026-spot-gpu; `gpu_request` is per worker

SPOT_TIERS = {"HP": "inference", "Spot": "train"}


def _spot(row: Row, jobs: Jobs) -> TraceJob | None:
    per_task, workers, run_time = row.micros("gpu_request", 1000), max(1, row.count("worker_num")), row.micros("duration")
    name, tier, model = jobs.name(row, "job_name"), row.word("job_type", SPOT_TIERS), row.text("gpu_model")
    if not per_task or not run_time:
        return jobs(NOTHING_RAN)
    if per_task % 1000 and per_task > 1000:
        raise row.fault("gpu_request", "whole GPUs, or a fraction of one")
    whole = max(1, per_task // 1000)
    return TraceJob(
        name,
        row.micros("submit_time"),
        run_time,
        whole * workers,
        gpu_milli=max(100, min(1000, per_task)),
        per_task=whole,
        project=named(row.text("organization")),
        tier=tier,
        gpu_models=(model,) if model else (),
    )


SPOT = Format(
    "spot-2026",
    ("job_name", "organization", "gpu_model", "gpu_request", "worker_num", "submit_time", "duration", "job_type"),
    _spot,
    "64x8",
    SPOT_TIERS,
)


# --- `cluster_log.csv` of HeliosData, and `trace_seren.csv` or `trace_kalos.csv` of AcmeTrace


def _with_state(row: Row, jobs: Jobs, project: str) -> TraceJob | None:
    gpus, nodes = row.count("gpu_num"), max(1, row.count("node_num"))
    name, state = jobs.name(row, "job_id"), row.word("state", STATES)
    if not gpus:
        return jobs("without a GPU")
    if state in NOT_ENDED or not row.micros("duration"):
        return jobs("not ended, or without run time")
    return TraceJob(
        name,
        row.moment("submit_time"),
        row.micros("duration"),
        gpus,
        per_task=gpus // nodes if gpus % nodes == 0 else None,
        project=named(row.text(project)),
        end=OUTCOMES[state],
    )


HELIOS = Format(
    "helios",
    ("job_id", "user", "vc", "gpu_num", "node_num", "state", "submit_time", "duration"),
    lambda row, jobs: _with_state(row, jobs, "vc"),
    "133x8",
)
ACME = Format(
    "acme",
    ("job_id", "user", "gpu_num", "node_num", "type", "state", "submit_time", "duration"),
    lambda row, jobs: _with_state(row, jobs, "type"),
    "302x8",
)


# --- sacct --allusers --allocations --parsable2 --format=SACCT: the account is the project, the QOS is the tier

SACCT = ("JobIDRaw", "User", "Account", "Partition", "QOS", "Submit", "Start", "End", "State", "AllocTRES")


def _slurm(row: Row, jobs: Jobs) -> TraceJob | None:
    state = row.text("State").split(" ")[0]
    if state not in STATES:
        raise row.fault("State", "a state of Slurm, such as COMPLETED")
    if "." in row.text("JobIDRaw"):
        return jobs("job steps")
    name = jobs.name(row, "JobIDRaw")
    try:
        gpus, _, nodes = tres(row.text("AllocTRES"))
    except Unreadable:
        raise row.fault("AllocTRES", "TRES such as cpu=8,gres/gpu=4") from None
    if not gpus:
        return jobs("without a GPU")
    if state in NOT_ENDED or row.text("Start") in ("Unknown", "None", ""):
        return jobs("not ended, or never started")
    run_time = row.moment("End") - row.moment("Start")
    if run_time <= 0:
        return jobs("without run time")
    return TraceJob(
        name,
        row.moment("Submit"),
        run_time,
        gpus,
        per_task=gpus // nodes if nodes and gpus % nodes == 0 else None,
        project=named(row.text("Account")),
        tier=row.text("QOS"),
        end=OUTCOMES[state],
    )


SLURM = Format("slurm", SACCT, _slurm, "16x8", delimiter="|")
