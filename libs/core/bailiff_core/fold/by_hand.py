"""What people ask for by hand: jobs that leave, pause, go on or move, and nodes that are emptied."""

from bailiff_core.model.pool import Drain, Eviction, Pool, Wish
from bailiff_core.records import decisions, facts

from .log import remember
from .register import folds
from .room import leave_whole, reindex, set_phase, set_promise, tasks_of
from .selection import close_requests_of


@folds(facts.JobEvictionAsked)
def job_eviction_asked(pool: Pool, fact: facts.JobEvictionAsked) -> None:
    """The wish is noted; a decision of the same turn fulfils it."""
    pool.jobs[fact.job].wish = Wish(pool.seq, "evict", fact.reason)
    pool.touched[fact.job] = None
    remember(pool, fact.request)


@folds(facts.JobMigrationAsked)
def job_migration_asked(pool: Pool, fact: facts.JobMigrationAsked) -> None:
    """The wish is noted; a decision of the same turn fulfils or refuses it."""
    pool.jobs[fact.job].wish = Wish(pool.seq, "migrate", fact.reason, fact.node)
    pool.touched[fact.job] = None
    remember(pool, fact.request)


@folds(facts.JobPaused)
def job_paused(pool: Pool, fact: facts.JobPaused) -> None:
    """A job that waits is set aside at once; one that has a place loses it by decision."""
    job = pool.jobs[fact.job]
    job.paused_seq, job.pause_reason = pool.seq, fact.reason
    set_promise(pool, job, [])
    pool.touched[job.id] = None
    if job.phase == "pending":
        set_phase(pool, job, "paused")
    close_requests_of(pool, job.id)
    pool.room_grew = True  # the head of the queue, or what is kept for it, may be another now
    reindex(pool, job)
    remember(pool, fact.request)


@folds(facts.JobUnpaused)
def job_unpaused(pool: Pool, fact: facts.JobUnpaused) -> None:
    """The job waits again, at its old place; one that is still on its way out goes back to the queue when it has left."""
    job = pool.jobs[fact.job]
    job.paused_seq, job.pause_reason = None, ""
    pool.touched[job.id] = None
    if job.phase == "paused":
        job.waiting_since, job.timed_out, job.told_waiting = pool.now, False, False
        job.next_request_at = job.refused_requests = 0
        set_phase(pool, job, "pending")
    pool.room_grew = True
    reindex(pool, job)
    remember(pool, fact.request)


@folds(facts.NodeDrained)
def node_drained(pool: Pool, fact: facts.NodeDrained) -> None:
    """Nothing new is placed there. A later request replaces an earlier one."""
    number = pool.node_numbers[fact.node]
    deadline = None if fact.deadline is None else pool.now + fact.deadline
    pool.nodes[number].drain = Drain(pool.seq, fact.mode, fact.reason, deadline, fact.mode != "graceful")
    pool.drained[number] = None
    _look_again(pool, number)
    remember(pool, fact.request)


@folds(decisions.DrainDue)
def drain_due(pool: Pool, decision: decisions.DrainDue) -> None:
    """What is still there leaves now."""
    number = pool.node_numbers[decision.node]
    drain = pool.nodes[number].drain
    if drain is not None:
        drain.due = True
    _look_again(pool, number)


@folds(facts.NodeUndrained)
def node_undrained(pool: Pool, fact: facts.NodeUndrained) -> None:
    """It takes work again. What was told to leave leaves; what was only decided is taken back."""
    number = pool.node_numbers[fact.node]
    pool.nodes[number].drain = None
    pool.drained.pop(number, None)
    pool.stale_nodes[number] = None
    pool.ever_fits.clear()
    pool.room_grew = True
    remember(pool, fact.request)


def _look_again(pool: Pool, number: int) -> None:
    pool.stale_nodes[number] = None
    pool.ever_fits.clear()
    pool.room_grew = True
    for job in pool.active_jobs():
        if any(task.node == number for task in (*job.tasks, *job.promise)):
            pool.touched[job.id] = None


@folds(decisions.MigrationDecided)
def migration_decided(pool: Pool, decision: decisions.MigrationDecided) -> None:
    """It is on its way out, and its next place is kept for it."""
    job = pool.jobs[decision.job]
    leave_whole(pool, job, Eviction(pool.seq, decision.cause, decision.grace))
    verb = "migrate" if decision.cause == "migration" else "allocate"
    set_promise(pool, job, tasks_of(pool, job, decision.placement, True), decision.expires, verb)
    pool.room_grew = True


@folds(decisions.MigrationRefused)
def migration_refused(pool: Pool, decision: decisions.MigrationRefused) -> None:
    """It stays."""
    pool.jobs[decision.job].wish = None
