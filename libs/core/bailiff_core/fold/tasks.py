"""What agents reported of tasks. A report about another attempt than the present one never gets here."""

from bailiff_core.model.pool import Job, Pool, Task
from bailiff_core.records import facts

from .register import folds
from .room import changing, phase_of, set_phase


def _find(pool: Pool, fact: facts.TaskFact) -> tuple[Job, Task]:
    job = pool.jobs[fact.job]
    pool.touched[job.id] = None
    return job, job.tasks[fact.task]


@folds(facts.TaskStarted)
def task_started(pool: Pool, fact: facts.TaskStarted) -> None:
    """When the last of the gang runs, the job runs."""
    job, task = _find(pool, fact)
    task.state, task.started_at = "running", pool.now
    if all(other.state == "running" for other in job.tasks):
        job.last_start = pool.now
        if job.phase == "starting":
            set_phase(pool, job, "running")


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
        task.state, task.exit_code = "exited", fact.exit_code
    pool.room_grew = True
    settle_spare(pool, job)


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
    pool.touched[job.id] = None
    pool.room_grew = True
    settle_spare(pool, job)


@folds(facts.EvictionStaged)
def eviction_staged(pool: Pool, fact: facts.EvictionStaged) -> None:
    """How far the task's eviction got."""
    _, task = _find(pool, fact)
    setattr(task, fact.stage, True)


@folds(facts.TaskSpared)
def task_spared(pool: Pool, fact: facts.TaskSpared) -> None:
    """One more member stays."""
    job, task = _find(pool, fact)
    task.spared = True
    settle_spare(pool, job)


def settle_spare(pool: Pool, job: Job) -> None:
    """When no task of the gang is left that might still obey, the eviction never was. What has ended needs no word."""
    if job.eviction is None or job.eviction.spare_seq is None:
        return
    alive = [task for task in job.tasks if task.state in ("starting", "running")]
    if alive and all(task.spared for task in alive):
        with changing(pool, job):
            job.eviction = None
            for task in job.tasks:
                task.spared = False
        set_phase(pool, job, phase_of(job))


@folds(facts.SpareRefused)
def spare_refused(pool: Pool, fact: facts.SpareRefused) -> None:
    """One member was already on its way, so the gang goes whole: the eviction stands, ordered anew by this record."""
    job, _ = _find(pool, fact)
    if job.eviction is None:
        return
    with changing(pool, job):
        job.eviction.spare_seq, job.eviction.plan = None, None
        job.eviction.begun_seq = pool.seq
        for task in job.tasks:
            task.spared = False
    pool.room_grew = True
