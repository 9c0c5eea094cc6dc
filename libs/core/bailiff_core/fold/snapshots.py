"""Snapshots of tasks by their nodes: stored, failed, and whether a job that starts continues from one."""

from collections.abc import Mapping, Sequence

from bailiff_core.model.snapshots import bytes_of, is_saving_over, why_not_restored
from bailiff_core.model.state import Job, JobSnapshot, PoolState, RunningSnapshot, StoredSnapshot, Task
from bailiff_core.model.work_lost import counted_gpu_milli, unsaved_time
from bailiff_core.records import decisions, facts

from .allocation import reindex
from .log import remember
from .registry import folds


@folds(facts.JobCheckpointRequested)
def job_checkpoint_requested(state: PoolState, fact: facts.JobCheckpointRequested) -> None:
    """Its nodes are to save it."""
    _begin_saving(state, state.jobs[fact.job], at_interval=False)
    remember(state, fact.request)


@folds(decisions.JobCheckpointDue)
def job_checkpoint_due(state: PoolState, decision: decisions.JobCheckpointDue) -> None:
    """Its nodes are to save it."""
    _begin_saving(state, state.jobs[decision.job], at_interval=True)


@folds(decisions.SnapshotExpired)
def snapshot_expired(state: PoolState, decision: decisions.SnapshotExpired) -> None:
    """Its next attempt starts as without one."""
    set_snapshot(state, state.jobs[decision.job], None)
    state.indices.changed_times[decision.job] = None


def _begin_saving(state: PoolState, job: Job, *, at_interval: bool) -> None:
    job.saving_seq, job.saving_since, job.saving_at_interval = state.seq, state.now, at_interval
    for task in job.tasks:
        task.saving = RunningSnapshot()
    reindex(state, job)


def settle_saving(state: PoolState, job: Job) -> None:
    """Once nothing of its snapshot is to be awaited any more: if all tasks are stored, it is the job's newest."""
    if job.saving_seq is None or not all(map(is_saving_over, job.tasks)):
        return
    taken = [task.saving for task in job.tasks if task.saving is not None]
    saved = [each.stored for each in taken if each.stored is not None]
    if len(saved) == len(job.tasks):
        frozen = max(each.stage_times.get("frozen", state.now) for each in taken)
        _keep_newest(state, job, saved, [each.stage_times for each in taken], frozen)
        job.saved_until = frozen
    job.saving_seq = None
    for task in job.tasks:
        task.saving = None
    reindex(state, job)


def forget_saving(job: Job) -> None:
    """Its attempt is over, or begins."""
    job.saving_seq = job.saving_since = job.saved_until = None


def note_stored(state: PoolState, job: Job, task: Task, stage: facts.Stage) -> None:
    """The node has saved the task in its eviction. With the last task, this is the job's newest snapshot."""
    task.saved = stored_snapshot(state, task, stage)
    saved = [each.saved for each in job.tasks if each.saved is not None]
    if task.saved is not None and len(saved) == len(job.tasks):
        _keep_newest(state, job, saved, [each.stage_times for each in job.tasks], state.now)


def stored_snapshot(state: PoolState, task: Task, stage: facts.Stage) -> StoredSnapshot | None:
    """What the node has stored of the task."""
    if stage.driver is None or stage.sha256 is None:
        return None
    node = state.nodes[task.node]
    offer = next((each for each in node.snapshots if each.driver == stage.driver), None)
    return StoredSnapshot(
        task=task.index,
        driver=stage.driver,
        sha256=stage.sha256,
        bytes=stage.bytes or 0,
        machine_id=node.machine_id,
        checkpoint_store=node.checkpoint_store,
        cpu=offer.cpu if offer is not None else "",
        seq=state.seq,
    )


def _keep_newest(
    state: PoolState, job: Job, saved: list[StoredSnapshot], stages: Sequence[Mapping[str, int]], until: int
) -> None:
    """The job's newest snapshot has its work until that time. What it was restored from is part of that."""
    work = counted_gpu_milli(state, job, job.tasks) * unsaved_time(state, job, until=until) // 1_000_000
    if job.snapshot is not None and (job.saved_until is not None or all(each.restored for each in job.tasks)):
        work += job.snapshot.work_gpu_ms
    began = min(each.get("frozen", state.now) for each in stages)
    set_snapshot(state, job, JobSnapshot(attempt=job.attempt, tasks=saved, work_gpu_ms=work, save_time=state.now - began))
    job.unsaved_seq = None
    state.indices.changed_jobs[job.id] = None


def set_snapshot(state: PoolState, job: Job, snapshot: JobSnapshot | None) -> None:
    """The job's newest snapshot; None: it has none that is of use."""
    held = state.indices.snapshot_bytes
    if held is not None:
        held[job.project] += bytes_of(snapshot) - bytes_of(job.snapshot)
    job.snapshot = snapshot


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
