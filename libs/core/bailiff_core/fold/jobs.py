"""Jobs from submit to end, apart from eviction."""

from bailiff_core.model.places import NodeShare, numbers
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.shape import shape_of
from bailiff_core.protections import displaced_asker
from bailiff_core.queue.order import enqueue
from bailiff_core.records import decisions, facts

from .classes import take_class
from .gang import note_stale
from .growth import drop_reserved
from .log import remember
from .register import folds
from .room import changing, close_plan, drop_promise, reindex, reordering, set_phase, set_promise, tasks_of
from .selection import close_requests_of

EVICTIONS_KEPT = 64
INVOLUNTARY = ("preemption", "policy", "stale-gang", "asked", "drain")
AT_A_WISH = (
    "paused",
    "migration",
    "resize",
)  # they cost the job nothing that a rule counts, and it comes back whatever on_eviction says


@folds(facts.JobSubmitted)
def job_submitted(pool: Pool, fact: facts.JobSubmitted) -> None:
    """The job waits, at its place in the queue."""
    demand = fact.demand
    entry = pool.rules.find_class(demand.priority_class)
    if entry is None:
        raise ValueError(f"job {demand.job} has the class {demand.priority_class}, which the policy lacks")
    job = Job(
        id=demand.job,
        seq=pool.seq,
        submitted_at=pool.now,
        demand=demand,
        class_name=entry.name,
        priority=entry.value,
        preemptible=entry.preemptible if demand.preemptible is None else demand.preemptible,
        may_preempt=entry.preemption_policy == "PreemptLowerPriority",
        spec_digest=fact.spec_digest,
        project=demand.project or "",
        base_priority=entry.value,
        shape=shape_of(demand),
        waiting_since=pool.now,
        user=fact.user,
    )
    pool.jobs[job.id] = job
    pool.touched[job.id] = None
    pool.stale_jobs[job.id] = pool.stale_times[job.id] = None
    enqueue(pool, job)
    remember(pool, fact.request)


@folds(facts.JobReclassified)
def job_reclassified(pool: Pool, fact: facts.JobReclassified) -> None:
    """A waiting job takes its new place in the queue."""
    job = pool.jobs[fact.job]
    entry = pool.rules.find_class(fact.priority_class)
    if entry is None:
        raise ValueError(f"job {job.id} gets the class {fact.priority_class}, which the policy lacks")
    with reordering(pool, job):
        job.class_name = entry.name
        take_class(job, entry)
    job.told_waiting = False
    job.next_request_at = job.refused_requests = 0
    pool.touched[job.id] = None
    pool.room_grew = True
    remember(pool, fact.request)


@folds(facts.JobCancelled)
def job_cancelled(pool: Pool, fact: facts.JobCancelled) -> None:
    """The wish is noted; decisions follow."""
    job = pool.jobs[fact.job]
    job.cancelled = True
    job.held_because = None
    pool.touched[job.id] = None
    set_promise(pool, job, [])
    reindex(pool, job)
    remember(pool, fact.request)


@folds(decisions.JobPlaced)
def job_placed(pool: Pool, decision: decisions.JobPlaced) -> None:
    """The gang, or the first of it, stands at its place: promised, or about to start."""
    job = pool.jobs[decision.job]
    take_place(pool, job, decision.attempt, decision.placement, decision.reserved, decision.expires)


def take_place(pool: Pool, job: Job, attempt: int, placement: tuple[NodeShare, ...], reserved: bool, expires: int | None) -> None:
    """Begin an attempt at these places."""
    set_promise(pool, job, [])
    job.attempt = attempt
    job.told_waiting = False
    job.next_request_at = job.refused_requests = 0
    job.reserved_until = expires
    job.last_start = job.stale_since = None
    with changing(pool, job):
        job.tasks = tasks_of(pool, job, placement, reserved)
    set_phase(pool, job, "reserved" if reserved else "starting")


