"""Requests victim selection for pending jobs, and decides on its proposals (consolidate, reclaim, preempt)."""

from collections.abc import Iterator

from bailiff_core.model.grace import grace_for
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.policy import Action
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Job, OpenRequest, PoolState
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.placement.gang import GangPlacement
from bailiff_core.placement.placement_codec import decode_placement
from bailiff_core.protections import next_protection_end
from bailiff_core.queue.order import Pass, shares_now
from bailiff_core.queue.preemption_delay import may_preempt_from
from bailiff_core.quota.quota_checks import Shares
from bailiff_core.records.decisions import (
    PreemptionDecided,
    PreemptionRefused,
    PreemptionRequested,
    Preemptor,
    SelectionTimedOut,
)
from bailiff_core.records.payload import Decision
from bailiff_core.scheduling_snapshot import SchedulingSnapshot, current_snapshot
from bailiff_core.victims.batch import PREEMPTING_ACTIONS, units_of_choice
from bailiff_core.victims.consolidation import FreeTotals
from bailiff_core.victims.constraints import action_not_permitted
from bailiff_core.victims.reprieve import evictions_to_cancel
from bailiff_core.victims.revalidate import Accepted, revalidate_proposal

from .allocate import is_schedulable, pending_reason
from .failure import attribute_errors_to

MAX_SELECTION_REQUESTS = 64
MAX_SELECTION_TIMEOUTS = 3  # in a row; further selections have no deadline
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
    for unit, actions in _preemptors(state, victims, limit):
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


def _preemptors(state: PoolState, victims: "PossibleVictims", limit: int) -> list[tuple[Unit, tuple[Action, ...]]]:
    """The first `limit` units that may request preemption, in the order of a pass, each with the actions that may help."""
    ready = [job for job in map(state.jobs.__getitem__, state.queue) if victims.exist_for(job) and _may_request(state, job)]
    if not ready:
        return []
    snapshot = current_snapshot(state)
    order = Pass(snapshot, ready)
    found: list[tuple[Unit, tuple[Action, ...]]] = []
    while len(found) < limit and (unit := order.next()) is not None:
        actions = possible_actions(snapshot, order.shares, unit, victims)
        if actions:
            found.append((unit, actions))
    return found


def _may_request(state: PoolState, job: Job) -> bool:
    return is_schedulable(state, job) and state.now >= job.next_request_at and state.now >= may_preempt_from(state, job)


class PossibleVictims:
    """Whether any job could be a victim, by priority and project: a cheap test before a request is made.

    lowest: the lowest priority of preemptible jobs, by project. exist: whether there is any such job. free_totals: for
    consolidation; `None` where it may not migrate any job.
    """

    def __init__(self, state: PoolState) -> None:
        self.state = state
        self.lowest: dict[str, int] = {}
        for phase, priority, project, preemptible in current_snapshot(state).equivalence_classes.groups:
            if preemptible and phase != "evicting":
                self.lowest[project] = min(priority, self.lowest.get(project, priority))
        self.exist = bool(self.lowest)
        self.free_totals = (
            FreeTotals.of(current_snapshot(state).cluster) if self.exist and state.rules.preemption.max_migrations != 0 else None
        )
        self._lowest_in_pool = min(self.lowest.values(), default=0)
        self._by_group: dict[tuple[int, str, bool], bool] = {}

    def exist_under(self, job: Job, action: Action) -> bool:
        """Whether any job might be a victim for this job under the action."""
        if action == "consolidate":
            return self.free_totals is not None
        if action == "reclaim":
            return bool(self.state.rules.projects) and any(project != job.project for project in self.lowest)
        if not job.may_preempt:
            return False
        if self.state.rules.scope == "pool":
            return self.exist and self._lowest_in_pool < job.priority
        return self.lowest.get(job.project, job.priority) < job.priority

    def exist_for(self, job: Job) -> bool:
        """Whether any action of the policy might help this job. Cached by priority, project and `may_preempt`."""
        group = (job.priority, job.project, job.may_preempt)
        if group not in self._by_group:
            actions = self.state.rules.preemption.actions
            self._by_group[group] = any(action in actions and self.exist_under(job, action) for action in PREEMPTING_ACTIONS)
        return self._by_group[group]


def possible_actions(snapshot: SchedulingSnapshot, shares: Shares, unit: Unit, victims: PossibleVictims) -> tuple[Action, ...]:
    """The actions that may free resources for the unit, as far as is known without a search for victims."""
    possible = [
        action
        for action in PREEMPTING_ACTIONS
        if victims.exist_under(unit.job, action) and action_not_permitted(snapshot, shares, unit, action) is None
    ]
    if victims.free_totals is None or victims.free_totals.missing(unit) is not None:
        possible = [action for action in possible if action != "consolidate"]
    return tuple(possible)


def proposal_decisions(state: PoolState) -> Iterator[Decision]:
    """Decides on each proposal of the selection, in queue order, revalidated on the state after the decisions before it."""
    if state.proposals is None or state.selection is None:
        return
    shares = shares_now(current_snapshot(state))
    for request in list(state.selection.requests):
        job = state.jobs[request.job]
        with attribute_errors_to(job):
            yield _decide_on(state, shares, job, request, state.proposals.get(request.seq))


def _decide_on(state: PoolState, shares: Shares, job: Job, request: OpenRequest, proposal: Proposal | None) -> Decision:
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
    checked = revalidate_proposal(current_snapshot(state), shares, job, proposal)
    if not isinstance(checked, Accepted):
        reason = checked.reason[:MAX_REASON_CHARS]
        return PreemptionRefused(
            request=request.seq, action=action, preemptor=preemptor, reason="stale", would_need=reason, retry_at=retry_at
        )
    if not checked.victims:  # allocate places it in this cycle, unless the policy or the step budget prevents that
        return PreemptionRefused(request=request.seq, action=action, preemptor=preemptor, reason="not-needed", retry_at=retry_at)
    graces = tuple(0 if choice.reserved else grace_for(state, job, state.jobs[choice.job]) for choice in checked.victims)
    if _ends_within(state, job, max(graces)):
        why = "its run-time limit is reached before the grace of its victims is over"
        return PreemptionRefused(
            request=request.seq, action=action, preemptor=preemptor, reason="impossible", would_need=why, retry_at=retry_at
        )
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
    )


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
        for unit in units_of_choice(victim, choice):
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
