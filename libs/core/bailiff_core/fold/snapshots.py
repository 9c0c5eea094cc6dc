"""Snapshots of tasks by their nodes: stored, failed, and whether a job that starts continues from one."""

from bailiff_core.model.snapshots import why_not_restored
from bailiff_core.model.state import Job, PoolState, StoredSnapshot, Task
from bailiff_core.model.work_lost import counted_gpu_milli, unsaved_time
from bailiff_core.records import facts


def note_stored(state: PoolState, job: Job, task: Task, stage: facts.Stage) -> None:
    """The node has saved the task: this is the job's newest snapshot. What it was restored from is part of its work."""
    if stage.driver is None or stage.sha256 is None:
        return
    node, earlier = state.nodes[task.node], job.snapshot
    offer = next((each for each in node.snapshots if each.driver == stage.driver), None)
    job.snapshot = StoredSnapshot(
        attempt=job.attempt,
        task=task.index,
        driver=stage.driver,
        sha256=stage.sha256,
        bytes=stage.bytes or 0,
        machine_id=node.machine_id,
        checkpoint_store=node.checkpoint_store,
        cpu=offer.cpu if offer is not None else "",
        seq=state.seq,
        work_gpu_ms=counted_gpu_milli(state, job, [task]) * unsaved_time(state, job) // 1_000_000
        + (earlier.work_gpu_ms if earlier is not None and task.restored else 0),
    )
    job.unsaved_seq = None
    state.indices.changed_jobs[job.id] = None


def note_unsaved(state: PoolState, job: Job) -> None:
    """A snapshot of the job failed, or was of no use: until one is stored, an eviction counts as losing its work."""
    job.unsaved_seq = state.seq
    state.indices.changed_jobs[job.id] = None


def note_restores(state: PoolState, job: Job) -> None:
    """Settles for the tasks that start now whether they continue from the job's snapshot."""
    kept = job.snapshot
    for task in job.tasks if kept is not None else ():
        if kept is not None and task.state == "starting" and task.index == kept.task:
            task.not_restored = why_not_restored(kept, state.nodes[task.node])
            task.restores = not task.not_restored
