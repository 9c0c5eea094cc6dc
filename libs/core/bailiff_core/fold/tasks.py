"""What agents reported of tasks. A report about another attempt than the present one never gets here."""

from bailiff_core.model.pool import Eviction, Job, Pool, Task
from bailiff_core.records import facts

from .gang import is_done, note_stale
from .register import folds
from .room import changing, drop_promise, phase_of, reindex, set_phase


def _find(pool: Pool, fact: facts.TaskFact) -> tuple[Job, Task]:
    job = pool.jobs[fact.job]
    task = job.task(fact.task)
    if task is None:
        raise ValueError(f"job {job.id} has no task {fact.task} in its attempt {fact.attempt}")
    pool.touched[job.id] = None
    return job, task


@folds(facts.TaskStarted)
def task_started(pool: Pool, fact: facts.TaskStarted) -> None:
    """When the last of the gang runs, the job runs. Members that join it later do not make it start anew."""
    job, task = _find(pool, fact)
    task.state, task.started_at = "running", pool.now
    if any(other.state == "starting" and other.eviction is None for other in job.tasks):
        return
    if job.last_start is None:
        job.last_start = pool.now
        if job.demand.elastic == "restart":
            job.not_before = pool.now + pool.rules.restarts.grow_after
    if job.first_wait is None:
        job.first_wait = pool.now - job.submitted_at
    if job.phase == "starting":
        set_phase(pool, job, "running")
    else:
        reindex(pool, job)


@folds(facts.TaskStartRefused)
def task_start_refused(pool: Pool, fact: facts.TaskStartRefused) -> None:
    """The task holds nothing; the attempt cannot go on."""
    job, task = _find(pool, fact)
    task_gone(pool, job, task)


@folds(facts.TaskExited)
def task_exited(pool: Pool, fact: facts.TaskExited) -> None:
    """Its room is on its way out."""
    job, task = _find(pool, fact)
    with changing(pool, job, task):
        task.state, task.exit_code = "exited", None if fact.unseen else fact.exit_code
    _come_to(task, fact.step)
    _after_loss(pool, job)


@folds(facts.TaskReleased)
def task_released(pool: Pool, fact: facts.TaskReleased) -> None:
    """Its room is free."""
    job, task = _find(pool, fact)
    task_gone(pool, job, task)


@folds(facts.TaskVanished)
def task_vanished(pool: Pool, fact: facts.TaskVanished) -> None:
    """It has ended unseen."""
    job, task = _find(pool, fact)
    task_gone(pool, job, task)


def task_gone(pool: Pool, job: Job, task: Task) -> None:
    """The task holds nothing any more."""
    with changing(pool, job, task):
        task.state = "released"
        if is_done(task):
            task.eviction = None
    if is_done(task):
        drop_promise(pool, job, [task.index])
    pool.touched[job.id] = None
    _after_loss(pool, job)


def _after_loss(pool: Pool, job: Job) -> None:
    pool.room_grew = True
    note_stale(pool, job)
    reindex(pool, job)
    settle_spare(pool, job)


@folds(facts.EvictionStaged)
def eviction_staged(pool: Pool, fact: facts.EvictionStaged) -> None:
    """How far the task's eviction got."""
    job, task = _find(pool, fact)
    task.reached[fact.stage] = pool.now
    if fact.stage == "step_confirmed":
        task.confirmed = fact.step
    elif fact.stage != "step_agreed":
        _come_to(task, fact.step)
    if fact.stage == "noticed":
        task.attached, task.pace = fact.attached, fact.pace
        task.notice_step, task.notice_pace = fact.step, fact.pace
    if fact.stage in ("noticed", "acknowledged", "term_sent", "kill_sent"):
        setattr(task, fact.stage, True)
    if fact.checkpoint is not None:
        _saved(pool, job, task, fact.checkpoint, 0)


@folds(facts.TaskProgressed)
def task_progressed(pool: Pool, fact: facts.TaskProgressed) -> None:
    """What it would cost to evict the job is another amount now. Nothing is decided about that by itself."""
    job = pool.jobs[fact.job]
    task = job.task(fact.task)
    if task is None:
        raise ValueError(f"job {job.id} has no task {fact.task} in its attempt {fact.attempt}")
    if not task.attached:
        task.attached = True
        pool.touched[job.id] = None  # it may move off a node that is being emptied
    _come_to(task, fact.step)
    task.total = fact.total if fact.total is not None else task.total
    task.pace = fact.pace or task.pace
    if fact.checkpoint is not None:
        _saved(pool, job, task, fact.checkpoint, fact.ago)


@folds(facts.TaskResumed)
def task_resumed(pool: Pool, fact: facts.TaskResumed) -> None:
    """It goes on from there."""
    _, task = _find(pool, fact)
    task.attached, task.resumed = True, fact.step
    task.step = fact.step - 1 if fact.step else None


def _come_to(task: Task, step: int | None) -> None:
    if step is not None:
        task.step = max(step, task.step or 0)


def _saved(pool: Pool, job: Job, task: Task, checkpoint: facts.Checkpoint, ago: int) -> None:
    """The job's work is safe as far as the slowest of those members that save."""
    _come_to(task, checkpoint.step)
    if not checkpoint.agreed and job.size > 1:
        return
    task.checkpoint_step, task.checkpoint_at = checkpoint.step, max(0, pool.now - ago)
    job.last_checkpoint = min(other.checkpoint_at for other in job.tasks if other.checkpoint_at is not None)
    pool.stale_jobs[job.id] = None


@folds(facts.TaskSpared)
def task_spared(pool: Pool, fact: facts.TaskSpared) -> None:
    """One more member stays."""
    job, task = _find(pool, fact)
    if task.eviction is not None and task.eviction.spare_seq is not None:
        with changing(pool, job, task):
            task.eviction = None
        forget_notice(task)
        note_stale(pool, job)
        reindex(pool, job)
    else:
        task.spared = True
        forget_notice(task)
        settle_spare(pool, job)


def forget_notice(task: Task) -> None:
    """Its agent has taken the notice back: the next one is told from the beginning. What it has saved meanwhile counts."""
    task.noticed = task.acknowledged = False
    task.notice_step, task.notice_pace, task.confirmed = None, 0, None
    task.reached = {}


def settle_spare(pool: Pool, job: Job) -> None:
    """When no task of the gang is left that might still obey, the eviction never was. What has ended needs no word."""
    if job.eviction is None or job.eviction.spare_seq is None:
        return
    alive = [task for task in job.tasks if task.state in ("starting", "running") and not _leaves_alone(task)]
    if alive and all(task.spared for task in alive):
        with changing(pool, job):
            job.eviction = None
            for task in job.tasks:
                task.spared = False
        note_stale(pool, job)
        set_phase(pool, job, phase_of(job))


def _leaves_alone(task: Task) -> bool:
    return task.eviction is not None and task.eviction.spare_seq is None


@folds(facts.SpareRefused)
def spare_refused(pool: Pool, fact: facts.SpareRefused) -> None:
    """The member was already on its way: its eviction stands, ordered anew by this record, and with a gang the gang's."""
    job, task = _find(pool, fact)
    if task.eviction is not None and task.eviction.spare_seq is not None:
        _stands(pool, job, task.eviction)
    elif job.eviction is not None:
        _stands(pool, job, job.eviction)
        for other in job.tasks:
            other.spared = False
    pool.room_grew = True


def _stands(pool: Pool, job: Job, eviction: Eviction) -> None:
    with changing(pool, job):
        eviction.spare_seq, eviction.plan = None, None
        eviction.begun_seq = pool.seq
