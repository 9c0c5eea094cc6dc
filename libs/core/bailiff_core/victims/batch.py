"""Selects victims for all requests of a selection, action by action; each request sees the result of the previous ones."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from bailiff_core.model.gpu_shares import task_resources
from bailiff_core.model.placement_ranges import numbers, ranges
from bailiff_core.model.policy import Action, Policy
from bailiff_core.model.project_tree import ROOT
from bailiff_core.model.proposal import Explanation, Proposal, VictimChoice
from bailiff_core.model.resource_vector import UNLIMITED, ResourceVector
from bailiff_core.model.resources import release
from bailiff_core.model.state import Job, OpenRequest, PoolState, Resources
from bailiff_core.model.units import Unit, before_restart, evictable_units
from bailiff_core.placement.cluster_resources import ClusterResources
from bailiff_core.placement.gang import GangPlacement, NoFit, cannot_fit, place_unit
from bailiff_core.placement.placement_codec import decode_placement, encode_placement
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.queue.order import Pass, shares_now
from bailiff_core.queue.preemption_delay import may_preempt_from
from bailiff_core.quota.fair_share import NOTHING
from bailiff_core.quota.maintenance import on_open_nodes
from bailiff_core.quota.quota_aware_placement import by_measure, find_within_bounds
from bailiff_core.quota.quota_checks import CapAtFairShare, Shares, above_limit, exceeds, over_limit
from bailiff_core.scheduling_snapshot import SchedulingSnapshot, current_snapshot

from .candidates import CandidateIndex, Candidates
from .consolidation import ConsolidationSolver
from .heterogeneous_gangs import HeterogeneousGangSolver
from .infeasibility import nearest_solution
from .knapsack import KnapsackCache
from .proposals import choices, explanation_of, merged, refused
from .relocation import find_relocations
from .search import GeneralSolver
from .shortlist import ShortlistSolver
from .trial import Problem, Solution, Solver, Trial, action_not_permitted

PreemptingAction = Literal["consolidate", "reclaim", "preempt"]
PREEMPTING_ACTIONS: tuple[PreemptingAction, ...] = ("consolidate", "reclaim", "preempt")
PLACEMENT_STEPS = 10_000
MOVE_STEPS = 5_000
LOSES_TASKS = "it loses tasks by a decision for another job of this selection"

# In order; the first solution is used. The last two solve every problem of their actions.
SOLVERS: tuple[Solver, ...] = (ShortlistSolver(), HeterogeneousGangSolver(), ConsolidationSolver(), GeneralSolver())


@dataclass(slots=True)
class SelectionBatch:
    """State shared by the searches of one batch.

    Attributes:
        shares: Fair shares at the start of the batch.
        earlier: Units evicted for earlier preemptors.
        has_decisions: Some preemptor is solved, and placed in `snapshot`.
        missing: What pending jobs lack that are alike, since the last decision.
    """

    snapshot: SchedulingSnapshot
    shares: Shares
    index: CandidateIndex
    earlier: list[Unit] = field(default_factory=list)
    has_decisions: bool = False
    missing: dict[Hashable, tuple[Candidates, str]] = field(default_factory=dict)
    knapsacks: KnapsackCache = field(default_factory=dict)

    @classmethod
    def on(cls, snapshot: SchedulingSnapshot, shares: Shares | None = None, preemptors: int = 1) -> "SelectionBatch":
        """A batch for `preemptors` requests on the current snapshot."""
        return cls(snapshot, shares_now(snapshot) if shares is None else shares, CandidateIndex(snapshot, preemptors))


def compute_proposals(state: PoolState) -> tuple[Proposal, ...]:
    """What this engine proposes for the open selection: a function of the state alone, with the policy's step budget.

    Victim selection sends exactly this, and whoever searches again on the state of that record gets the same. Raises
    `AssertionError` if no selection is open.
    """
    assert state.selection is not None, "no selection is open"
    return tuple(select_batch(state, state.selection.requests, state.rules.preemption.search_steps))


def select_batch(state: PoolState, requests: Sequence[OpenRequest], steps: int) -> list[Proposal]:
    """One proposal per request, each valid once those before it are enacted; refusals are last.

    Each request has a budget of `steps` per action. `state` is unchanged.
    """
    snapshot = current_snapshot(state)
    mark = snapshot.mark()
    try:
        return _proposals(SelectionBatch.on(snapshot, preemptors=len(requests)), requests, steps)
    finally:
        snapshot.rollback(mark)


def actions_in_use(rules: Policy) -> list[PreemptingAction]:
    """The actions with victims that the policy uses, in order."""
    off = {"consolidate": rules.preemption.max_migrations == 0, "reclaim": not rules.projects}
    return [action for action in PREEMPTING_ACTIONS if action in rules.preemption.actions and not off.get(action)]


def _proposals(batch: SelectionBatch, requests: Sequence[OpenRequest], steps: int) -> list[Proposal]:
    state = batch.snapshot.state
    of_job = {request.job: request for request in requests}
    proposals: dict[int, Proposal] = {}
    answers: dict[int, Answer] = {}
    refusals: dict[int, list[Proposal]] = {}
    actions = actions_in_use(state.rules) or ["preempt"]
    pending = [state.jobs[request.job] for request in requests if request.job in state.jobs]
    for action in actions:
        cycle = Pass(batch.snapshot, [job for job in pending if of_job[job.id].seq not in proposals], batch.shares)
        while (unit := cycle.next()) is not None:
            request = of_job[unit.job.id]
            if unit.job.suspended_reason is not None or unit.job.phase not in ("pending", "starting", "running"):
                continue
            if action != "preempt" and state.now < may_preempt_from(state, unit.job):
                continue  # the head of the queue, which may evict backfilled jobs only
            if any(victim.job is unit.job for victim in batch.earlier):
                lost = Proposal(request=request.seq, job=unit.job.id, action=action)
                refusals[request.seq] = [refused(lost, "impossible", LOSES_TASKS, Explanation(proven=True))]
                continue
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
    for seq, proposal in proposals_without_victims(batch.snapshot, batch.shares, answers, steps):
        del proposals[seq]
        proposals[seq] = proposal  # after the others, whose victims may leave it the place
    of_seq = {request.seq: request for request in requests}
    in_order = [of_seq.pop(seq) for seq in proposals]
    return [merged(each, proposals.get(each.seq), refusals.get(each.seq, [])) for each in (*in_order, *of_seq.values())]


def select_victims(batch: SelectionBatch, unit: Unit, action: Action, budget: StepBudget, *, request: int = 0) -> Proposal:
    """The proposal for one unit under one action: the victims, or why there are none. `batch.snapshot` is unchanged.

    A proposal without victims and without a refusal means that the unit fits without evictions.
    """
    snapshot = batch.snapshot
    mark = snapshot.mark()
    refusals, unit = [], on_open_nodes(snapshot.state, unit)
    for measured in by_measure(snapshot, unit, action):
        try:
            found = _select(batch, measured, action, budget, request)
        finally:
            snapshot.rollback(mark)
        if found.refused is None:
            return found
        refusals.append(found)
    return next((each for each in refusals if each.refused == "gave-up"), refusals[0])


def _select(batch: SelectionBatch, unit: Unit, action: Action, budget: StepBudget, request: int) -> Proposal:
    snapshot, job = batch.snapshot, unit.job
    tasks = ranges(unit.indices) if job.tasks else ""
    proposal = Proposal(request=request, job=job.id, action=action, tasks=tasks)
    why = action_not_permitted(snapshot, batch.shares, unit, action, snapshot.usage.smallest)
    if why is not None:
        return refused(proposal, "impossible", why, Explanation(steps=budget.used, proven=True))
    if not cannot_fit(snapshot.cluster, unit):
        part = budget.part(budget.remaining // 4)
        free_place = find_within_bounds(snapshot, unit, part)
        budget.join(part)
        if isinstance(free_place, GangPlacement) and over_limit(snapshot, unit, free_place) is None:
            return proposal.model_copy(update={"action": "allocate", "placement": encode_placement(free_place)})
    under_share = _under_share(batch) if action == "reclaim" else {}
    trial = Trial(snapshot, batch.shares, unit, action, batch.earlier)
    problem = Problem(trial, unit, batch.index, under_share, budget, batch.knapsacks)
    solution = next(found for solver in SOLVERS if (found := solver.solve(problem)) is not None)
    if solution.victims is None:
        explanation = explanation_of(problem, solution)
        if not solution.proven:
            return refused(proposal, "gave-up", solution.why, explanation)
        would_need = solution.why or _nearest_solution(batch, trial, solution.candidates)
        return refused(proposal, "impossible", would_need, explanation)
    return _accepted(proposal, problem, solution, batch.earlier)


def _nearest_solution(batch: SelectionBatch, trial: Trial, candidates: Candidates) -> str:
    """What is missing: once for all pending jobs alike, as it evicts every candidate of the pool."""
    unit = trial.unit
    job = unit.job
    key = id(candidates), job.scheduling_class, unit.indices, job.project, job.priority, job.id if job.tasks else ""
    if key not in batch.missing:  # with the candidates, so that no others get their id
        batch.missing[key] = candidates, nearest_solution(trial, candidates, after_others=batch.has_decisions)
    return batch.missing[key][1]


def _accepted(proposal: Proposal, problem: Problem, solution: Solution, earlier: Sequence[Unit]) -> Proposal:
    """The proposal with the victims, the preemptor's placement, and the new placements of relocated victims."""
    trial = problem.trial
    assert solution.victims is not None
    for step in solution.victims:
        trial.evict(step.unit)
    place, relocations = solution.place, solution.relocations
    if place is None:
        found = trial.place(StepBudget(max(PLACEMENT_STEPS, problem.budget.remaining)))
        if not isinstance(found, GangPlacement):
            why = found.why if isinstance(found, NoFit) else found
            problem.budget.charge(problem.budget.remaining)
            return refused(proposal, "gave-up", why, explanation_of(problem, Solution(solution.candidates)))
        place = found
    else:
        trial.take(trial.unit, place)
    if not relocations and not trial.has_limits:  # a victim evicted for a limit would exceed it again if relocated
        relocations = find_relocations(trial, solution.victims, StepBudget(MOVE_STEPS))
    return proposal.model_copy(
        update={
            "victims": tuple(choices(solution.victims, relocations, evicted_by_job(earlier))),
            "placement": encode_placement(place),
            "explanation": explanation_of(problem, solution),
        }
    )


