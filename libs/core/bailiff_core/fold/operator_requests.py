"""Requests of operators: evict, pause, resume and migrate jobs; drain nodes."""

from bailiff_core.model.state import OPERATOR, Drain, Eviction, Job, Maintenance, OperatorRequest, PoolState
from bailiff_core.permissions import Requester, oversees
from bailiff_core.records import decisions, facts

from .allocation import evict_job, reindex, set_phase, set_reservation, tasks_of
from .failed_starts import allow_nodes, forget_failed_starts
from .log import hold_job, limit_grace, note_requester, remember
from .registry import folds
from .selection import close_requests_of


@folds(facts.JobEvictionRequested)
def job_eviction_requested(state: PoolState, fact: facts.JobEvictionRequested) -> None:
    """Stores the request; a decision of the same cycle carries it out. Of an eviction in progress it limits the grace."""
    job = state.jobs[fact.job]
    if job.phase != "evicting":
        job.operator_request = OperatorRequest(state.seq, "evict", fact.reason)
    note_requester(state, job, fact.reason)
    limit_grace(job, fact.grace)
    state.indices.touched[fact.job] = None
    remember(state, fact.request)


@folds(facts.JobMigrationRequested)
def job_migration_requested(state: PoolState, fact: facts.JobMigrationRequested) -> None:
    """Stores the request; a decision of the same cycle carries it out or refuses it."""
    job = state.jobs[fact.job]
    job.operator_request = OperatorRequest(state.seq, "migrate", fact.reason, fact.node)
    note_requester(state, job, fact.reason)
    state.indices.touched[fact.job] = None
    remember(state, fact.request)


@folds(facts.JobPaused)
def job_paused(state: PoolState, fact: facts.JobPaused) -> None:
    """A pending job is paused at once; a placed one is evicted by decision."""
    job = state.jobs[fact.job]
    hold_job(state, job, fact.reason, holds_of(state, _requester(state), job, fact.hold)[0])
    if job.eviction is None or not fact.hold:  # an eviction keeps its requester when its pods leave
        note_requester(state, job, fact.reason)
    set_reservation(state, job, [])
    state.indices.touched[job.id] = None
    if job.phase == "pending":
        set_phase(state, job, "paused")
    close_requests_of(state, job.id)
    state.indices.retry_unschedulable = True  # the head of the queue, or its reservation, may have changed
    reindex(state, job)
    remember(state, fact.request)


@folds(facts.JobResumed)
def job_resumed(state: PoolState, fact: facts.JobResumed) -> None:
    """The job is pending again, at its old place; one that is still evicting is requeued after its eviction."""
    job = state.jobs[fact.job]
    ended = [hold for hold in holds_of(state, _requester(state), job, fact.hold) if hold in job.holds]
    ended = ended or [OPERATOR]  # until LOGIC 8 an operator's pause was everybody's to end
    job.holds = {hold: about for hold, about in job.holds.items() if hold not in ended}
    job.paused_seq, job.pause_reason = next(iter(job.holds.values()), (None, ""))
    job.resumed_seq = state.seq
    if job.eviction is None:
        job.requester, job.requester_verified, job.request_reason = "", False, ""
    if not fact.keep_failed_starts:  # what kept it from starting may be mended
        if oversees(state.rules, _requester(state), job):  # what costs others is not for its owner to forget
            if job.start_failures:
                job.not_before = 0
            forget_failed_starts(state, job)
        allow_nodes(state, job)
    state.indices.touched[job.id] = None
    if job.phase == "paused" and not job.holds:
        job.pending_since, job.timeout_recorded, job.pending_recorded = state.now, False, False
        job.next_request_at = job.refused_requests = 0
        set_phase(state, job, "pending")
    state.indices.retry_unschedulable = True
    reindex(state, job)
    remember(state, fact.request)


def holds_of(state: PoolState, requester: Requester, job: Job, hold: str) -> tuple[str, ...]:
    """The holds on the job that a request of this sender to resume it ends; a request to pause it sets the first.

    An operator's pause of another's job is for operators to end.
    """
    return (OPERATOR, hold) if not hold and oversees(state.rules, requester, job) else (hold,)


