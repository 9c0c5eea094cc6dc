"""Job life cycle from submission to end, except evictions."""

from bailiff_core.budgets.effects import class_in_force
from bailiff_core.model.placement_ranges import NodeShare, numbers
from bailiff_core.model.scheduling_class import scheduling_class_of, shared_parts
from bailiff_core.model.state import NOTHING, OPERATOR, Job, PoolState, begins_later
from bailiff_core.model.work_lost import note_loss
from bailiff_core.records import decisions, facts

from .allocation import changing, close_preemption, drop_reservation, reindex, reordering, set_phase, set_reservation, tasks_of
from .belief import note_attempt
from .classes import apply_priority_class
from .dependencies import note_dependencies, settle_dependents
from .displacements import forget_displacements
from .elasticity import drop_reserved
from .eviction_causes import GANG_FAILURE, INVOLUNTARY, MAX_EVICTION_TIMES, is_voluntary
from .failed_starts import (
    forget_refusals,
    forget_spared,
    note_failed_start,
    note_left,
    note_over,
    why_over,
)
from .gang import note_stale
from .log import hold_job, limit_grace, note_requester, remember
from .open_jobs import note_open
from .outcome import NEVER_STARTED, Outcome, attempt_outcome
from .pending_queue import enqueue
from .registry import folds
from .selection import close_requests_of
from .snapshots import forget_saving, note_restores, set_snapshot

GROWTH_BACKOFF = 16_000_000  # µs
NOT_EVICTED = ("failed", "lost", "yielded")


@folds(facts.JobSubmitted)
def job_submitted(state: PoolState, fact: facts.JobSubmitted) -> None:
    """The job is pending, at its place in the queue."""
    demand = fact.demand
    entry = state.rules.find_class(demand.priority_class)
    if entry is None:
        raise ValueError(f"job {demand.job} has the class {demand.priority_class}, which the policy lacks")
    scheduling_class = scheduling_class_of(demand)
    job = Job(
        id=demand.job,
        seq=state.seq,
        submitted_at=state.now,
        demand=shared_parts(demand, scheduling_class),
        class_name=entry.name,
        priority=entry.value,
        preemptible=entry.preemptible,
        may_preempt=entry.preemption_policy == "PreemptLowerPriority",
        spec_digest=fact.spec_digest,
        project=demand.project or "",
        base_priority=entry.value,
        scheduling_class=scheduling_class,
        pending_since=state.now,
        user=fact.user,
        user_verified=fact.user_verified,
    )
    apply_priority_class(state, job, entry)
    state.jobs[job.id] = job
    note_open(state, job)
    state.indices.touched[job.id] = None
    state.indices.changed_jobs[job.id] = state.indices.changed_times[job.id] = None
    if demand.after or begins_later(state, job):
        job.phase = "waiting"
        note_dependencies(state, job)
    else:
        enqueue(state, job)
    remember(state, fact.request)


@folds(facts.JobPriorityClassChanged)
def job_priority_class_changed(state: PoolState, fact: facts.JobPriorityClassChanged) -> None:
    """A pending job moves to its new place in the queue."""
    job = state.jobs[fact.job]
    entry = state.rules.find_class(fact.priority_class)
    if entry is None:
        raise ValueError(f"job {job.id} gets the class {fact.priority_class}, which the policy lacks")
    with reordering(state, job):
        job.class_name = entry.name
        apply_priority_class(state, job, entry)
    job.pending_recorded = False
    job.next_request_at = job.refused_requests = 0
    state.indices.touched[job.id] = None
    state.indices.retry_unschedulable = True
    remember(state, fact.request)


@folds(facts.JobCancelled)
def job_cancelled(state: PoolState, fact: facts.JobCancelled) -> None:
    """Marks the job as cancelled; decisions follow."""
    job = state.jobs[fact.job]
    job.cancelled = True
    note_requester(state, job, fact.reason)
    limit_grace(job, fact.grace)
    job.suspended_reason = None
    state.indices.touched[job.id] = None
    set_reservation(state, job, [])
    reindex(state, job)
    remember(state, fact.request)


