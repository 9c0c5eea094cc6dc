"""Agents' reports about tasks of the present attempt."""

from bailiff_core.model.snapshots import on_disk
from bailiff_core.model.state import Eviction, Job, PoolState, Task
from bailiff_core.records import facts

from .allocation import changing, drop_reservation, phase_of, reindex, set_phase
from .belief import note_start
from .chosen_devices import move_to_chosen
from .failed_starts import note_never_again
from .gang import is_done, note_stale
from .registry import folds
from .snapshots import note_not_parked, note_restored, note_stored, note_unsaved, set_snapshot, settle_saving, stored_snapshot


def _task_of(state: PoolState, fact: facts.TaskFact) -> tuple[Job, Task]:
    job = state.jobs[fact.job]
    task = job.task(fact.task)
    if task is None:
        raise ValueError(f"job {job.id} has no task {fact.task} in its attempt {fact.attempt}")
    return job, task


def _find(state: PoolState, fact: facts.TaskFact) -> tuple[Job, Task]:
    job, task = _task_of(state, fact)
    state.indices.touched[job.id] = None
    return job, task


@folds(facts.TaskStarted)
def task_started(state: PoolState, fact: facts.TaskStarted) -> None:
    """When the last task of the gang runs, the job runs. Tasks that join later do not restart it."""
    job, task = _find(state, fact)
    if fact.devices:
        move_to_chosen(state, job, task, fact.devices)
    task.state, task.started_at = "running", state.now
    if fact.not_restored:
        set_snapshot(state, job, on_disk(job) if task.restores else None)
    note_start(state, job, fact.damaged_checkpoints)
    if any(other.state == "starting" and other.eviction is None for other in job.tasks):
        return
    if job.last_start is None:
        job.last_start = state.now
        job.not_before = grows_from(state, job)
    if job.first_wait is None:
        job.first_wait = state.now - job.submitted_at
    job.start_failures = 0
    if job.phase == "starting":
        set_phase(state, job, "running")
    else:
        reindex(state, job)


def grows_from(state: PoolState, job: Job) -> int:
    """The time, µs, before which the job, which runs, does not restart to grow; `not_before` of one that grows live."""
    if job.demand.elastic != "restart" or job.last_start is None:
        return job.not_before
    return job.last_start + state.rules.restarts.grow_after


@folds(facts.TaskStartRefused)
def task_start_refused(state: PoolState, fact: facts.TaskStartRefused) -> None:
    """The task has no resources; the attempt cannot continue. An agent refuses to start a task that it was told to evict."""
    job, task = _find(state, fact)
    eviction = task.eviction or job.eviction
    task.noticed = task.noticed or (eviction is not None and eviction.started_seq is not None)
    task.start_failed = fact.is_failed_start
    if fact.in_use and job.last_start is None:
        note_never_again(state, job)
    release_task(state, job, task)


@folds(facts.TaskExited)
def task_exited(state: PoolState, fact: facts.TaskExited) -> None:
    """Its resources are releasing."""
    job, task = _find(state, fact)
    is_lost = fact.unobserved or (job.demand.on_failure == "replace" and not task.notified)
    with changing(state, job, task):
        task.state, task.exit_code = "exited", None if is_lost else fact.exit_code
        task.reported_done = fact.done or job.demand.on_term == "finish"
        task.start_failed = task.started_at is None
    _note_leaving(job, task)
    _advance_step(task, fact.step)
    _after_loss(state, job)


@folds(facts.TaskReleased)
def task_released(state: PoolState, fact: facts.TaskReleased) -> None:
    """Its resources are free."""
    job, task = _find(state, fact)
    release_task(state, job, task)


@folds(facts.TaskVanished)
def task_vanished(state: PoolState, fact: facts.TaskVanished) -> None:
    """It ended; its exit is unknown."""
    job, task = _find(state, fact)
    release_task(state, job, task)


def release_task(state: PoolState, job: Job, task: Task) -> None:
    """The task's resources are released."""
    if task.state != "exited":
        _note_leaving(job, task)
    with changing(state, job, task):
        task.state = "released"
        if is_done(task):
            task.eviction = None
    if is_done(task) and job.eviction is None:  # the next attempt starts it again
        drop_reservation(state, job, [task.index])
    state.indices.touched[job.id] = None
    _after_loss(state, job)


