"""Counterfactuals of a preemption decision: the search repeated with or without a given victim, and for one more preemptor."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bailiff_core.model.policy import Action
from bailiff_core.model.proposal import ClassGpus, Cost, Proposal
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.queue.order import shares_now
from bailiff_core.scheduling_snapshot import SchedulingSnapshot, current_snapshot
from bailiff_core.victims.batch import PREEMPTING_ACTIONS, SelectionBatch, apply_proposal, select_victims, units_of_choice
from bailiff_core.victims.candidates import EvictionStep
from bailiff_core.victims.objective import Uses, node_uses
from bailiff_core.victims.proposals import cost_of

from .candidate_report import Decided, candidates, earlier_proposals

MAX_PARTS = 16  # number of prefixes of an elastic job's eviction chain to try


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The result if `other` had been a victim or, if it was one (`chosen`), if it had not been one.

    Attributes:
        rule: The rule that protected `other`; `absent`: it had no resources.
        jobs: The cheapest set under that condition; empty if there is none, for the reason `why`.
        cost: The cost of this set.
        needless: All chosen victims would be needed even with `other` evicted.
        proven: No set is cheaper.
    """

    other: str
    action: Action
    rule: str = ""
    chosen: bool = False
    jobs: tuple[str, ...] = ()
    cost: Cost | None = None
    chosen_cost: Cost | None = None
    needless: bool = False
    proven: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class NextVictims:
    """Victims of one more job with the preemptor's demand.

    Attributes:
        action: `allocate` if it would fit without evictions.
    """

    action: str
    jobs: tuple[str, ...] = ()
    cost: Cost | None = None
    proven: bool = False
    why: str = ""


ABSENT = "absent"


def counterfactual(state: PoolState, decision: Decided, proposals: Sequence[Proposal], other: str) -> Counterfactual:
    """The counterfactual for `other`.

    Args:
        state: When the proposals were computed, unchanged.
        proposals: Of the same batch.
    """
    action: Action = decision.action
    candidates_of_job = [each for each in candidates(state, decision, proposals) if each.job == other and each.action == action]
    chosen_cost = decision.explanation.cost
    if not candidates_of_job:
        return Counterfactual(other, action, ABSENT, chosen_cost=chosen_cost)
    if all(each.rule for each in candidates_of_job):
        return Counterfactual(other, action, candidates_of_job[0].rule, chosen_cost=chosen_cost)
    snapshot = current_snapshot(state)
    mark = snapshot.mark()
    try:
        if any(each.chosen for each in candidates_of_job):
            return _without_victim(_batch(snapshot, state, decision, proposals), decision, other)
        return _with_victim(snapshot, state, decision, proposals, other)
    finally:
        snapshot.rollback(mark)


def _without_victim(batch: SelectionBatch, decision: Decided, other: str) -> Counterfactual:
    """The cheapest set without the victim `other`."""
    state = batch.snapshot.state
    batch.index.mark_evicted(state.jobs[other], 0)
    proposal = _search(batch, state.jobs[decision.preemptor.job], decision.action)
    found = Counterfactual(other, decision.action, chosen=True, chosen_cost=decision.explanation.cost)
    if proposal.refused is not None:
        return replace(found, proven=proposal.explanation.proven, why=proposal.would_need)
    jobs = tuple(choice.job for choice in proposal.victims)
    return replace(found, jobs=jobs, cost=proposal.explanation.cost, proven=proposal.explanation.proven)


def _with_victim(
    snapshot: SchedulingSnapshot, state: PoolState, decision: Decided, proposals: Sequence[Proposal], other: str
) -> Counterfactual:
    """The cheapest set that includes `other`: for each prefix of its eviction chain, the rest of the set is searched."""
    preemptor, job = state.jobs[decision.preemptor.job], state.jobs[other]
    best: Counterfactual | None = None
    chosen = dict.fromkeys(choice.job for choice in getattr(decision, "victims", ()))
    for steps in _chain_prefixes(
        _batch(snapshot, state, decision, proposals).index.candidates(decision.action, preemptor).chains[other]
    ):
        mark = snapshot.mark()
        batch = _batch(snapshot, state, decision, proposals)
        for step in steps:
            snapshot.evict(step.unit)
        batch.index.mark_evicted(job, 0 if steps[-1].whole else len(steps))
        proposal = _search(batch, preemptor, decision.action)
        snapshot.rollback(mark)
        if proposal.refused is not None:
            best = best or Counterfactual(other, decision.action, chosen_cost=decision.explanation.cost, why=proposal.would_need)
            continue
        others = dict.fromkeys(choice.job for choice in proposal.victims)
        nodes = batch.index.fragmentation.count([*(step.uses for step in steps), *_uses_of(state, proposal, job, steps)])
        cost = sum_costs(cost_of(steps, batch.index.fragmentation), proposal.explanation.cost)
        cost = cost.model_copy(update={"fragmented_nodes": nodes})
        if best is None or best.cost is None or cheaper(cost, best.cost):
            proven = proposal.explanation.proven or not others
            jobs = (other, *[name for name in others if name != other])
            needless = bool(chosen) and all(name in others for name in chosen)
            best = Counterfactual(
                other,
                decision.action,
                jobs=jobs,
                cost=cost,
                chosen_cost=decision.explanation.cost,
                needless=needless,
                proven=proven,
            )
    assert best is not None
    return best


