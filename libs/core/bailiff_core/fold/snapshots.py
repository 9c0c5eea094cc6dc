"""Snapshots of tasks by their nodes: stored, failed, and whether a job that starts continues from one."""

from collections.abc import Mapping, Sequence

from bailiff_core.model.scheduling_class import scheduling_class_of
from bailiff_core.model.snapshots import PARK, bytes_on_disk, is_parked, is_saving_over, on_disk, why_not_restored
from bailiff_core.model.state import Job, JobSnapshot, Node, PoolState, RunningSnapshot, StoredSnapshot, Task
from bailiff_core.model.work_lost import counted_gpu_milli, unsaved_time
from bailiff_core.records import decisions, facts

from .allocation import note_parked, reindex
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


@folds(decisions.ParkedJobSaveDue)
def parked_job_save_due(state: PoolState, decision: decisions.ParkedJobSaveDue) -> None:
    """Its node is to save it to disk."""
    job = state.jobs[decision.job]
    assert job.snapshot is not None
    job.snapshot.save_seq = state.seq
    state.indices.changed_times[job.id] = None


@folds(facts.ParkedTaskStageReached)
def parked_task_stage_reached(state: PoolState, fact: facts.ParkedTaskStageReached) -> None:
    """With `stored` it is an ordinary snapshot; with `park_lost` it is gone. After `save_failed` it may start elsewhere."""
    job = state.jobs[fact.job]
    if job.snapshot is None or not is_parked(job):
        raise ValueError(f"job {job.id} is not parked")
    if fact.stage == "stored":
        [parked] = job.snapshot.tasks
        node = state.nodes[state.node_numbers[fact.node]]
        stored = stored_part(node, parked.task, fact, state.seq)
        if stored is not None:
            kept = JobSnapshot(job.snapshot.attempt, [stored], job.snapshot.work_gpu_ms, job.snapshot.save_time)
            set_snapshot(state, job, kept)
            job.unsaved_seq = None
    elif fact.stage == "save_failed":
        job.snapshot.save_failed = fact.reason or "it failed"
        offer_other_nodes(state, job)
    elif fact.stage == "park_lost":
        set_snapshot(state, job, on_disk(job))
    state.indices.changed_times[job.id] = None


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
    """The node has saved or parked the task in its eviction. With the last task, this is the job's newest snapshot."""
    task.saved = stored_snapshot(state, task, stage)
    saved = [each.saved for each in job.tasks if each.saved is not None]
    if task.saved is not None and len(saved) == len(job.tasks):
        _keep_newest(state, job, saved, [each.stage_times for each in job.tasks], state.now)
    if job.eviction is not None and job.eviction.parks:
        job.eviction.parks = False  # what it holds now is known
        note_parked(state, job)


def note_not_parked(state: PoolState, job: Job) -> None:
    """It is saved as without parking."""
    if job.eviction is not None:
        job.eviction.parks = False
        note_parked(state, job)


def stored_snapshot(state: PoolState, task: Task, stage: facts.Stage) -> StoredSnapshot | None:
    """What the node has stored of the task."""
    return stored_part(state.nodes[task.node], task.index, stage, state.seq)


def stored_part(node: Node, index: int, stage: facts.Stage, seq: int) -> StoredSnapshot | None:
    """What the node has stored, by this record."""
    if stage.driver is None or stage.sha256 is None:
        return None
    offer = next((each for each in node.snapshots if each.driver == stage.driver), None)
    return StoredSnapshot(
        task=index,
        driver=stage.driver,
        sha256=stage.sha256,
        bytes=stage.bytes or 0,
        node=node.number,
        machine_id=node.machine_id,
        checkpoint_store=node.checkpoint_store,
        cpu=offer.cpu if offer is not None else "",
        seq=seq,
    )


