"""Selects victims for all requests of a selection, action by action; each request sees the result of the previous ones."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from bailiff_core.model.placement_ranges import numbers
from bailiff_core.model.policy import ACTIONS, Action
from bailiff_core.model.proposal import AttemptedAction, Proposal, VictimChoice
from bailiff_core.model.state import Job, OpenRequest, PoolState
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement
from bailiff_core.placement.placement_codec import decode_placement
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.queue.order import Pass
from bailiff_core.queue.preemption_delay import may_preempt_from
from bailiff_core.quota.quota_checks import exceeds
from bailiff_core.scheduling_snapshot import current_snapshot

from .candidates import evictable_units
from .solve import SelectionBatch, select_victims
from .unneeded_victims import Answer, proposals_without_victims, usage_of

PREEMPTING_ACTIONS: tuple[Action, ...] = ACTIONS[1:]
MAX_NEED_LENGTH = 600


def compute_proposals(state: PoolState) -> tuple[Proposal, ...]:
    """What this engine proposes for the open selection: a function of the state alone, with the policy's step budget.

    Victim selection sends exactly this, and whoever searches again on the state of that record gets the same. Raises
    `AssertionError` if no selection is open.
    """
    assert state.selection is not None, "no selection is open"
    return tuple(select_batch(state, state.selection.requests, state.rules.preemption.search_steps))


def select_batch(state: PoolState, requests: Sequence[OpenRequest], steps: int) -> list[Proposal]:
    """One proposal per request, in the given order. Each request has a budget of `steps` per action. `state` is unchanged."""
    snapshot = current_snapshot(state)
    mark = snapshot.mark()
    try:
        return _proposals(SelectionBatch.on(snapshot, preemptors=len(requests)), requests, steps)
    finally:
        snapshot.rollback(mark)


def _proposals(batch: SelectionBatch, requests: Sequence[OpenRequest], steps: int) -> list[Proposal]:
    state = batch.snapshot.state
    of_job = {request.job: request for request in requests}
    proposals: dict[int, Proposal] = {}
    answers: dict[int, Answer] = {}
    refusals: dict[int, list[Proposal]] = {}
    actions = [action for action in PREEMPTING_ACTIONS if action in state.rules.preemption.actions] or ["preempt"]
    pending = [state.jobs[request.job] for request in requests if request.job in state.jobs]
    for action in actions:
        cycle = Pass(batch.snapshot, [job for job in pending if of_job[job.id].seq not in proposals], batch.shares)
        while (unit := cycle.next()) is not None:
            request = of_job[unit.job.id]
            if unit.job.suspended_reason is not None or unit.job.phase not in ("pending", "starting", "running"):
                continue
            if action != "preempt" and state.now < may_preempt_from(state, unit.job):
                continue  # the head of the queue, which may evict backfilled jobs only
            proposal = select_victims(batch, unit, action, StepBudget(steps), request=request.seq)
            if proposal.refused is None:
                proposals[request.seq] = proposal
                before = usage_of(batch.snapshot, unit.job)
                apply_proposal(batch, unit, proposal)
                after = usage_of(batch.snapshot, unit.job)
                grown = [project for project, used in after.items() if exceeds(used, before[project])]
                answers[request.seq] = Answer(unit, proposal, grown)
            else:
                refusals.setdefault(request.seq, []).append(proposal)
    proposals.update(proposals_without_victims(batch.snapshot, batch.shares, answers, steps))
    return [_merged(request, proposals.get(request.seq), refusals.get(request.seq, [])) for request in requests]


def apply_proposal(batch: SelectionBatch, unit: Unit, proposal: Proposal) -> None:
    """Apply the proposal to the snapshot of the batch, so that later requests are solved on its result."""
    snapshot = batch.snapshot
    batch.has_decisions = True
    nodes: dict[int, None] = {}
    placed = [(unit, proposal.placement)]
    for choice in proposal.victims:
        job = snapshot.state.jobs[choice.job]
        taken_before = {index: None for unit in batch.earlier if unit.job is job for index in unit.indices}
        units = units_of_choice(job, choice, taken_before)
        nodes.update((task.node, None) for task in job.tasks)  # includes nodes of its other tasks: the eviction chain has changed
        for evicted in units:
            snapshot.evict(evicted)
            batch.index.fragmentation.remove(evicted)
        if choice.moved_to:
            placed.append((Unit(job, tuple(choice.relocated_tasks), core=not choice.tasks), choice.moved_to))
        batch.earlier += units
        batch.index.mark_evicted(job, 0 if choice.moved_to or not choice.tasks else len(units))
    for each, placement in placed:  # after all evictions, since a new place may be on what a later victim frees
        place = GangPlacement(tuple(decode_placement(each.job, placement, each.indices)), future=True)
        nodes.update((task.node, None) for task in place.tasks)
        snapshot.place(each, place)
        batch.index.fragmentation.add(each.job, place)
    for knapsack in batch.knapsacks.values():
        knapsack.touch(nodes)


def units_of_choice(job: Job, choice: VictimChoice, taken_before: Mapping[int, None] = MappingProxyType({})) -> list[Unit]:
    """The units that the choice names: the first evictable units of the job that are not `taken_before`.

    Raises `ValueError` if the choice names other tasks.
    """
    units = [unit for unit in evictable_units(job) if not all(index in taken_before for index in unit.indices)]
    if not choice.tasks:
        return units
    wanted = sorted(numbers(choice.tasks))
    taken: list[Unit] = []
    for unit in units:
        taken.append(unit)
        if sorted(index for unit in taken for index in unit.indices) == wanted and not unit.core:
            return taken
    raise ValueError(f"tasks {choice.tasks} of {job.id!r} are not its first evictable tasks")


def _merged(request: OpenRequest, accepted: Proposal | None, refused: Sequence[Proposal]) -> Proposal:
    """The accepted proposal, else the refusal of the last action that searched; with the refusals of the other actions.

    It is `gave-up` if one of them gave up.
    """
    if accepted is None and not refused:
        reason = "the job is no longer pending"
        return Proposal(request=request.seq, job=request.job, refused="impossible", would_need=reason)
    searched = [proposal for proposal in refused if proposal.explanation.candidates or proposal.explanation.excluded]
    chosen = accepted or (searched or refused)[-1]
    if accepted is None and any(proposal.refused == "gave-up" for proposal in searched):
        chosen = chosen.model_copy(update={"refused": "gave-up"})
    attempted = tuple(_attempted(proposal) for proposal in searched if proposal.action != chosen.action)
    return chosen.model_copy(update={"explanation": chosen.explanation.model_copy(update={"attempted_actions": attempted})})


def _attempted(proposal: Proposal) -> AttemptedAction:
    why = proposal.explanation
    assert proposal.action != "allocate"
    assert proposal.refused is not None
    return AttemptedAction(
        action=proposal.action,
        refused=proposal.refused,
        would_need=proposal.would_need[:MAX_NEED_LENGTH],
        candidates=why.candidates,
        excluded=why.excluded,
    )