def _uses_of(state: PoolState, proposal: Proposal, job: Job, steps: Sequence[EvictionStep]) -> Iterator[Uses]:
    """Devices that the victims of the proposal use; `steps` of the job are evicted before."""
    before = {index: None for step in steps for index in step.unit.indices}
    for choice in proposal.victims:
        victim = state.jobs[choice.job]
        for unit in units_of_choice(victim, choice, before if victim is job else {}):
            tasks = [victim.task(index) for index in unit.indices]
            yield node_uses(state, victim, [task for task in tasks if task is not None])


def _chain_prefixes(chain: Sequence[EvictionStep]) -> Iterator[Sequence[EvictionStep]]:
    for length in range(1, min(len(chain), MAX_PARTS) + 1):
        yield chain[:length]
    if len(chain) > MAX_PARTS:
        yield chain


def _batch(snapshot: SchedulingSnapshot, state: PoolState, decision: Decided, proposals: Sequence[Proposal]) -> SelectionBatch:
    """The batch at the time of this preemptor's search, with earlier proposals applied."""
    batch = SelectionBatch.on(snapshot, shares_now(snapshot), preemptors=max(1, len(proposals)))
    for proposal in earlier_proposals(decision, proposals, decision.action):
        unit = next_unit(state.jobs[proposal.job])
        if proposal.refused is None and unit is not None:
            apply_proposal(batch, unit, proposal)
    return batch


def _search(batch: SelectionBatch, preemptor: Job, action: Action) -> Proposal:
    unit = next_unit(preemptor)
    assert unit is not None
    return select_victims(batch, unit, action, StepBudget(batch.snapshot.state.rules.preemption.search_steps))


def next_victims(state: PoolState, preemptor: str) -> NextVictims:
    """Victims of another job with the same demand in the current state, which is unchanged."""
    original = state.jobs[preemptor]
    another = Job(
        f"{preemptor[:50]}.again",
        state.seq + 1,
        state.now,
        original.demand,
        original.class_name,
        original.priority,
        original.preemptible,
        original.may_preempt,
        original.spec_digest,
        original.project,
        original.base_priority,
        original.scheduling_class,
        pending_since=state.now,
        user=original.user,
    )
    unit = next_unit(another)
    assert unit is not None
    return _next_victims_of_unit(state, unit)


def _next_victims_of_unit(state: PoolState, unit: Unit) -> NextVictims:
    snapshot = current_snapshot(state)
    mark, result = snapshot.mark(), NextVictims("preempt")
    try:
        batch = SelectionBatch.on(snapshot)
        for action in [action for action in PREEMPTING_ACTIONS if action in state.rules.preemption.actions]:
            proposal = select_victims(batch, unit, action, StepBudget(state.rules.preemption.search_steps))
            if proposal.refused is None:
                jobs = tuple(dict.fromkeys(choice.job for choice in proposal.victims))
                return NextVictims(proposal.action, jobs, proposal.explanation.cost, proposal.explanation.proven)
            result = NextVictims(action, proven=proposal.explanation.proven, why=proposal.would_need)
    finally:
        snapshot.rollback(mark)
    return result


# --- costs, level by level


def sum_costs(one: Cost, other: Cost | None) -> Cost:
    """Sum of both costs."""
    if other is None:
        return one
    classes: dict[int, int] = {}
    for each in (*one.classes, *other.classes):
        classes[each.priority] = classes.get(each.priority, 0) + each.gpu_milli
    return Cost(
        classes=tuple(ClassGpus(priority=priority, gpu_milli=classes[priority]) for priority in sorted(classes, reverse=True)),
        under_share_gpu_milli=one.under_share_gpu_milli + other.under_share_gpu_milli,
        jobs_ended=one.jobs_ended + other.jobs_ended,
        lost_gpu_ms=one.lost_gpu_ms + other.lost_gpu_ms,
        jobs_stopped=one.jobs_stopped + other.jobs_stopped,
        tasks=one.tasks + other.tasks,
        fragmented_nodes=one.fragmented_nodes + other.fragmented_nodes,
        cpu_milli=one.cpu_milli + other.cpu_milli,
    )


def levels(one: Cost, other: Cost) -> list[tuple[str, int, int]]:
    """Levels of the objective in order, with the amounts of both sets. GPUs of one priority are named `priority N`."""
    of_one, of_other = ({each.priority: each.gpu_milli for each in cost.classes} for cost in (one, other))
    found = [
        (f"priority {priority}", of_one.get(priority, 0), of_other.get(priority, 0))
        for priority in sorted({**of_one, **of_other}, reverse=True)
    ]
    names = ("under_share_gpu_milli", "jobs_ended", "lost_gpu_ms", "jobs_stopped", "tasks", "fragmented_nodes")
    return [*found, *((name, getattr(one, name), getattr(other, name)) for name in names)]


def cheaper(one: Cost, other: Cost) -> bool:
    """Whether `one` costs less than `other`: the first level at which they differ decides."""
    return next((left < right for _, left, right in levels(one, other) if left != right), False)