@folds(facts.NodeDrained)
def node_drained(state: PoolState, fact: facts.NodeDrained) -> None:
    """The node takes no new tasks, now or at its time. A later request replaces an earlier one of this kind."""
    number, indices = state.node_numbers[fact.node], state.indices
    if fact.begin is not None:
        end, who = fact.begin + (fact.duration or 0), (indices.actor, indices.actor_verified)
        state.maintenance[number] = Maintenance(state.seq, fact.begin, end, fact.reason, *who)
        _touch_jobs_on(state, number)
        remember(state, fact.request)
        return
    deadline = None if fact.deadline is None else state.now + fact.deadline
    due = fact.mode != "graceful"
    drain = Drain(state.seq, fact.mode, fact.reason, deadline, due, indices.actor, indices.actor_verified)
    state.nodes[number].drain = drain
    state.draining[number] = None
    _touch_jobs_on(state, number)
    remember(state, fact.request)


@folds(decisions.DrainDeadlineReached)
def drain_deadline_reached(state: PoolState, decision: decisions.DrainDeadlineReached) -> None:
    """Tasks still on the node are evicted now."""
    number = state.node_numbers[decision.node]
    drain = state.nodes[number].drain
    if drain is not None:
        drain.due = True
    _touch_jobs_on(state, number)


@folds(facts.NodeUndrained)
def node_undrained(state: PoolState, fact: facts.NodeUndrained) -> None:
    """The node is schedulable again. Evictions that were notified continue; others are cancelled."""
    number = state.node_numbers[fact.node]
    maintenance = state.maintenance.get(number)
    if maintenance is not None and (maintenance.began or state.nodes[number].drain is None):
        del state.maintenance[number]
        _touch_jobs_on(state, number)
    _undrain(state, number)
    remember(state, fact.request)


@folds(decisions.MaintenanceBegan)
def maintenance_began(state: PoolState, decision: decisions.MaintenanceBegan) -> None:
    """The node is drained, unless it is already."""
    number = state.node_numbers[decision.node]
    node, found = state.nodes[number], state.maintenance[number]
    found.began = True
    if node.drain is None:
        node.drain = Drain(found.seq, "quick", found.reason, None, True, found.requester, found.requester_verified)
        state.draining[number] = None
    _touch_jobs_on(state, number)


@folds(decisions.MaintenanceEnded)
def maintenance_ended(state: PoolState, decision: decisions.MaintenanceEnded) -> None:
    """The node is schedulable again, unless an operator has drained it."""
    number = state.node_numbers[decision.node]
    del state.maintenance[number]
    _touch_jobs_on(state, number)
    if not decision.drained:
        _undrain(state, number)


def _undrain(state: PoolState, number: int) -> None:
    state.nodes[number].drain = None
    state.draining.pop(number, None)
    state.indices.changed_nodes[number] = None
    state.indices.infeasible.clear()
    state.indices.retry_unschedulable = True


def _requester(state: PoolState) -> Requester:
    """Who has sent the request of this record."""
    return Requester(state.indices.actor, "signed" if state.indices.actor_verified else "none")


def _touch_jobs_on(state: PoolState, number: int) -> None:
    state.indices.changed_nodes[number] = None
    state.indices.infeasible.clear()
    state.indices.retry_unschedulable = True
    for job in state.active_jobs():
        if any(task.node == number for task in (*job.tasks, *job.reservation)):
            state.indices.touched[job.id] = state.indices.changed_times[job.id] = None


@folds(decisions.MigrationDecided)
def migration_decided(state: PoolState, decision: decisions.MigrationDecided) -> None:
    """Evicts the job and reserves its new place."""
    job = state.jobs[decision.job]
    evict_job(state, job, Eviction(state.seq, decision.cause, decision.grace))
    action = "migrate" if decision.cause == "migration" else "allocate"
    set_reservation(state, job, tasks_of(state, job, decision.placement, True), decision.expires, action)
    state.indices.retry_unschedulable = True


@folds(decisions.MigrationRefused)
def migration_refused(state: PoolState, decision: decisions.MigrationRefused) -> None:
    """The job stays at its place."""
    state.jobs[decision.job].operator_request = None
