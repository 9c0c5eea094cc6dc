"""Making room for those who wait: who asks for it, and what becomes of the answers (consolidate, reclaim, preempt)."""

from collections.abc import Iterator

from bailiff_core.model.grace import grace_for
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.policy import Action
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Job, OpenRequest, PoolState
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.placement.gang import GangPlacement
from bailiff_core.placement.placement_codec import decode_placement
from bailiff_core.protections import next_to_open
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

from .allocate import ready_to_try, why_it_waits
from .failure import about

LARGEST_SELECTION = 64
FAILURES_BEFORE_WAITING = 3
LONGEST_TEXT = 2000  # of `would_need`; the reason may repeat what a proposal said


def request_preemptions(state: PoolState, most: int = LARGEST_SELECTION) -> Iterator[Decision]:
    """Open one selection for the first waiting units (`most` of them) that room may be made for. At most one is out at a time."""
    rules = state.rules.preemption
    if (
        state.truncation_unreconciled
        or state.selection is not None
        or not any(action in rules.actions for action in PREEMPTING_ACTIONS)
    ):
        return
    if not state.queue:
        return  # nobody waits: who could lose anything is a question of its own
    losers = Losers(state)
    if not losers.anybody:
        return
    number = state.selections + 1
    patient = state.selection_failures >= FAILURES_BEFORE_WAITING
    deadline = None if patient else state.now + rules.selection_timeout
    for unit, actions in _askers(state, losers, most):
        job = unit.job
        yield PreemptionRequested(
            job=job.id,
            action=actions[0],
            selection=number,
            class_name=job.class_name,
            priority=job.priority,
            reason=why_it_waits(state, job),
            deadline=deadline,
            actions=actions,
            tasks=ranges(unit.indices) if job.tasks else "",
        )


def _askers(state: PoolState, losers: "Losers", most: int) -> list[tuple[Unit, tuple[Action, ...]]]:
    """The first of those who may ask, in the order in which a pass would try them, each with the actions that may help."""
    ready = [job for job in map(state.jobs.__getitem__, state.queue) if losers.for_anyone(job) and _may_ask(state, job)]
    if not ready:
        return []
    snapshot = current_snapshot(state)
    cycle = Pass(snapshot, ready)
    found: list[tuple[Unit, tuple[Action, ...]]] = []
    while len(found) < most and (unit := cycle.next()) is not None:
        actions = verbs_for(snapshot, cycle.shares, unit, losers)
        if actions:
            found.append((unit, actions))
    return found


def _may_ask(state: PoolState, job: Job) -> bool:
    return ready_to_try(state, job) and state.now >= job.next_request_at and state.now >= may_preempt_from(state, job)


class Losers:
    """Who could lose anything at all, counted once: the cheap part of whether asking makes sense.

    lowest: the lowest priority of what is preemptible, in the pool and by project.
    """

    def __init__(self, state: PoolState) -> None:
        self.state = state
        self.lowest: dict[str, int] = {}
        for phase, priority, project, preemptible in current_snapshot(state).equivalence_classes.groups:
            if preemptible and phase != "evicting":
                self.lowest[project] = min(priority, self.lowest.get(project, priority))
        self.anybody = bool(self.lowest)
        self.idle = (
            FreeTotals.of(current_snapshot(state).cluster)
            if self.anybody and state.rules.preemption.max_migrations != 0
            else None
        )
        self._least = min(self.lowest.values(), default=0)
        self._for_alike: dict[tuple[int, str, bool], bool] = {}

    def to(self, job: Job, action: Action) -> bool:
        """Whether somebody might leave for this job under the action."""
        if action == "consolidate":
            return self.idle is not None
        if action == "reclaim":
            return bool(self.state.rules.projects) and any(project != job.project for project in self.lowest)
        if not job.may_preempt:
            return False
        if self.state.rules.scope == "pool":
            return self.anybody and self._least < job.priority
        return self.lowest.get(job.project, job.priority) < job.priority

    def for_anyone(self, job: Job) -> bool:
        """Whether any action of the policy might help this job."""
        alike = (job.priority, job.project, job.may_preempt)
        if alike not in self._for_alike:
            actions = self.state.rules.preemption.actions
            self._for_alike[alike] = any(action in actions and self.to(job, action) for action in PREEMPTING_ACTIONS)
        return self._for_alike[alike]


