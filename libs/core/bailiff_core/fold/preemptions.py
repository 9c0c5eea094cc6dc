"""Selections, proposals and preemptions."""

from bailiff_core.model.evictions import evictions_of
from bailiff_core.model.placement_ranges import numbers
from bailiff_core.model.proposal import VictimChoice
from bailiff_core.model.state import Eviction, Job, OpenRequest, PoolState, Preemption, Selection
from bailiff_core.records import decisions, facts

from .allocation import evict_job, reindex, set_reservation, tasks_of
from .displacements import note_displacement, note_reclaimed
from .elasticity import grow
from .evictions import evict_tasks, extend_restart, restart_without
from .failed_starts import take_over
from .jobs import requeue, start_attempt
from .registry import folds
from .selection import close_request


@folds(decisions.PreemptionRequested)
def preemption_requested(state: PoolState, decision: decisions.PreemptionRequested) -> None:
    """The first request of a selection opens it."""
    if state.selection is None or state.selection.number != decision.selection:
        state.selection = Selection(decision.selection, state.seq, decision.deadline, [])
        state.selections = decision.selection
    state.selection.requests.append(OpenRequest(state.seq, decision.job))


@folds(facts.ProposalReceived)
def proposal_received(state: PoolState, fact: facts.ProposalReceived) -> None:
    """Each open request now has its proposal, or none."""
    state.proposals = {proposal.request: proposal for proposal in fact.proposals}
    state.selection_failures = 0


@folds(decisions.PreemptionDecided)
def preemption_decided(state: PoolState, decision: decisions.PreemptionDecided) -> None:
    """Victims are evicted, those that move get reservations; the preemptor gets its reservation."""
    preemption = Preemption(state.seq, decision.preemptor.job, [])
    for choice, grace in zip(decision.victims, decision.graces, strict=True):
        _evict_victim(state, state.jobs[choice.job], choice, grace, preemption, decision.cancelled_evictions)
    for choice in decision.victims:  # after all evictions: a place may have been reserved for another victim
        victim = state.jobs[choice.job]
        places = tasks_of(state, victim, choice.moved_to, True)
        if not choice.tasks:
            set_reservation(state, victim, places, decision.expires, decision.action)
        elif places:  # in addition to reservations of tasks that are already evicting
            until = max(victim.reservation_until or 0, decision.expires)
            set_reservation(
                state, victim, sorted([*victim.reservation, *places], key=lambda task: task.index), until, decision.action
            )
            state.indices.touched[victim.id] = None
    preemptor = state.jobs[decision.preemptor.job]
    if decision.action == "reclaim":
        note_reclaimed(state, preemptor.project, (choice.project for choice in decision.victims if not choice.relocated))
    for choice in decision.victims:
        if decision.action in ("reclaim", "preempt") and not choice.relocated:
            scope = {"asks_surplus": bool(decision.tasks), "loses_surplus": bool(choice.tasks or choice.not_relocated)}
            note_displacement(state, preemptor.id, choice.job, **scope)
    if decision.tasks:
        grow(state, preemptor, decision.placement, True, decision.expires)
    else:
        start_attempt(state, preemptor, decision.attempt, decision.placement, True, decision.expires)
    preemptor.preemption = state.seq
    state.preemptions[state.seq] = preemption
    reindex(state, preemptor)
    close_request(state, decision.request)


def _evict_victim(
    state: PoolState, victim: Job, choice: VictimChoice, grace: int, preemption: Preemption, cancelled: tuple[str, ...]
) -> None:
    indices = numbers(choice.tasks) if choice.tasks else [task.index for task in victim.tasks]
    if all(task.index in indices for task in victim.tasks if task.state == "reserved"):
        _inherit_victims(state, victim, preemption, cancelled)
        if victim.reserved_until is not None:
            take_over(state, victim, state.jobs[preemption.job])
    if victim.phase == "reserved" and not choice.tasks:
        requeue(state, victim, "preemption")
        return
    eviction = Eviction(state.seq, "preemption", grace, preemption=preemption.seq, for_job=preemption.job)
    if choice.extends:
        extend_restart(state, victim, indices, grace)
        preemption.victims.append(victim.id)
        return
    if choice.together:
        restart_without(state, victim, indices, eviction)
    elif choice.tasks:
        evict_tasks(state, victim, indices, eviction)
    else:
        evict_job(state, victim, eviction)
    if any(entry.eviction.preemption == preemption.seq for entry in evictions_of(victim)) and victim.id not in preemption.victims:
        preemption.victims.append(victim.id)


def _inherit_victims(state: PoolState, holder: Job, preemption: Preemption, cancelled: tuple[str, ...]) -> None:
    """Victims of the dropped reservation are evicted for the new preemptor, unless their eviction is cancelled."""
    old = state.preemptions.get(holder.preemption) if holder.preemption is not None else None
    if old is None:
        return
    for name in old.victims:
        if name not in state.jobs or name in cancelled:
            continue
        job = state.jobs[name]
        for eviction in (job.eviction, *(task.eviction for task in job.tasks)):
            if eviction is not None and eviction.preemption == old.seq:
                eviction.preemption, eviction.for_job = preemption.seq, preemption.job
                if name not in preemption.victims:
                    preemption.victims.append(name)
        if job.eviction is not None and job.eviction.preemption in state.preemptions and name not in preemption.victims:
            preemption.victims.append(name)  # the old one extended this eviction


@folds(decisions.PreemptionRefused)
def preemption_refused(state: PoolState, decision: decisions.PreemptionRefused) -> None:
    """The job may request a preemption again later."""
    job = state.jobs[decision.preemptor.job]
    if decision.retry_at is not None:
        job.next_request_at = decision.retry_at
        job.refused_seq = state.seq
        state.indices.changed_times[job.id] = None
        job.refused_requests += 1
    close_request(state, decision.request)


@folds(decisions.SelectionTimedOut)
def selection_timed_out(state: PoolState, decision: decisions.SelectionTimedOut) -> None:
    """Jobs that waited for the selection are tried again."""
    for request in state.selection.requests if state.selection is not None else ():
        state.jobs[request.job].next_request_at = decision.retry_at
        state.jobs[request.job].refused_seq = state.seq
        state.indices.changed_times[request.job] = None
    state.selection = state.proposals = None
    state.selection_failures = decision.failures
    state.indices.retry_unschedulable = True


@folds(facts.PreemptionAbandoned)
def preemption_abandoned(state: PoolState, fact: facts.PreemptionAbandoned) -> None:
    """The executor found that no eviction is needed."""
    preemption = state.preemptions.get(fact.preemption)
    if preemption is not None:
        preemption.abandoned = fact.reason
        state.indices.touched[preemption.job] = None