@folds(decisions.JobStartOrdered)
def job_start_ordered(pool: Pool, decision: decisions.JobStartOrdered) -> None:
    """A promise becomes room held; with the last of it the plan behind it is fulfilled."""
    job = pool.jobs[decision.job]
    chosen = dict.fromkeys(numbers(decision.tasks) if decision.tasks else (task.index for task in job.tasks))
    with changing(pool, job):
        for task in job.tasks:
            if task.index in chosen and task.state == "reserved":
                task.state, task.start_seq = "starting", pool.seq
    if not any(task.state == "reserved" for task in job.tasks):
        job.reserved_until = None
        if job.plan is not None:
            pool.plans.pop(job.plan, None)
            job.plan = None
    note_stale(pool, job)
    set_phase(pool, job, "starting" if job.phase == "reserved" else job.phase)


@folds(decisions.ReservationDropped)
def reservation_dropped(pool: Pool, decision: decisions.ReservationDropped) -> None:
    """The promise is off: the job waits again at its old place, or goes on without these members, or leaves without one."""
    job = pool.jobs[decision.job]
    if decision.tasks:
        drop_promise(pool, job, numbers(decision.tasks))
        drop_reserved(pool, job, numbers(decision.tasks))
    elif job.phase == "evicting":
        set_promise(pool, job, [])
    else:
        back_to_queue(pool, job)


def back_to_queue(pool: Pool, job: Job) -> None:
    """End the present attempt without a trace of room."""
    job.step = max((task.step for task in job.tasks if task.step is not None), default=job.step)
    with changing(pool, job):
        job.tasks = []
        job.eviction = None
    close_plan(pool, job)
    job.reserved_until = job.wish = None
    job.resized = False
    pool.touched[job.id] = None
    pool.room_grew = True
    set_phase(pool, job, "pending" if job.paused_seq is None else "paused")
    job.last_start = job.stale_since = None


@folds(decisions.JobWaits)
def job_waits(pool: Pool, decision: decisions.JobWaits) -> None:
    """The job's owner has been told why it waits."""
    pool.jobs[decision.job].told_waiting = True


@folds(decisions.JobRequeued)
def job_requeued(pool: Pool, decision: decisions.JobRequeued) -> None:
    """The attempt is over and counted for what it was."""
    job = pool.jobs[decision.job]
    if decision.outcome in ("failed", "lost"):
        pool.stirred = pool.seq
    if decision.outcome == "failed":
        job.failures += 1
    elif decision.outcome == "lost":
        job.losses += 1
    elif decision.cause not in AT_A_WISH:
        job.evictions += 1
    if decision.outcome not in ("failed", "lost") or decision.cause in INVOLUNTARY:
        job.last_eviction = pool.now
    if decision.cause in INVOLUNTARY:
        job.evicted_at = [*job.evicted_at[1 - EVICTIONS_KEPT :], pool.now]
    if decision.not_before > pool.now or job.eviction is None:  # a place for some of its members is none for the job
        set_promise(pool, job, [])
    job.not_before = decision.not_before
    job.waiting_since, job.timed_out = pool.now, False
    back_to_queue(pool, job)


@folds(decisions.JobAged)
def job_aged(pool: Pool, decision: decisions.JobAged) -> None:
    """The job counts with another priority than its class's, or with that again."""
    job = pool.jobs[decision.job]
    with reordering(pool, job):
        job.priority = decision.effective
    job.next_request_at = job.refused_requests = 0
    pool.touched[job.id] = None


@folds(decisions.ScheduleTimedOut)
def schedule_timed_out(pool: Pool, decision: decisions.ScheduleTimedOut) -> None:
    """It has been said, for this wait."""
    job = pool.jobs[decision.job]
    job.timed_out = True
    pool.stale_times[job.id] = None
    pool.room_grew = pool.room_grew or decision.then == "pass"  # backfill keeps no place for it any more


@folds(decisions.JobEnded)
def job_ended(pool: Pool, decision: decisions.JobEnded) -> None:
    """The job is over for good; it is remembered for a while."""
    job = pool.jobs[decision.job]
    set_promise(pool, job, [])
    with changing(pool, job):
        job.tasks = []
        job.eviction = None
    close_plan(pool, job)
    job.reserved_until = job.stale_since = job.wish = job.paused_seq = None
    pool.room_grew = True
    close_requests_of(pool, job.id)
    displaced_asker.forget(pool, job.id)
    outcome = decision.outcome
    set_phase(pool, job, "failed" if outcome == "evicted" or outcome == "timed-out" else outcome)