@folds(decisions.JobPlaced)
def job_placed(state: PoolState, decision: decisions.JobPlaced) -> None:
    """The gang, or its core, has its place: reserved, or starting."""
    job = state.jobs[decision.job]
    start_attempt(state, job, decision.attempt, decision.placement, decision.reserved, decision.expires, decision.backfilled)


def start_attempt(
    state: PoolState,
    job: Job,
    attempt: int,
    placement: tuple[NodeShare, ...],
    reserved: bool,
    expires: int | None,
    backfilled: bool = False,
) -> None:
    """Starts an attempt at these places."""
    set_reservation(state, job, [])
    job.attempt = attempt
    job.pending_recorded = False
    job.next_request_at = job.refused_requests = 0
    job.reserved_until = expires
    job.backfilled = backfilled
    job.last_start = job.stale_since = None
    forget_saving(job)
    job.unsaved_before = 0
    job.assigned_at = None if reserved else state.now
    with changing(state, job):
        job.tasks = tasks_of(state, job, placement, reserved)
    note_restores(state, job)
    set_phase(state, job, "reserved" if reserved else "starting")


@folds(decisions.JobStarting)
def job_starting(state: PoolState, decision: decisions.JobStarting) -> None:
    """Reserved tasks start; with the last of them the preemption behind the reservation is complete."""
    job = state.jobs[decision.job]
    chosen = dict.fromkeys(numbers(decision.tasks) if decision.tasks else (task.index for task in job.tasks))
    with changing(state, job):
        for task in job.tasks:
            if task.index in chosen and task.state == "reserved":
                task.state, task.start_seq = "starting", state.seq
    note_restores(state, job)
    if not any(task.state == "reserved" for task in job.tasks):
        job.reserved_until, job.assigned_at = None, job.assigned_at or state.now
        if job.preemption is not None:
            state.preemptions.pop(job.preemption, None)
        job.preemption = None
    note_stale(state, job)
    set_phase(state, job, "starting" if job.phase == "reserved" else job.phase)


@folds(decisions.ReservationDropped)
def reservation_dropped(state: PoolState, decision: decisions.ReservationDropped) -> None:
    """The reservation is dropped: the job is pending again, or continues without these tasks."""
    job = state.jobs[decision.job]
    if decision.tasks:
        drop_reservation(state, job, numbers(decision.tasks))
        drop_reserved(state, job, numbers(decision.tasks), decision.reason)
        if decision.reason == "growth-cost":
            job.not_before = max(job.not_before, state.now + max(GROWTH_BACKOFF, state.rules.restarts.grow_after))
    elif job.phase == "evicting":
        set_reservation(state, job, [])
    else:
        requeue(state, job, decision.reason)


def requeue(state: PoolState, job: Job, why: str) -> None:
    """Ends the present attempt; the job has no resources.

    Args:
        why: As of `note_given_up`.
    """
    close_preemption(state, job, why)
    job.step = max((task.step for task in job.tasks if task.step is not None), default=job.step)
    with changing(state, job):
        job.tasks = []
        job.eviction = None
    job.reserved_until = job.operator_request = job.grace_limit = None
    job.restart_cause = ""
    forget_saving(job)
    state.indices.touched[job.id] = None
    state.indices.retry_unschedulable = True
    entry = state.rules.find_class(job.class_name)
    if entry is not None and class_in_force(state, job, entry) is not entry:
        apply_priority_class(state, job, entry)
    set_phase(state, job, "pending" if job.paused_seq is None else "paused")
    job.last_start = job.stale_since = job.assigned_at = None


@folds(decisions.JobPending)
def job_pending(state: PoolState, decision: decisions.JobPending) -> None:
    """Ensures that JobPending is recorded once per wait."""
    state.jobs[decision.job].pending_recorded = True


