"""When a job's GPUs have done nothing for longer than the policy means them to."""

from bailiff_core.model.pool import Job, Pool

NAME = "idle"


def since(job: Job) -> int | None:
    """Since when none of its GPUs has done anything; `None` while any does, or nobody can tell."""
    moments = [task.idle_since for task in job.tasks if task.devices and task.state == "running"]
    return None if not moments or None in moments else max(moment for moment in moments if moment is not None)


def due(pool: Pool, job: Job) -> int | None:
    """When there is something to say of the job."""
    after = pool.rules.idle.after
    if after is None or job.phase != "running" or job.idle_told or job.cancelled or job.paused_seq is not None:
        return None
    began = since(job)
    return None if began is None else began + after
