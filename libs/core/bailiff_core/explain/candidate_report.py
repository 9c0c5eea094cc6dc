"""Full list of candidates of a preemption decision: every active job, and the rule that protected it, if any.

Explanations in records have counts and examples only; the list is recomputed from the state at that time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bailiff_core.model.placement_ranges import numbers, ranges
from bailiff_core.model.policy import ACTIONS, Action
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import PoolState
from bailiff_core.model.units import Unit
from bailiff_core.records import decisions
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims.candidates import CandidateIndex, evictable_units
from bailiff_core.victims.objective import EvictionCost, eviction_cost

Decided = decisions.PreemptionDecided | decisions.PreemptionRefused


@dataclass(frozen=True, slots=True)
class Candidate:
    """One unit of a job that was active when a proposal was computed. rule: the one that protected it; empty: a candidate.

    action: the action for which it was considered. tasks: of the job; empty: the whole job. chosen: it is among the victims.
    lost_gpu_ms: of the whole job.
    """

    action: str
    job: str
    tasks: str
    class_name: str
    priority: int
    project: str
    gpu_milli: int
    lost_gpu_ms: int
    rule: str
    chosen: bool


def candidates(state: PoolState, decision: Decided, proposals: Sequence[Proposal]) -> list[Candidate]:
    """Every candidate unit, and every other unit with its rule, for each action that was tried.

    state: when the proposals were computed; proposals: of the same batch, in order: units that earlier ones evict are
    evicting already.
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
            index.mark_evicted(state.jobs[choice.job], len(units) if choice.tasks else 0)
    considered = index.candidates(action, preemptor)
    found: list[tuple[Unit, str, EvictionCost | None]] = [
        (step.unit, "", step.cost) for chain in considered.chains.values() for step in chain
    ]
    found += [(unit, rule, None) for rule, units in considered.excluded.items() for unit in units]
    listed = [_candidate(state, action, unit, rule, eviction_cost, chosen_tasks) for unit, rule, eviction_cost in found]
    return sorted(listed, key=lambda each: (state.jobs[each.job].seq, each.job, each.tasks))


def earlier_proposals(decision: Decided, proposals: Sequence[Proposal], action: Action) -> list[Proposal]:
    """Proposals that were applied before this one was computed, in order: of earlier actions, and earlier ones of this action."""
    position = next((position for position, proposal in enumerate(proposals) if proposal.request == decision.request), 0)
    action_index = ACTIONS.index(action)
    ordered = sorted(enumerate(proposals), key=lambda each: (ACTIONS.index(each[1].action), each[0]))
    return [proposal for index, proposal in ordered if (ACTIONS.index(proposal.action), index) < (action_index, position)]


def _candidate(
    state: PoolState, action: Action, unit: Unit, rule: str, cost: EvictionCost | None, chosen_tasks: Mapping[str, Sequence[int]]
) -> Candidate:
    job = unit.job
    evicted = [task for task in job.tasks if task.index in dict.fromkeys(unit.indices)]
    cost = eviction_cost(state, job, evicted, whole=unit.core) if cost is None else cost
    tasks = "" if len(unit.indices) == len(job.tasks) else ranges(unit.indices)
    chosen = job.id in chosen_tasks and (not chosen_tasks[job.id] or all(index in chosen_tasks[job.id] for index in unit.indices))
    return Candidate(
        action,
        job.id,
        tasks,
        job.class_name,
        job.priority,
        job.project,
        cost.gpu_milli,
        cost.lost_gpu_ms,
        rule,
        chosen and not rule,
    )