def verbs_for(snapshot: SchedulingSnapshot, shares: Shares, unit: Unit, losers: Losers) -> tuple[Action, ...]:
    """The actions that may make room for the unit, as far as is known without looking for victims."""
    able = [
        action
        for action in PREEMPTING_ACTIONS
        if losers.to(unit.job, action) and action_not_permitted(snapshot, shares, unit, action) is None
    ]
    if losers.idle is None or losers.idle.missing(unit) is not None:
        able = [action for action in able if action != "consolidate"]
    return tuple(able)


def answered_requests(state: PoolState) -> Iterator[Decision]:
    """Check each answer of the proposal on the state as it is now, in queue order, each after the ones before."""
    if state.proposals is None or state.selection is None:
        return
    shares = shares_now(current_snapshot(state))
    for request in list(state.selection.requests):
        job = state.jobs[request.job]
        with about(job):
            yield _answer(state, shares, job, request, state.proposals.get(request.seq))


def _answer(state: PoolState, shares: Shares, job: Job, request: OpenRequest, answer: Proposal | None) -> Decision:
    preemptor = Preemptor(
        job=job.id, class_name=job.class_name, priority=job.priority, project=job.project, base_priority=job.base_priority
    )
    action: Action = answer.action if answer is not None and answer.action != "allocate" else "preempt"
    if job.phase not in ("pending", "starting", "running") or next_unit(job) is None or not ready_to_try(state, job):
        return PreemptionRefused(request=request.seq, action=action, preemptor=preemptor, reason="not-needed")
    retry_at = state.now + (state.rules.preemption.selection_backoff << min(job.refused_requests, 6))
    if answer is None:
        return PreemptionRefused(request=request.seq, action=action, preemptor=preemptor, reason="stale", retry_at=retry_at)
    if answer.refused is not None:
        opens = next_to_open(state, state.rules.preemption.actions, job)
        if opens is not None:  # whoever is left alone for a time may be enough when that is over
            retry_at = min(retry_at, max(opens, state.now + state.rules.preemption.selection_backoff))
        return PreemptionRefused(
            request=request.seq,
            action=action,
            preemptor=preemptor,
            reason=answer.refused,
            would_need=answer.would_need,
            explanation=answer.explanation,
            retry_at=retry_at,
        )
    checked = revalidate_proposal(current_snapshot(state), shares, job, answer)
    if not isinstance(checked, Accepted):
        why = checked.reason[:LONGEST_TEXT]
        return PreemptionRefused(
            request=request.seq, action=action, preemptor=preemptor, reason="stale", would_need=why, retry_at=retry_at
        )
    if not checked.victims:  # allocate places it now, unless the policy or its search does not let it
        return PreemptionRefused(request=request.seq, action=action, preemptor=preemptor, reason="not-needed", retry_at=retry_at)
    graces = tuple(0 if choice.reserved else grace_for(state, job, state.jobs[choice.job]) for choice in checked.victims)
    return PreemptionDecided(
        request=request.seq,
        action=action,
        preemptor=preemptor,
        attempt=job.attempt if job.tasks else job.attempt + 1,
        victims=checked.victims,
        graces=graces,
        placement=checked.placement,
        expires=state.now + state.rules.preemption.reservation_expiry + max(graces),
        explanation=answer.explanation,
        unneeded_victims=checked.dropped,
        cancelled_evictions=_spared(state, checked),
        tasks=ranges(checked.unit.indices) if job.tasks else "",
    )


def _spared(state: PoolState, checked: Accepted) -> tuple[str, ...]:
    """Victims of promises dropped for this preemptor that may stay, because their room is not needed."""
    cluster = current_snapshot(state).cluster
    mark = cluster.mark()
    victims = [(state.jobs[choice.job], choice) for choice in checked.victims]
    for victim, choice in victims:
        for unit in units_of_choice(victim, choice):
            cluster.evict(unit)
    places = decode_placement(checked.unit.job, checked.placement, checked.unit.indices)
    cluster.place(checked.unit, GangPlacement(tuple(places), future=True))
    spared = evictions_to_cancel(state, cluster, [victim for victim, choice in victims if choice.reserved])
    cluster.rollback(mark)
    return tuple(spared)


def timed_out_selection(state: PoolState) -> Iterator[Decision]:
    """No proposal came in time. After three such failures in a row a selection waits for its answer."""
    selection = state.selection
    if selection is None or selection.deadline is None or state.proposals is not None or state.now < selection.deadline:
        return
    failures = state.selection_failures + 1
    retry_at = state.now + (state.rules.preemption.selection_backoff << min(failures, 6))
    yield SelectionTimedOut(selection=selection.number, failures=failures, retry_at=retry_at)