def _under_share(batch: SelectionBatch) -> dict[str, bool]:
    """Projects over their GPU quota and within their fair share, before anything is evicted."""
    usage = batch.snapshot.usage
    found = {}
    for project in dict.fromkeys(group[2] for group in batch.snapshot.equivalence_classes.groups):
        leaf = usage.tree.leaf_of(project)
        quota = usage.tree.branches[leaf].quota.gpu_milli
        used, share = usage.allocated(leaf).gpu_milli, batch.shares.get(leaf, NOTHING).share.gpu_milli
        found[project] = quota != UNLIMITED and quota < used <= share
    return found


def apply_proposal(batch: SelectionBatch, unit: Unit, proposal: Proposal) -> None:
    """Apply the proposal to the snapshot of the batch, so that later requests are solved on its result."""
    snapshot = batch.snapshot
    batch.has_decisions = True
    batch.missing.clear()
    if unit.job.tasks:
        batch.index.mark_growing(unit.job)
    nodes: dict[int, None] = {}
    placed = [(unit, proposal.placement)]
    taken_before = evicted_by_job(batch.earlier)
    for choice in proposal.victims:  # one of each job
        job = snapshot.state.jobs[choice.job]
        units = units_of_choice(job, choice, taken_before.get(job.id, {}))
        nodes.update((task.node, None) for task in job.tasks)  # includes nodes of its other tasks: the eviction chain has changed
        for evicted in units:
            snapshot.evict(evicted)
            batch.index.fragmentation.remove(evicted)
        if choice.moved_to:
            placed.append((Unit(job, tuple(choice.relocated_tasks), core=not choice.tasks), choice.moved_to))
        batch.earlier += units
        batch.index.mark_decided(job, 0 if choice.moved_to or not choice.tasks else len(units))
    for each, placement in placed:  # after all evictions, since a new place may be on what a later victim frees
        place = GangPlacement(tuple(decode_placement(each.job, placement, each.indices)), future=True)
        nodes.update((task.node, None) for task in place.tasks)
        snapshot.place(each, place)
        batch.index.fragmentation.add(each.job, place)
    for knapsack in batch.knapsacks.values():
        knapsack.touch(nodes)


