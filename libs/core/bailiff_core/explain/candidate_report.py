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
    """One unit of a job that was active when a proposal was computed. rule: that protected it; empty: it was a candidate.

    action: under which it was considered. tasks: of the job; empty: the whole job. chosen: it is among the victims.
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
    return [each for action in [*actions, decision.action] for each in _under(state, decision, proposals, action)]


def _under(state: PoolState, decision: Decided, proposals: Sequence[Proposal], action: Action) -> list[Candidate]:
    preemptor = state.jobs[decision.preemptor.job]
    taken: dict[str, list[int]] = {}
    for choice in decision.victims if isinstance(decision, decisions.PreemptionDecided) and action == decision.action else ():
        taken.setdefault(choice.job, []).extend(numbers(choice.tasks))
    index = CandidateIndex(current_snapshot(state))
    for proposal in before(decision, proposals, action):
        for choice in proposal.victims:
            gone = dict.fromkeys(numbers(choice.tasks))
            units = [unit for unit in evictable_units(state.jobs[choice.job]) if all(index in gone for index in unit.indices)]
            index.mark_taken(state.jobs[choice.job], len(units) if choice.tasks else 0)
    field = index.candidates(action, preemptor)
    found: list[tuple[Unit, str, EvictionCost | None]] = [
        (step.unit, "", step.cost) for chain in field.chains.values() for step in chain
    ]
    found += [(unit, rule, None) for rule, units in field.excluded.items() for unit in units]
    listed = [_candidate(state, action, unit, rule, eviction_cost, taken) for unit, rule, eviction_cost in found]
    return sorted(listed, key=lambda each: (state.jobs[each.job].seq, each.job, each.tasks))


def before(decision: Decided, proposals: Sequence[Proposal], action: Action) -> list[Proposal]:
    """The proposals on whose result this one was computed, in order: of earlier actions, and earlier ones of this action."""
    at = next((at for at, proposal in enumerate(proposals) if proposal.request == decision.request), 0)
    mine = ACTIONS.index(action)
    ordered = sorted(enumerate(proposals), key=lambda each: (ACTIONS.index(each[1].action), each[0]))
    return [proposal for place, proposal in ordered if (ACTIONS.index(proposal.action), place) < (mine, at)]


def _candidate(
    state: PoolState, action: Action, unit: Unit, rule: str, cost: EvictionCost | None, taken: Mapping[str, Sequence[int]]
) -> Candidate:
    job = unit.job
    held = [task for task in job.tasks if task.index in dict.fromkeys(unit.indices)]
    cost = eviction_cost(state, job, held, whole=unit.core) if cost is None else cost
    tasks = "" if len(unit.indices) == len(job.tasks) else ranges(unit.indices)
    chosen = job.id in taken and (not taken[job.id] or all(index in taken[job.id] for index in unit.indices))
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
