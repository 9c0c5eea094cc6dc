"""One scheduling cycle over all pending jobs: the actions in order, each decision applied by the fold as in production.

In production this takes several cycles and services; here a preemption request is answered in the same cycle.
Backoffs between two attempts of one job do not apply.
"""

from collections.abc import Callable, Iterable, Iterator

from bailiff_core.actions.allocate import allocate
from bailiff_core.actions.preempt import proposal_decisions, request_preemptions
from bailiff_core.actions.schedule_timeouts import schedule_timeouts
from bailiff_core.engine import LOGIC
from bailiff_core.fold import close_cycle, enact
from bailiff_core.lifecycle.ageing import ageing
from bailiff_core.lifecycle.budgets import budget_levels
from bailiff_core.lifecycle.evictions import cancelled_evictions_of_preemptions
from bailiff_core.lifecycle.reservations import growing_gangs, moved_jobs
from bailiff_core.lifecycle.share_turns import share_turns
from bailiff_core.lifecycle.stale_gang import stale_gangs
from bailiff_core.model.policy import ACTIONS, Action
from bailiff_core.model.state import PoolState
from bailiff_core.records.decisions import PreemptionDecided
from bailiff_core.records.facts import ClockAdvanced, ProposalReceived
from bailiff_core.records.payload import Decision
from bailiff_core.victims.batch import compute_proposals

from .build import append_facts

UNLIMITED_REQUESTS = 1 << 30
MAX_ROUNDS = 1000
LAST_SHOWN = 100
Rule = Callable[[PoolState], Iterator[Decision]]
RULES_BEFORE_ALLOCATE: tuple[Rule, ...] = (budget_levels, ageing, share_turns, schedule_timeouts)


def run_cycle(state: PoolState, *, stale: bool = True) -> list[tuple[int, Decision]]:
    """All decisions of the cycle with their seqs, in order."""
    append_facts(state, ClockAdvanced(), close=False)
    _reset_backoffs(state)
    applied = [each for rule in (*RULES_BEFORE_ALLOCATE, allocate) for each in _all_of(state, rule)]
    applied += run_preempting_actions(state)
    applied += _all_of(state, allocate)  # jobs that a request might have evicted
    applied += _all_of(state, growing_gangs)
    if stale:
        applied += _all_of(state, stale_gangs)
    close_cycle(state)
    return applied


def run_preempting_actions(state: PoolState) -> list[tuple[int, Decision]]:
    """Consolidate, reclaim and preempt for all jobs still pending, until no request is open.

    Raises:
        RuntimeError: If jobs keep preempting each other.
    """
    applied: list[tuple[int, Decision]] = []
    start_seq = state.seq
    for _ in range(MAX_ROUNDS):
        requested = _all_of(state, lambda state: request_preemptions(state, UNLIMITED_REQUESTS))
        applied += requested
        if not requested or state.selection is None:
            return applied
        number = state.selection.number
        append_facts(
            state,
            ProposalReceived(selection=number, computed_at=state.seq, logic=LOGIC, proposals=compute_proposals(state)),
            close=False,
        )
        for rule in (proposal_decisions, moved_jobs, cancelled_evictions_of_preemptions):
            applied += _all_of(state, rule)
    preemptors = ", ".join(
        dict.fromkeys(each.preemptor.job for _, each in applied[-LAST_SHOWN:] if isinstance(each, PreemptionDecided))
    )
    raise RuntimeError(
        f"preemption requests did not converge within {MAX_ROUNDS} rounds of one cycle after #{start_seq}; "
        f"the last preemptors were {preemptors}"
    )


def _all_of(state: PoolState, rule: Rule) -> list[tuple[int, Decision]]:
    return list(_enacted(state, rule(state)))


def _enacted(state: PoolState, decisions: Iterable[Decision]) -> Iterator[tuple[int, Decision]]:
    for decision in decisions:
        enact(state, decision)
        yield state.seq, decision


def _reset_backoffs(state: PoolState) -> None:
    """Clear backoffs and recorded reasons, so that every pending job is tried and its reason recorded again."""
    for name in state.queue:
        job = state.jobs[name]
        if job.phase != "running":  # else it is the time before which the job does not restart to grow
            job.not_before = 0
        job.next_request_at = job.refused_requests = 0
        job.pending_recorded = False
    state.indices.retry_unschedulable = True


def actions_to_run(names: Iterable[str], allowed: tuple[Action, ...]) -> tuple[Action, ...]:
    """The actions that are both requested and allowed by the policy, in execution order."""
    wanted = list(names)
    return tuple(action for action in ACTIONS if action in wanted and action in allowed)