@folds(decisions.JobRequeued)
def job_requeued(state: PoolState, decision: decisions.JobRequeued) -> None:
    """The attempt is over; its outcome is counted."""
    job = state.jobs[decision.job]
    started = [task for task in job.tasks if task.state != "reserved"]
    note_loss(state, job, started, decision.lost_gpu_ms, measured=decision.measured)
    note_attempt(state, job)
    if decision.outcome in NOT_EVICTED:
        state.entitlements_changed = state.seq
    voluntary = is_voluntary(state, job, decision.cause)
    note_left(state, job)
    if job.eviction is not None and job.eviction.started_at is not None and decision.outcome not in NOT_EVICTED:
        job.leaving_time = state.now - job.eviction.started_at
    if decision.rule == NEVER_STARTED:
        note_failed_start(state, job, decision.refused_by)
    note_over(state, job, decision.outcome, decision.cause)
    if decision.rule != NEVER_STARTED:
        _count(job, decision.outcome, voluntary=voluntary)
    if decision.held and OPERATOR not in job.holds:  # until LOGIC 8 both were one hold
        hold_job(state, job, decision.held)
    if decision.outcome not in NOT_EVICTED or decision.cause in INVOLUNTARY:
        job.last_eviction = state.now
    counts = decision.cause in INVOLUNTARY and not voluntary
    if counts or (decision.cause == GANG_FAILURE and decision.outcome not in NOT_EVICTED):
        job.eviction_times = [*job.eviction_times[1 - MAX_EVICTION_TIMES :], state.now]
    if decision.not_before > state.now or job.eviction is None:  # a reservation of single tasks is of no use to the next attempt
        set_reservation(state, job, [])
    job.not_before = decision.not_before
    job.pending_since, job.timeout_recorded = state.now, False
    requeue(state, job, why_over(decision.outcome, decision.cause))


def _count(job: Job, outcome: Outcome, *, voluntary: bool) -> None:
    """Counts the attempt that is over."""
    if outcome == "failed":
        job.failures += 1
    elif outcome == "lost":
        job.losses += 1
    elif outcome == "yielded":
        job.yields += 1
    elif outcome != "finished" and not voluntary:
        job.evictions += 1


@folds(decisions.JobPriorityBoosted)
def job_priority_boosted(state: PoolState, decision: decisions.JobPriorityBoosted) -> None:
    """The job's effective priority changes."""
    job = state.jobs[decision.job]
    with reordering(state, job):
        job.priority = decision.effective_priority
    job.next_request_at = job.refused_requests = 0
    state.indices.touched[job.id] = None


@folds(decisions.ScheduleTimedOut)
def schedule_timed_out(state: PoolState, decision: decisions.ScheduleTimedOut) -> None:
    """Ensures that ScheduleTimedOut is recorded once per wait."""
    job = state.jobs[decision.job]
    job.timeout_recorded = True
    state.indices.changed_times[job.id] = None
    state.indices.retry_unschedulable = (
        state.indices.retry_unschedulable or decision.action == "pass"
    )  # backfill reserves nothing for it any more


@folds(decisions.JobEnded)
def job_ended(state: PoolState, decision: decisions.JobEnded) -> None:
    """The job has ended; the state keeps it for the retention time."""
    job = state.jobs[decision.job]
    if decision.outcome == "evicted":
        note_loss(state, job, [task for task in job.tasks if task.state != "reserved"], decision.lost_gpu_ms, for_good=True)
    if decision.outcome in ("failed", "evicted") and job.tasks:  # without tasks: what it depends on failed
        _count(job, attempt_outcome(job), voluntary=is_voluntary(state, job, decision.cause))
    note_left(state, job)
    note_over(state, job, decision.outcome, decision.cause)
    close_preemption(state, job, why_over(decision.outcome, decision.cause))
    set_reservation(state, job, [])
    with changing(state, job):
        job.tasks = []
        job.eviction = None
    job.reserved_until = job.stale_since = job.operator_request = job.paused_seq = None
    job.holds = job.evicted_for = NOTHING
    forget_saving(job)
    set_snapshot(state, job, None)
    state.indices.retry_unschedulable = True
    close_requests_of(state, job.id)
    forget_displacements(state, job.id)
    forget_refusals(state, job)
    forget_spared(state, job.id)
    outcome = decision.outcome
    set_phase(state, job, "failed" if outcome == "evicted" or outcome == "timed-out" else outcome)
    settle_dependents(state, job)