def _note_leaving(job: Job, task: Task) -> None:
    """A member that ends unfinished after its gang got the notice ends because of it, even if its own node was slower.

    Where its eviction has started and no notice is on record, another node's report of one may still be on its way.
    """
    if task.exit_code == 0:
        return
    if any(member.notified and _takes_along(job, member, task) for member in job.tasks):
        task.noticed = True
    elif (eviction := task.eviction or job.eviction) is not None and eviction.started_seq is not None:
        task.ended_untold = eviction.decided_seq


def _note_told(job: Job, task: Task) -> None:
    """The task is told to stop: members on other nodes may have ended because of it, although their ends were recorded first."""
    eviction = task.eviction or job.eviction
    for member in job.tasks:
        if eviction is not None and member.ended_untold == eviction.decided_seq and member.node != task.node:
            member.noticed = True


def _takes_along(job: Job, told: Task, other: Task) -> bool:
    """Whether a task that is told to stop takes the other along.

    One that is evicted singly takes those of its eviction along, and all where the gang cannot change its size while it runs.
    """
    if job.demand.elastic == "restart" or told.eviction is None:
        return True
    return other.eviction is not None and other.eviction.decided_seq == told.eviction.decided_seq


def _after_loss(state: PoolState, job: Job) -> None:
    state.indices.retry_unschedulable = True
    settle_saving(state, job)
    note_stale(state, job)
    reindex(state, job)
    complete_cancellation(state, job)


@folds(facts.EvictionStageReached)
def eviction_stage_reached(state: PoolState, fact: facts.EvictionStageReached) -> None:
    """A stage of the task's eviction was reached."""
    job, task = _find(state, fact)
    if fact.kill_after is not None:
        task.kill_after = fact.kill_after
    if fact.stage == "noticed" and fact.stage in task.stage_times:
        return  # its grace was shortened
    task.stage_times[fact.stage] = state.now
    if fact.stage == "step_confirmed":
        task.confirmed_step = fact.step
    elif fact.stage != "step_agreed":
        _advance_step(task, fact.step)
    if fact.stage == "noticed":
        task.attached, task.step_rate_milli = fact.attached, fact.step_rate_milli
        task.notice_step, task.notice_step_rate_milli = fact.step, fact.step_rate_milli
    if fact.stage in ("noticed", "acknowledged", "term_sent", "kill_sent") and task.state in ("starting", "running"):
        _note_told(job, task)
        setattr(task, fact.stage, True)
    if fact.checkpoint is not None:
        _note_checkpoint(state, job, task, fact.checkpoint, 0)
    if fact.stage in ("stored", "parked"):
        note_stored(state, job, task, fact)
    elif fact.stage == "park_failed":
        note_not_parked(state, job)
    elif fact.stage == "save_failed":
        task.saved = None
        note_unsaved(state, job)


@folds(facts.SnapshotStageReached)
def snapshot_stage_reached(state: PoolState, fact: facts.SnapshotStageReached) -> None:
    """A stage of the snapshot of the task, which goes on, was reached."""
    job, task = _task_of(state, fact)
    if task.saving is None:
        raise ValueError(f"task {task.index} of {job.id} is not being saved")
    task.saving.stage_times[fact.stage] = state.now
    if fact.stage == "stored":
        task.saving.stored = stored_snapshot(state, task, fact)
    settle_saving(state, job)


@folds(facts.TaskProgressed)
def task_progressed(state: PoolState, fact: facts.TaskProgressed) -> None:
    """Progress changes what evicting the job would cost; it leads to no decision by itself."""
    job, task = _task_of(state, fact)
    if not task.attached:
        task.attached = True
        state.indices.touched[job.id] = None  # it may be migrated off a draining node
    _advance_step(task, fact.step)
    task.total_steps = fact.total_steps if fact.total_steps is not None else task.total_steps
    task.step_rate_milli = fact.step_rate_milli or task.step_rate_milli
    if fact.checkpoint is not None:
        _note_checkpoint(state, job, task, fact.checkpoint, fact.checkpoint_age)


