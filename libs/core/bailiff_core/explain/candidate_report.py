"""Full list of candidates of a preemption decision: every active job, and the rule that protected it, if any.

Explanations in records have counts and examples only; the list is recomputed from the state at that time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from bailiff_core.model.placement_ranges import numbers, ranges
from bailiff_core.model.policy import ACTIONS, Action
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, evictable_units
from bailiff_core.records import decisions
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims.candidates import CandidateIndex
from bailiff_core.victims.objective import NO_COST, eviction_cost

Decided = decisions.PreemptionDecided | decisions.PreemptionRefused


@dataclass(frozen=True, slots=True)
class Candidate:
    """Tasks that a job could lose when a proposal was computed.

    Attributes:
        action: The action for which they were considered.
        tasks: Ranges; empty: the whole job.
        after: The tasks that the job loses before these. Amounts are what these tasks add, so that a job's amounts add up.
        rule: The rule that protected them; empty: none, they are candidates.
        chosen: Whether they are among the victims.
    """

    action: str
    job: str
    tasks: str
    after: str
    class_name: str
    priority: int
    project: str
    gpu_milli: int
    lost_gpu_ms: int
    rule: str
    chosen: bool


def candidates(state: PoolState, decision: Decided, proposals: Sequence[Proposal]) -> list[Candidate]:
    """Every candidate, and every other job with its rule, for each action that was tried; surplus tasks with one fate together.

    Args:
        state: When the proposals were computed.
        proposals: Of the same batch, in order: units that earlier ones evict are evicting already.
    """
    actions: list[Action] = [tried.action for tried in decision.explanation.attempted_actions]
    return [each for action in [*actions, decision.action] for each in _candidates_of_action(state, decision, proposals, action)]


def _candidates_of_action(state: PoolState, decision: Decided, proposals: Sequence[Proposal], action: Action) -> list[Candidate]:
    preemptor = state.jobs[decision.preemptor.job]
    chosen_tasks: dict[str, list[int]] = {}
    for choice in decision.victims if isinstance(decision, decisions.PreemptionDecided) and action == decision.action else ():
        chosen_tasks.setdefault(choice.job, []).extend(numbers(choice.tasks))
    index = CandidateIndex(current_snapshot(state))
    for proposal in earlier_proposals(decision, proposals, action):
        for choice in proposal.victims:
            evicted = dict.fromkeys(numbers(choice.tasks))
            units = [unit for unit in evictable_units(state.jobs[choice.job]) if all(index in evicted for index in unit.indices)]
            index.mark_decided(state.jobs[choice.job], len(units) if choice.tasks else 0)
    considered = index.candidates(action, preemptor)
    found = [(step.unit, "") for chain in considered.chains.values() for step in chain]
    found += [(unit, rule) for rule, units in considered.excluded.items() for unit in units]
    found.sort(key=lambda each: (each[0].job.seq, each[0].job.id))
    listed: list[Candidate] = []
    for job, of_job in groupby(found, key=lambda each: each[0].job):
        listed += _candidates_of_job(state, action, job, of_job, chosen_tasks)
    return listed


def earlier_proposals(decision: Decided, proposals: Sequence[Proposal], action: Action) -> list[Proposal]:
    """Proposals that were applied before this one was computed, in order: of earlier actions, and earlier ones of this action."""
    found = [proposal for proposal in proposals if proposal.refused is None]
    of_decision = [at for at, each in enumerate(found) if (each.request, each.action) == (decision.request, action)]

    def is_earlier(at: int, proposal: Proposal) -> bool:
        if proposal.action != action:
            return ACTIONS.index(proposal.action) < ACTIONS.index(action)
        return at < of_decision[0] if of_decision else proposal.request < decision.request

    return [proposal for at, proposal in enumerate(found) if is_earlier(at, proposal)]


def _candidates_of_job(
    state: PoolState, action: Action, job: Job, units: Iterable[tuple[Unit, str]], chosen_tasks: Mapping[str, Sequence[int]]
) -> Iterator[Candidate]:
    """units: those that the job can lose, each with the rule that protects it."""
    order = {unit.indices: position for position, unit in enumerate(evictable_units(job))}

    def fate(each: tuple[Unit, str]) -> tuple[str, bool, bool]:
        unit, rule = each
        victims = chosen_tasks.get(job.id)
        chosen = victims is not None and (not victims or all(index in victims for index in unit.indices))
        return rule, chosen and not rule, unit.core

    evicted: list[int] = []
    before = NO_COST
    in_order = sorted(units, key=lambda each: order.get(each[0].indices, len(order)))
    for (rule, chosen, core), members in groupby(in_order, key=fate):
        indices = [index for unit, _ in members for index in unit.indices]
        gone = dict.fromkeys([*evicted, *indices])
        cost = eviction_cost(
            state, job, [task for task in job.tasks if task.index in gone], whole=core, moved=action == "consolidate"
        )
        yield Candidate(
            action,
            job.id,
            "" if len(indices) == len(job.tasks) else ranges(sorted(indices)),
            ranges(sorted(evicted)),
            job.class_name,
            job.priority,
            job.project,
            cost.gpu_milli - before.gpu_milli,
            cost.lost_gpu_ms - before.lost_gpu_ms,
            rule,
            chosen,
        )
        evicted, before = list(gone), cost