def evicted_by_job(units: Iterable[Unit]) -> dict[str, dict[int, None]]:
    """Tasks of these units, by job."""
    found: dict[str, dict[int, None]] = {}
    for unit in units:
        found.setdefault(unit.job.id, {}).update(dict.fromkeys(unit.indices))
    return found


def units_of_victim(job: Job, choice: VictimChoice) -> list[Unit]:
    """As `units_of_choice`, of the victim as it is when the decision is made: one that it extends is being evicted already."""
    if choice.extends and job.eviction is not None:
        return units_of_choice(before_restart(job)[0], choice, before_restart(job)[1])
    return units_of_choice(job, choice)


def units_of_choice(job: Job, choice: VictimChoice, taken_before: Mapping[int, None] = MappingProxyType({})) -> list[Unit]:
    """The units that the choice names: the first evictable units of the job that are not `taken_before`.

    Raises:
        ValueError: The choice names other tasks.
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


@dataclass(frozen=True)
class Answer:
    """A proposal that gives the unit a place.

    Attributes:
        grown: The projects that use more with it than without it.
    """

    unit: Unit
    proposal: Proposal
    grown: Sequence[str]


def usage_of(snapshot: SchedulingSnapshot, job: Job) -> dict[str, ResourceVector]:
    """What the job's project and those above it use now."""
    usage = snapshot.usage
    return {project: usage.allocated(project) for project in usage.tree.branches[usage.leaf_of(job)].path}


