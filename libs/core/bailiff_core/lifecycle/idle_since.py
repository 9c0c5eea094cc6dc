"""`idle`: since when all GPUs of a job are idle, and when the policy's idle rule applies."""

from bailiff_core.model.state import Job, PoolState

NAME = "idle"


def since(job: Job) -> int | None:
    """Since when all GPUs of the job are idle, µs; `None` while any is used or unknown."""
    moments = [task.idle_since for task in job.tasks if task.devices and task.state == "running"]
    return None if not moments or None in moments else max(moment for moment in moments if moment is not None)


def due(state: PoolState, job: Job) -> int | None:
    """When the idle rule applies to the job, µs; `None`: it does not."""
    after = state.rules.idle.after
    if after is None or job.phase != "running" or job.idle_recorded or job.cancelled or job.paused_seq is not None:
        return None
    began = since(job)
    return None if began is None else began + after