@folds(facts.TaskResumed)
def task_resumed(state: PoolState, fact: facts.TaskResumed) -> None:
    """It continues from that step."""
    _, task = _find(state, fact)
    task.attached, task.resumed_step = True, fact.step
    task.step = fact.step - 1 if fact.step else None


@folds(facts.TaskRestored)
def task_restored(state: PoolState, fact: facts.TaskRestored) -> None:
    """It continues where it was when it was saved, or waits until all of its gang are restored.

    The snapshot stays, until a later one or a checkpoint replaces it.
    """
    job, task = _find(state, fact)
    if not fact.waits:
        note_restored(state, job, fact.verified + fact.restored)
    task.waits, task.restored = fact.waits, not fact.waits
    reindex(state, job)


@folds(facts.TaskRestoreFailed)
def task_restore_failed(state: PoolState, fact: facts.TaskRestoreFailed) -> None:
    """It started as it does without the snapshot, which is of no use any more."""
    job, task = _find(state, fact)
    task.restores, task.waits, task.restore_failed = False, False, True
    set_snapshot(state, job, None)
    note_unsaved(state, job)
    reindex(state, job)


def _advance_step(task: Task, step: int | None) -> None:
    if step is not None:
        task.step = max(step, task.step or 0)


def _note_checkpoint(state: PoolState, job: Job, task: Task, checkpoint: facts.Checkpoint, ago: int) -> None:
    """The job's last checkpoint is that of the slowest task that checkpoints."""
    _advance_step(task, checkpoint.step)
    if not checkpoint.agreed and job.size > 1:
        return
    task.checkpoint_step, task.checkpoint_at = checkpoint.step, max(0, state.now - ago)
    set_snapshot(state, job, None)
    job.last_checkpoint = min(other.checkpoint_at for other in job.tasks if other.checkpoint_at is not None)
    state.indices.changed_jobs[job.id] = None


@folds(facts.TaskEvictionCancelled)
def task_eviction_cancelled(state: PoolState, fact: facts.TaskEvictionCancelled) -> None:
    """The eviction of one more task is cancelled."""
    job, task = _find(state, fact)
    if task.eviction is not None and task.eviction.cancel_seq is not None:
        with changing(state, job, task):
            task.eviction = None
        reset_notice(task)
        note_stale(state, job)
        reindex(state, job)
    else:
        task.eviction_cancelled = True
        reset_notice(task)
        complete_cancellation(state, job)


def reset_notice(task: Task) -> None:
    """The agent withdrew the notice; a later eviction starts over. Checkpoints saved meanwhile count."""
    task.noticed = task.acknowledged = False
    task.notice_step, task.notice_step_rate_milli, task.confirmed_step = None, 0, None
    task.kill_after = task.saved = None
    task.stage_times = {}


def complete_cancellation(state: PoolState, job: Job) -> None:
    """The eviction is over when every task that still runs has confirmed the cancellation."""
    if job.eviction is None or job.eviction.cancel_seq is None:
        return
    alive = [task for task in job.tasks if task.state in ("starting", "running") and not _has_own_eviction(task)]
    if alive and all(task.eviction_cancelled for task in alive):
        with changing(state, job):
            job.eviction = None
            for task in job.tasks:
                task.eviction_cancelled = False
        set_phase(state, job, phase_of(job))


def _has_own_eviction(task: Task) -> bool:
    return task.eviction is not None and task.eviction.cancel_seq is None


@folds(facts.TaskCancelEvictionRefused)
def task_cancel_eviction_refused(state: PoolState, fact: facts.TaskCancelEvictionRefused) -> None:
    """The task was already terminating: its eviction (of a gang: the gang's) continues, ordered by this record."""
    job, task = _find(state, fact)
    if task.eviction is not None and task.eviction.cancel_seq is not None:
        _restore(state, job, task.eviction)
    elif job.eviction is not None:
        _restore(state, job, job.eviction)
        for other in job.tasks:
            other.eviction_cancelled = False
    state.indices.retry_unschedulable = True


def _restore(state: PoolState, job: Job, eviction: Eviction) -> None:
    with changing(state, job):
        eviction.cancel_seq, eviction.preemption = None, None
        eviction.started_seq = state.seq
