"""Which pending jobs request preemption now, and the rule that nobody is started whom one of them may evict at once."""

from collections.abc import Container

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.placement.gang import GangPlacement
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.queue.backfill import Backfill
from bailiff_core.queue.head import head_of_queue
from bailiff_core.queue.order import Pass, shares_now
from bailiff_core.quota.quota_aware_placement import find_within_bounds
from bailiff_core.quota.quota_checks import over_bounds
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims.batch import PREEMPTING_ACTIONS
from bailiff_core.victims.trial import action_not_permitted

from .possible_victims import PossibleVictims, may_request, possible_actions

MAX_SELECTION_REQUESTS = 64
MAX_SELECTION_TIMEOUTS = 3  # in a row; further selections have no deadline


class RequestingJobs:
    """Jobs that request preemption in this cycle, or whose request is open: nobody is started whom they may evict.

    Otherwise a job would start and be evicted a moment later. Once the requests are answered, it may start. Jobs that backfill
    blocks do not count: they fit.
    """

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self._victims: PossibleVictims | None = None
        self._requesting: dict[str, tuple[Action, ...]] | None = None

    def did_not_fit(self, unit: Unit) -> None:
        """Note that the pass found no place for this unit."""
        state = self._state
        if self._requesting is None or unit.job.id in state.indices.backfill_blocked:
            return  # not looked at the jobs yet: this one will be among them
        if state.selection is None and may_request(state, unit.job):
            self._requesting[unit.job.id] = self._actions_of(unit)

    def was_placed(self, unit: Unit) -> None:
        """Note that the pass placed this unit: its job requests nothing, unless the pass finds no place for its next one."""
        if self._requesting is not None:
            self._requesting.pop(unit.job.id, None)

    def may_evict(self, unit: Unit) -> Job | None:
        """A requesting job that may have the unit, once placed, as a victim; `None`: there is none."""
        if not unit.job.preemptible:
            return None
        if self._requesting is None:
            self._requesting = self._look()
        for name, actions in self._requesting.items():
            if name != unit.job.id and self._permits(self._state.jobs[name], actions, unit.job):
                return self._state.jobs[name]
        return None

    def _look(self) -> dict[str, tuple[Action, ...]]:
        state, allowed = self._state, self._state.rules.preemption.actions
        if state.selection is not None:
            requests = state.selection.requests if state.selection.deadline is not None else ()
            units = [(request.job, next_unit(state.jobs[request.job])) for request in requests]
            return {name: self._actions_of(unit) for name, unit in units if unit is not None}
        if state.selection_failures >= MAX_SELECTION_TIMEOUTS or not any(action in allowed for action in PREEMPTING_ACTIONS):
            return {}
        found = requesting_units(state, self._possible(), MAX_SELECTION_REQUESTS, state.indices.backfill_blocked)
        return {unit.job.id: actions for unit, actions in found if not self._fits(unit)}

    def _fits(self, unit: Unit) -> bool:
        """Whether the unit has a place now. Jobs outside `to_schedule` were tried before and have none."""
        state, snapshot = self._state, current_snapshot(self._state)
        if unit.job.id not in state.indices.to_schedule:
            return False
        place = find_within_bounds(snapshot, unit, StepBudget(state.rules.preemption.search_steps))
        return isinstance(place, GangPlacement) and over_bounds(snapshot, unit, place) is None

    def _actions_of(self, unit: Unit) -> tuple[Action, ...]:
        snapshot = current_snapshot(self._state)
        return possible_actions(snapshot, shares_now(snapshot), unit, self._possible())

    def _possible(self) -> PossibleVictims:
        if self._victims is None:
            self._victims = PossibleVictims(self._state)
        return self._victims

    def _permits(self, job: Job, actions: tuple[Action, ...], other: Job) -> bool:
        """Whether one of the actions may take such a job, as far as priorities and projects decide."""
        for action in actions:
            if action == "consolidate":
                return True
            if action == "reclaim" and job.project != other.project:
                return True
            in_scope = self._state.rules.scope == "pool" or job.project == other.project
            if action == "preempt" and job.may_preempt and in_scope and other.priority < job.priority:
                return True
        return False


def requesting_units(
    state: PoolState, victims: PossibleVictims, limit: int, besides: Container[str] = ()
) -> list[tuple[Unit, tuple[Action, ...]]]:
    """The first `limit` units that may request preemption, in the order of a pass, each with the actions that may help.

    Args:
        besides: Jobs that are left out.
    """
    head = _head_with_backfilled_victims(state)
    jobs = (state.jobs[name] for name in state.queue if name not in besides)
    ready = [job for job in jobs if job is head or (victims.exist_for(job) and may_request(state, job))]
    if not ready:
        return []
    snapshot = current_snapshot(state)
    order = Pass(snapshot, ready)
    found: list[tuple[Unit, tuple[Action, ...]]] = []
    while len(found) < limit and (unit := order.next()) is not None:
        job = unit.job
        actions: tuple[Action, ...] = ()
        if may_request(state, job):
            actions = possible_actions(snapshot, order.shares, unit, victims)
        if job is head and "preempt" not in actions and action_not_permitted(snapshot, order.shares, unit, "preempt") is None:
            actions = (*actions, "preempt")
        if actions:
            found.append((unit, actions))
    return found


def _head_with_backfilled_victims(state: PoolState) -> Job | None:
    """The head of the queue, if it fits once backfilled jobs are evicted for it.

    It need not wait for `preemption-delay`, nor, if resources came free since its last refusal, for the backoff: without the
    backfilled jobs it would have started on them.
    """
    if not state.backfilled or "preempt" not in state.rules.preemption.actions:
        return None
    head = head_of_queue(state)
    if head is None or (state.now < head.next_request_at and state.freed_seq <= head.refused_seq):
        return None
    unit = next_unit(head)
    assert unit is not None, "the head of the queue has a unit to place"
    budget = StepBudget(state.rules.preemption.search_steps)
    return head if Backfill(current_snapshot(state), unit, budget).starts_by_evictions else None
