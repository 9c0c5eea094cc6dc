"""How far a job is believed: whether it saved in its evictions, and whether what it reported can be read."""

from bailiff_core.model.grace import grace_of
from bailiff_core.model.state import Job, PoolState


def note_attempt(state: PoolState, job: Job) -> None:
    """Takes note of the attempt that ends, before its tasks are removed.

    A grace that was shortened, or was less than the job's, says nothing: it may not have been enough.
    """
    saved = any("checkpoint_committed" in task.stage_times or "stored" in task.stage_times for task in job.tasks)
    reported = any(task.checkpoint_step is not None for task in job.tasks)
    job.checkpoint_claim = "saved" if saved else "reported" if reported else ""
    eviction = job.eviction
    if eviction is None or eviction.shortened_seq is not None or eviction.grace < grace_of(state, job):
        return
    if not saved and any(task.kill_sent for task in job.tasks):
        _believe_less(state, job)


def note_start(state: PoolState, job: Job, damaged_checkpoints: int) -> None:
    """Takes note of what the node found of the checkpoints of the attempt before, once for each attempt."""
    if job.checkpoint_claim and damaged_checkpoints:
        _believe_less(state, job)
    elif job.checkpoint_claim == "saved":
        job.unkept, job.unkept_seq = 0, None
    else:
        return
    job.checkpoint_claim = ""


def _believe_less(state: PoolState, job: Job) -> None:
    job.unkept += 1
    job.unkept_seq = state.seq
    state.indices.changed_jobs[job.id] = None
