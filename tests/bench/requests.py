"""Requests to submit simulated jobs, as bytes."""

import time
import uuid

from bailiff_bus.envelope import wrap
from bailiff_bus.port import Headers
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records.job_requests import SubmitJob


def submit_message(
    pool: str, job: str, *, gpus: int = 1, priority_class: str = "train", run_for: float | None = None, talks: str = ""
) -> tuple[Headers, bytes]:
    """A job of one task; without `run_for` it runs until its eviction notice, and exits at once. talks: PACE:SAVE_S."""
    env = {"BAILIFF_SIM_CHECKPOINTS": talks} if talks else {"BAILIFF_SIM_ON_NOTICE": "exit"}
    if run_for is not None:
        env["BAILIFF_SIM_RUN_FOR"] = str(run_for)
    group = TaskGroup(gpu_milli=gpus * 1000, cpu_milli=100, memory_bytes=1 << 28)
    demand = JobDemand(job=job, tasks=(group,), priority_class=priority_class)
    body = SubmitJob(demand=demand, spec=JobSpec(command=("true",), env=env, runtime="simulated"))
    return wrap(body, source="/bench", id=uuid.uuid4().hex, pool=pool, time_us=time.time_ns() // 1000)