def proposals_without_victims(
    snapshot: SchedulingSnapshot, shares: Shares, answers: Mapping[int, Answer], steps: int
) -> Iterator[tuple[int, Proposal]]:
    """Maps each request whose victims can stay to a proposal without evictions.

    Victims that can stay are restored in the snapshot. They do not stay where another answer's project needs them gone: for
    its limit, or for the fair share that its action does not exceed.

    Args:
        answers: By request, in the order in which they were found; all of them are applied to the snapshot.
    """
    with_victims = [key for key, answer in answers.items() if answer.proposal.victims]
    for key in with_victims if len(with_victims) > 1 else ():
        unit, proposal = answers[key].unit, answers[key].proposal
        victims = _whole_victims(snapshot, proposal)
        if not victims or snapshot.usage.by_place(unit.job):
            continue
        mark = snapshot.mark()
        place = _fits_elsewhere(snapshot, unit, proposal, victims, StepBudget(steps))
        if place is not None and not all(_within_bounds(snapshot, shares, each) for each in answers.values()):
            snapshot.rollback(mark)
            place = None
        if place is not None:
            update = {"action": "allocate", "victims": (), "placement": encode_placement(place)}
            yield key, Proposal(request=proposal.request, job=proposal.job, tasks=proposal.tasks).model_copy(update=update)


def _whole_victims(snapshot: SchedulingSnapshot, proposal: Proposal) -> Sequence[Job]:
    """The victims, if each of them runs, is evicted whole and is not moved; else none."""
    if any(choice.moved_to or choice.tasks or choice.reserved for choice in proposal.victims):
        return ()
    return [snapshot.state.jobs[choice.job] for choice in proposal.victims]


def _fits_elsewhere(
    snapshot: SchedulingSnapshot, unit: Unit, proposal: Proposal, victims: Sequence[Job], budget: StepBudget
) -> GangPlacement | None:
    """A place of the unit on free and releasing resources that leaves its victims theirs, or `None`."""
    cluster, mark = snapshot.cluster, snapshot.mark()
    _give_back(cluster, unit, GangPlacement(tuple(decode_placement(unit.job, proposal.placement, unit.indices)), future=True))
    if _restored(snapshot, victims):
        place = place_unit(cluster, unit, budget, reserve=True)
        if isinstance(place, GangPlacement):
            return place
    snapshot.rollback(mark)
    return None


def _within_bounds(snapshot: SchedulingSnapshot, shares: Shares, answer: Answer) -> bool:
    """Whether the projects of a placed preemptor use no more than the limits and fair shares that its action keeps to."""
    unit, action = answer.unit, answer.proposal.action
    if above_limit(snapshot, unit.job):
        return False
    if action == "reclaim":
        kept: Sequence[str] = [snapshot.usage.leaf_of(unit.job)]
    elif CapAtFairShare.of(snapshot, shares, unit, action) is not None:
        kept = [project for project in answer.grown if project != ROOT]
    else:
        kept = ()
    return not any(exceeds(snapshot.usage.allocated(project), shares.get(project, NOTHING).share) for project in kept)


def _give_back(cluster: ClusterResources, unit: Unit, place: GangPlacement) -> None:
    """Undo a placement on releasing resources."""
    groups = unit.job.groups()
    for task in place.tasks:
        node = cluster.nodes[task.node]
        devices, cpu_milli, memory_bytes, shares = task_resources(node.node, groups[task.index], task.devices)
        amount = Resources(devices, cpu_milli, memory_bytes, 1, dict(shares))
        cluster.set_future(node, release(node.future, amount, node.units, node.usable))


def _restored(snapshot: SchedulingSnapshot, victims: Sequence[Job]) -> bool:
    """Restores the victims where they run. Whether that is possible for all of them."""
    for victim in victims:
        for unit in evictable_units(victim):
            if not snapshot.cluster.original_place_is_free(unit):
                return False
            snapshot.restore(unit)
    return True
