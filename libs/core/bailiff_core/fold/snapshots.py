"""Snapshots of tasks by their nodes: stored, failed, and whether a job that starts continues from one."""

from bailiff_core.model.snapshots import why_not_restored
from bailiff_core.model.state import Job, JobSnapshot, PoolState, StoredSnapshot, Task
from bailiff_core.model.work_lost import counted_gpu_milli, unsaved_time
from bailiff_core.records import facts


def note_stored(state: PoolState, job: Job, task: Task, stage: facts.Stage) -> None:
    """The node has saved the task. With the last task, this is the job's newest snapshot.

    What the job was restored from is part of its work.
    """
    if stage.driver is None or stage.sha256 is None:
        return
    node = state.nodes[task.node]
    offer = next((each for each in node.snapshots if each.driver == stage.driver), None)
    task.saved = StoredSnapshot(
        task=task.index,
        driver=stage.driver,
        sha256=stage.sha256,
        bytes=stage.bytes or 0,
        machine_id=node.machine_id,
        checkpoint_store=node.checkpoint_store,
        cpu=offer.cpu if offer is not None else "",
        seq=state.seq,
    )
    saved = [each.saved for each in job.tasks if each.saved is not None]
    if len(saved) < len(job.tasks):
        return
    work = counted_gpu_milli(state, job, job.tasks) * unsaved_time(state, job) // 1_000_000
    if job.snapshot is not None and all(each.restored for each in job.tasks):
        work += job.snapshot.work_gpu_ms
    began = min(each.stage_times.get("frozen", state.now) for each in job.tasks)
    job.snapshot = JobSnapshot(attempt=job.attempt, tasks=saved, work_gpu_ms=work, save_time=state.now - began)
    job.unsaved_seq = None
    state.indices.changed_jobs[job.id] = None


def note_restored(state: PoolState, job: Job, took: int) -> None:
    """A task continues from the job's snapshot: what an eviction of the job costs is known from now on.

    Args:
        took: To verify and restore it, µs. Of a gang the longest counts.
    """
    if job.snapshot is None:
        return
    others = any(each.restored for each in job.tasks)
    job.restart_time = max(job.restart_time or 0 if others else 0, job.snapshot.save_time + took)
    state.indices.changed_jobs[job.id] = None


def note_unsaved(state: PoolState, job: Job) -> None:
    """A snapshot of the job failed, or was of no use: until one is stored, an eviction counts as losing its work."""
    job.unsaved_seq = state.seq
    state.indices.changed_jobs[job.id] = None


def note_restores(state: PoolState, job: Job) -> None:
    """Settles for the tasks that start now whether they continue from the job's snapshot: all of them, or none."""
    if job.snapshot is None or any(task.started_at is not None and not task.restores for task in job.tasks):
        return
    if any(task.restored for task in job.tasks):
        return  # it has grown
    why_not = why_not_restored(state, job)
    for task in job.tasks:
        if task.state == "starting" and not task.restores:
            task.not_restored, task.restores = why_not, not why_not
