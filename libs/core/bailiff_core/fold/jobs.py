"""Jobs from submit to end, apart from eviction."""

import hashlib

from bailiff_core.canonical import canonical_json
from bailiff_core.model.places import NodeShare
from bailiff_core.model.pool import Job, Pool
from bailiff_core.queue.order import enqueue
from bailiff_core.records import decisions, facts

from .log import remember
from .register import folds
from .room import changing, set_phase, tasks_of
from .selection import close_requests_of


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
        shape=hashlib.sha256(canonical_json([group.to_data() for group in demand.tasks])).hexdigest()[:16],
    )
    pool.jobs[job.id] = job
    pool.touched[job.id] = None
    enqueue(pool, job)
    remember(pool, fact.request)


@folds(facts.JobCancelled)
def job_cancelled(pool: Pool, fact: facts.JobCancelled) -> None:
    """The wish is noted; decisions follow."""
    job = pool.jobs[fact.job]
    job.cancelled = True
    job.held_because = None
    pool.touched[job.id] = None
    remember(pool, fact.request)


@folds(decisions.JobPlaced)
def job_placed(pool: Pool, decision: decisions.JobPlaced) -> None:
    """The gang stands at its place: promised, or about to start."""
    job = pool.jobs[decision.job]
    take_place(pool, job, decision.attempt, decision.placement, decision.reserved, decision.expires)


def take_place(pool: Pool, job: Job, attempt: int, placement: tuple[NodeShare, ...], reserved: bool, expires: int | None) -> None:
    """Begin an attempt at these places."""
    set_phase(pool, job, "reserved" if reserved else "starting")
    job.attempt = attempt
    job.told_waiting = False
    job.next_request_at = job.refused_requests = 0
    job.reserved_until = expires
    job.start_seq = None if reserved else pool.seq
    job.last_start = None
    with changing(pool, job):
        job.tasks = tasks_of(job, placement, reserved)


@folds(decisions.JobStartOrdered)
def job_start_ordered(pool: Pool, decision: decisions.JobStartOrdered) -> None:
    """A promise becomes room held; the plan behind it is fulfilled."""
    job = pool.jobs[decision.job]
    with changing(pool, job):
        for task in job.tasks:
            task.state = "starting"
    set_phase(pool, job, "starting")
    job.start_seq, job.reserved_until = pool.seq, None
    if job.plan is not None:
        pool.plans.pop(job.plan, None)
        job.plan = None


@folds(decisions.ReservationDropped)
def reservation_dropped(pool: Pool, decision: decisions.ReservationDropped) -> None:
    """The promise is off and the job waits again, at its old place."""
    back_to_queue(pool, pool.jobs[decision.job])


def back_to_queue(pool: Pool, job: Job) -> None:
    """End the present attempt without a trace of room."""
    with changing(pool, job):
        job.tasks = []
        job.eviction = None
    if job.plan is not None:
        plan = pool.plans.pop(job.plan, None)
        for victim in plan.victims if plan else []:
            pool.touched[victim] = None
        job.plan = None
    job.reserved_until = job.start_seq = job.last_start = None
    pool.touched[job.id] = None
    pool.room_grew = True
    set_phase(pool, job, "pending")


@folds(decisions.JobWaits)
def job_waits(pool: Pool, decision: decisions.JobWaits) -> None:
    """The job's owner has been told why it waits."""
    pool.jobs[decision.job].told_waiting = True


@folds(decisions.JobRequeued)
def job_requeued(pool: Pool, decision: decisions.JobRequeued) -> None:
    """The attempt is over and counted for what it was."""
    job = pool.jobs[decision.job]
    if decision.outcome == "failed":
        job.failures += 1
    elif decision.outcome != "lost":
        job.evictions += 1
        job.last_eviction = pool.now
    job.not_before = decision.not_before
    back_to_queue(pool, job)


@folds(decisions.JobEnded)
def job_ended(pool: Pool, decision: decisions.JobEnded) -> None:
    """The job is over for good; it is remembered for a while."""
    job = pool.jobs[decision.job]
    with changing(pool, job):
        job.tasks = []
        job.eviction = None
    pool.room_grew = True
    close_requests_of(pool, job.id)
    set_phase(pool, job, "failed" if decision.outcome == "evicted" else decision.outcome)