def _keep_newest(
    state: PoolState, job: Job, saved: list[StoredSnapshot], stages: Sequence[Mapping[str, int]], until: int
) -> None:
    """The job's newest snapshot has its work until that time. What it was restored from is part of that."""
    unsaved = unsaved_time(state, job, until=until)
    work = counted_gpu_milli(state, job, job.tasks) * unsaved // 1_000_000
    if job.snapshot is not None and (job.saved_until is not None or all(each.restored for each in job.tasks)):
        work += job.snapshot.work_gpu_ms
    began = min(each.get("frozen", state.now) for each in stages)
    newest = JobSnapshot(attempt=job.attempt, tasks=saved, work_gpu_ms=work, save_time=state.now - began)
    if any(each.driver == PARK for each in saved):
        newest.parked_at, newest.unsaved, newest.on_disk = state.now, unsaved, on_disk(job)
    set_snapshot(state, job, newest)
    job.unsaved_seq = None
    state.indices.changed_jobs[job.id] = None


def set_snapshot(state: PoolState, job: Job, snapshot: JobSnapshot | None) -> None:
    """The job's newest snapshot; None: it has none that is of use."""
    held, before = state.indices.snapshot_bytes, bytes_on_disk(job)
    offer_other_nodes(state, job)
    job.snapshot = snapshot
    if held is not None:
        held[job.project] += bytes_on_disk(job) - before
    if snapshot is not None and is_parked(job):
        snapshot.named_nodes = job.demand.tasks[0].nodes
        _name_nodes(state, job, tuple(state.nodes[each.node].name for each in snapshot.tasks))
    note_parked(state, job)


def offer_other_nodes(state: PoolState, job: Job) -> None:
    """A job that was parked no longer waits for the node that has it."""
    if job.snapshot is not None and is_parked(job):
        _name_nodes(state, job, job.snapshot.named_nodes)


def _name_nodes(state: PoolState, job: Job, nodes: tuple[str, ...]) -> None:
    if job.demand.tasks[0].nodes == nodes:
        return
    groups = tuple(group.model_copy(update={"nodes": nodes}) for group in job.demand.tasks)
    job.demand = job.demand.model_copy(update={"tasks": groups})
    job.scheduling_class = scheduling_class_of(job.demand)
    job.pending_recorded = False
    state.indices.touched[job.id] = state.indices.changed_jobs[job.id] = None
    state.indices.retry_unschedulable = True


def note_restored(state: PoolState, job: Job, took: int) -> None:
    """A task continues from the job's snapshot: what an eviction of the job costs is known from now on.

    Args:
        took: To verify and restore it, µs. Of a gang the longest counts.
    """
    if job.snapshot is None:
        return
    if is_parked(job):  # what was kept runs, and is kept no more
        job.park_time, job.unsaved_before = job.snapshot.save_time + took, job.snapshot.unsaved
        set_snapshot(state, job, on_disk(job))
        return
    others = any(each.restored for each in job.tasks)
    job.restart_time = max(job.restart_time or 0 if others else 0, job.snapshot.save_time + took)
    state.indices.changed_jobs[job.id] = None


def note_unsaved(state: PoolState, job: Job) -> None:
    """A snapshot of the job failed, or was of no use: until one is stored, an eviction counts as losing its work."""
    job.unsaved_seq = state.seq
    state.indices.changed_jobs[job.id] = None


def note_restores(state: PoolState, job: Job) -> None:
    """Settles for the tasks that start now whether they continue from the job's snapshot: all of them, or none.

    Where a parked job cannot resume, and continues from what is on disk, `not_restored` says why.
    """
    if job.snapshot is None or any(task.started_at is not None and not task.restores for task in job.tasks):
        return
    if any(task.restored for task in job.tasks):
        return  # it has grown
    why_not, kept = why_not_restored(state, job, job.snapshot), on_disk(job) if is_parked(job) else None
    restores = not why_not or (kept is not None and not why_not_restored(state, job, kept))
    for task in job.tasks:
        if task.state == "starting" and not task.restores:
            task.not_restored, task.restores = why_not, restores
