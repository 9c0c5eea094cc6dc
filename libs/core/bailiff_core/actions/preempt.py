"""Requests victim selection for pending jobs, and decides on its proposals (consolidate, reclaim, preempt)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bailiff_core.humanize import count_text
from bailiff_core.model.grace import grace_for
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.policy import Action
from bailiff_core.model.proposal import Proposal, VictimChoice
from bailiff_core.model.state import Job, OpenRequest, PoolState, Task
from bailiff_core.model.units import Unit, next_unit, restarts_to_grow
from bailiff_core.model.work_lost import NO_LOSS, victims_loss
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.placement.islands import islands_used
from bailiff_core.placement.placement_codec import decode_placement
from bailiff_core.protections import next_protection_end
from bailiff_core.protections.payback import Growth, growth_by
from bailiff_core.queue.head import is_schedulable
from bailiff_core.queue.order import shares_now
from bailiff_core.quota.quota_checks import Shares
from bailiff_core.records.decisions import PreemptionDecided, PreemptionRefused, PreemptionRequested, Preemptor, SelectionTimedOut
from bailiff_core.records.payload import Decision
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims.batch import PREEMPTING_ACTIONS, units_of_victim
from bailiff_core.victims.reprieve import evictions_to_cancel
from bailiff_core.victims.revalidate import Accepted, revalidate_proposal

from .allocate import pending_reason
from .failure import attribute_errors_to
from .possible_victims import PossibleVictims
from .requesting import MAX_SELECTION_REQUESTS, MAX_SELECTION_TIMEOUTS, requesting_units

MAX_REASON_CHARS = 2000  # of `would_need`, which may contain text of a proposal


def request_preemptions(state: PoolState, limit: int = MAX_SELECTION_REQUESTS) -> Iterator[Decision]:
    """Opens one selection with the first `limit` pending units that an action could help. At most one selection is open."""
    rules = state.rules.preemption
    if (
        state.truncation_unreconciled
        or state.selection is not None
        or not any(action in rules.actions for action in PREEMPTING_ACTIONS)
    ):
        return
    if not state.queue:
        return  # no pending job: `PossibleVictims` need not be computed
    victims = PossibleVictims(state)
    if not victims.exist:
        return
    number = state.selections + 1
    unlimited = state.selection_failures >= MAX_SELECTION_TIMEOUTS
    deadline = None if unlimited else state.now + rules.selection_timeout
    for unit, actions in requesting_units(state, victims, limit, state.indices.withheld):
        job = unit.job
        yield PreemptionRequested(
            job=job.id,
            action=actions[0],
            selection=number,
            class_name=job.class_name,
            priority=job.priority,
            reason=pending_reason(state, job),
            deadline=deadline,
            actions=actions,
            tasks=ranges(unit.indices) if job.tasks else "",
        )


def proposal_decisions(state: PoolState) -> Iterator[Decision]:
    """Decides on each proposal of the selection, in the order of its search, revalidated on the state after those before it."""
    if state.proposals is None or state.selection is None:
        return
    shares = shares_now(current_snapshot(state))
    place = {request: at for at, request in enumerate(state.proposals)}
    allocated: list[tuple[Unit, GangPlacement]] = []
    for request in sorted(state.selection.requests, key=lambda request: place.get(request.seq, len(place))):
        job = state.jobs[request.job]
        with attribute_errors_to(job):
            yield _decide_on(state, shares, job, request, state.proposals.get(request.seq), allocated)


def _decide_on(
    state: PoolState,
    shares: Shares,
    job: Job,
    request: OpenRequest,
    proposal: Proposal | None,
    allocated: list[tuple[Unit, GangPlacement]],
) -> Decision:
    """Decides on the proposal; a unit that fits without evictions is added to `allocated`."""
    preemptor = Preemptor(
        job=job.id, class_name=job.class_name, priority=job.priority, project=job.project, base_priority=job.base_priority
    )
    action: Action = proposal.action if proposal is not None and proposal.action != "allocate" else "preempt"
    if job.phase not in ("pending", "starting", "running") or next_unit(job) is None or not is_schedulable(state, job):
        return PreemptionRefused(request=request.seq, action=action, preemptor=preemptor, reason="not-needed")
    retry_at = state.now + (state.rules.preemption.selection_backoff << min(job.refused_requests, 6))
    if proposal is None:
        return PreemptionRefused(request=request.seq, action=action, preemptor=preemptor, reason="stale", retry_at=retry_at)
    if proposal.refused is not None:
        protection_end = next_protection_end(state, state.rules.preemption.actions, job)
        if protection_end is not None:  # jobs that are protected until then may suffice as victims
            retry_at = min(retry_at, max(protection_end, state.now + state.rules.preemption.selection_backoff))
        return PreemptionRefused(
            request=request.seq,
            action=action,
            preemptor=preemptor,
            reason=proposal.refused,
            would_need=proposal.would_need,
            explanation=proposal.explanation,
            retry_at=retry_at,
        )
    checked = revalidate_proposal(current_snapshot(state), shares, job, proposal, allocated)
    if not isinstance(checked, Accepted):
        reason = checked.reason[:MAX_REASON_CHARS]
        return PreemptionRefused(
            request=request.seq, action=action, preemptor=preemptor, reason="stale", would_need=reason, retry_at=retry_at
        )
    places = decode_placement(job, checked.placement, checked.unit.indices)
    if not checked.victims:  # allocate places it in this cycle, unless the policy or the step budget prevents that
        allocated.append((checked.unit, GangPlacement(tuple(places), future=True)))
        return PreemptionRefused(request=request.seq, action=action, preemptor=preemptor, reason="not-needed", retry_at=retry_at)
    graces = tuple(_grace(state, job, choice) for choice in checked.victims)
    if _ends_within(state, job, max(graces)):
        why = "its run-time limit is reached before the grace of its victims is over"
        return PreemptionRefused(
            request=request.seq, action=action, preemptor=preemptor, reason="impossible", would_need=why, retry_at=retry_at
        )
    growth = _growth(state, checked, places) if restarts_to_grow(state, job) else None
    return PreemptionDecided(
        request=request.seq,
        action=action,
        preemptor=preemptor,
        attempt=job.attempt if job.tasks else job.attempt + 1,
        victims=checked.victims,
        graces=graces,
        placement=checked.placement,
        expires=state.now + state.rules.preemption.reservation_expiry + max(graces),
        explanation=proposal.explanation,
        unneeded_victims=checked.dropped,
        cancelled_evictions=_cancelled_evictions(state, checked),
        tasks=ranges(checked.unit.indices) if job.tasks else "",
        island=islands_used(state, job, places),
        reason=f"it restarts to grow by {count_text(growth.tasks, 'task')}: {growth}" if growth is not None else "",
        restart_lost_gpu_ms=sum(growth.own) if growth is not None else 0,
    )


def _grace(state: PoolState, preemptor: Job, choice: VictimChoice) -> int:
    """Of one eviction for several decisions, the shortest that they give it."""
    victim = state.jobs[choice.job]
    grace = 0 if choice.reserved else grace_for(state, preemptor, victim)
    return min(grace, victim.eviction.grace) if choice.extends and victim.eviction is not None else grace


def _growth(state: PoolState, checked: Accepted, places: Sequence[TaskPlacement]) -> Growth:
    """What the restart of the running preemptor wins and loses, and its victims with it."""
    job = checked.unit.job
    joining = [Task(each.index, each.node, each.devices, "reserved") for each in places]
    reserved = [task for task in job.tasks if task.state == "reserved"]
    return replace(growth_by(state, job, [*reserved, *joining]), others=victims_loss(state, checked.victims) or NO_LOSS)


def _ends_within(state: PoolState, job: Job, duration: int) -> bool:
    """Whether the running job reaches its run-time limit within that time, µs."""
    limit = job.demand.run_time_limit
    return limit is not None and job.last_start is not None and job.last_start + limit <= state.now + duration


def _cancelled_evictions(state: PoolState, checked: Accepted) -> tuple[str, ...]:
    """Victims of reservations that this preemption drops, whose resources it does not need: their evictions are cancelled."""
    cluster = current_snapshot(state).cluster
    mark = cluster.mark()
    victims = [(state.jobs[choice.job], choice) for choice in checked.victims]
    for victim, choice in victims:
        for unit in units_of_victim(victim, choice):
            cluster.evict(unit)
    places = decode_placement(checked.unit.job, checked.placement, checked.unit.indices)
    cluster.place(checked.unit, GangPlacement(tuple(places), future=True))
    cancelled = evictions_to_cancel(state, cluster, [victim for victim, choice in victims if choice.reserved])
    cluster.rollback(mark)
    return tuple(cancelled)


def timed_out_selection(state: PoolState) -> Iterator[Decision]:
    """Closes a selection whose proposals did not arrive in time. After three timeouts in a row a selection has no deadline."""
    selection = state.selection
    if selection is None or selection.deadline is None or state.proposals is not None or state.now < selection.deadline:
        return
    failures = state.selection_failures + 1
    retry_at = state.now + (state.rules.preemption.selection_backoff << min(failures, 6))
    yield SelectionTimedOut(selection=selection.number, failures=failures, retry_at=retry_at)
