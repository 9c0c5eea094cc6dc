"""Solves one preemption request: a cascade of solvers, for each of the actions (docs/concepts/semantics/victims.md)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.policy import Action
from bailiff_core.model.proposal import ClassGpus, Cost, Excluded, Explanation, Proposal, VictimChoice
from bailiff_core.model.resource_vector import UNLIMITED, ZERO
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement, NoFit
from bailiff_core.placement.placement_codec import encode_placement
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.queue.order import shares_now
from bailiff_core.quota.quota_aware_placement import place_within_bounds
from bailiff_core.quota.quota_checks import Shares, over_limit
from bailiff_core.scheduling_snapshot import SchedulingSnapshot

from .candidates import MAX_EXAMPLES, CandidateIndex, Candidates, EvictionStep
from .consolidation import ConsolidationSolver
from .constraints import Constraints, action_not_permitted
from .fit_oracle import cannot_fit
from .fragmentation import Fragmentation
from .heterogeneous_gangs import HeterogeneousGangSolver
from .infeasibility import nearest_solution
from .knapsack import KnapsackCache
from .objective import MAX_CLASSES
from .relocation import find_relocations
from .search import GeneralSolver
from .shortlist import ShortlistSolver
from .solver_interface import Problem, Solution, Solver

PLACEMENT_STEPS = 10_000
MOVE_STEPS = 5_000
MAX_JOBS_NAMED = 50


# In order; the first solution is used. The last two solve every problem of their actions.
SOLVERS: tuple[Solver, ...] = (ShortlistSolver(), HeterogeneousGangSolver(), ConsolidationSolver(), GeneralSolver())


@dataclass(slots=True)
class SelectionBatch:
    """State shared by the searches of one batch. shares: fair shares at its start.

    earlier: units evicted for earlier preemptors. has_decisions: some preemptor is solved, and placed in `snapshot`.
    """

    snapshot: SchedulingSnapshot
    shares: Shares
    index: CandidateIndex
    earlier: list[Unit] = field(default_factory=list)
    has_decisions: bool = False
    knapsacks: KnapsackCache = field(default_factory=dict)

    @classmethod
    def on(cls, snapshot: SchedulingSnapshot, shares: Shares | None = None, preemptors: int = 1) -> "SelectionBatch":
        """A batch for `preemptors` requests on the current snapshot."""
        return cls(snapshot, shares_now(snapshot) if shares is None else shares, CandidateIndex(snapshot, preemptors))


def select_victims(batch: SelectionBatch, unit: Unit, action: Action, budget: StepBudget, *, request: int = 0) -> Proposal:
    """The proposal for one unit under one action: the victims, or why there are none. `batch.snapshot` is unchanged.

    A proposal without victims and without a refusal means that the unit fits without evictions.
    """
    snapshot = batch.snapshot
    mark = snapshot.mark()
    try:
        return _select(batch, unit, action, budget, request)
    finally:
        snapshot.rollback(mark)


def _select(batch: SelectionBatch, unit: Unit, action: Action, budget: StepBudget, request: int) -> Proposal:
    snapshot, job = batch.snapshot, unit.job
    tasks = ranges(unit.indices) if job.tasks else ""
    proposal = Proposal(request=request, job=job.id, action=action, tasks=tasks)
    why = action_not_permitted(snapshot, batch.shares, unit, action)
    if why is not None:
        return _refused(proposal, "impossible", why, Explanation(steps=budget.used, proven=True))
    if not cannot_fit(snapshot.cluster, unit):
        part = budget.part(budget.remaining // 4)
        mark = snapshot.mark()
        free_place = place_within_bounds(snapshot, unit, part)
        snapshot.rollback(mark)
        budget.join(part)
        if isinstance(free_place, GangPlacement) and over_limit(snapshot, unit, free_place) is None:
            return proposal.model_copy(update={"action": "allocate", "placement": encode_placement(free_place)})
    under_share = _under_share(batch) if action == "reclaim" else {}
    constraints = Constraints(snapshot, batch.shares, unit, action, batch.earlier)
    problem = Problem(snapshot, batch.index, unit, action, constraints, under_share, budget, batch.knapsacks)
    solution = next(found for solver in SOLVERS if (found := solver.solve(problem)) is not None)
    if solution.victims is None:
        explanation = _explanation(problem, solution)
        if not solution.proven:
            return _refused(proposal, "gave-up", solution.why, explanation)
        would_need = solution.why or nearest_solution(
            snapshot, unit, solution.candidates, constraints, after_others=batch.has_decisions
        )
        return _refused(proposal, "impossible", would_need, explanation)
    return _accepted(proposal, problem, solution)


def _accepted(proposal: Proposal, problem: Problem, solution: Solution) -> Proposal:
    """The proposal with the victims, the preemptor's placement, and the new placements of relocated victims."""
    snapshot, constraints = problem.snapshot, problem.constraints
    assert solution.victims is not None
    for step in solution.victims:
        snapshot.evict(step.unit)
    place, relocations = solution.place, solution.relocations
    if place is None:
        found = constraints.place(StepBudget(PLACEMENT_STEPS))
        if not isinstance(found, GangPlacement):
            why = found.why if isinstance(found, NoFit) else found
            return _refused(proposal, "gave-up", why, _explanation(problem, solution))
        place = found
    else:
        snapshot.cluster.place(problem.unit, place)
    if not relocations and not constraints.has_limits:  # a victim evicted for a limit would exceed it again if relocated
        relocations = find_relocations(snapshot.cluster, solution.victims, StepBudget(MOVE_STEPS))
    return proposal.model_copy(
        update={
            "victims": tuple(choices(solution.victims, relocations)),
            "placement": encode_placement(place),
            "explanation": _explanation(problem, solution),
        }
    )


def choices(steps: Iterable[EvictionStep], moved: Mapping[str, GangPlacement]) -> list[VictimChoice]:
    """Victims by job, oldest first."""
    of_job: dict[str, list[EvictionStep]] = {}
    for step in steps:
        of_job.setdefault(step.job.id, []).append(step)
    found = []
    for taken in sorted(of_job.values(), key=lambda taken: (taken[0].job.seq, taken[0].job.id)):
        job = taken[0].job
        indices = [index for step in taken for index in step.unit.indices]
        place = moved.get(job.id)
        whole = any(step.whole for step in taken)
        placed = dict.fromkeys(task.index for task in place.tasks) if place is not None else {}
        found.append(
            VictimChoice(
                job=job.id,
                attempt=job.attempt,
                priority=job.priority,
                gpus=sum(job.group(index).gpu_milli for index in indices) // 1000,
                lost_gpu_ms=sum(step.cost.lost_gpu_ms for step in taken),
                reserved=all(not step.cost.tasks for step in taken),
                class_name=job.class_name,
                project=job.project,
                backfilled=job.backfilled,
                tasks="" if whole else ranges(indices),
                moved_to=encode_placement(place) if place is not None else (),
                cpu_milli=sum(step.cost.cpu_milli for step in taken),
                not_relocated=ranges(index for index in indices if index not in placed) if whole and placed else "",
            )
        )
    return found


def cost_of(steps: Sequence[EvictionStep], fragmentation: Fragmentation) -> Cost:
    """Cost of the set, by level of the objective."""
    classes: dict[int, int] = {}
    under = lost = jobs = tasks = cpu_milli = 0
    for step in steps:
        cost = step.cost
        if cost.gpu_milli:
            classes[step.job.priority] = classes.get(step.job.priority, 0) + cost.gpu_milli
        under += step.under_share
        lost += cost.lost_gpu_ms
        jobs += cost.jobs
        tasks += cost.tasks
        cpu_milli += cost.cpu_milli
    return Cost(
        classes=tuple(
            ClassGpus(priority=priority, gpu_milli=classes[priority]) for priority in sorted(classes, reverse=True)[:MAX_CLASSES]
        ),
        under_share_gpu_milli=under,
        lost_gpu_ms=lost,
        jobs_stopped=jobs,
        tasks=tasks,
        fragmented_nodes=fragmentation.count([step.uses for step in steps]),
        cpu_milli=cpu_milli,
    )


def _under_share(batch: SelectionBatch) -> dict[str, bool]:
    """Projects over their GPU quota and within their fair share, before anything is evicted."""
    usage = batch.snapshot.usage
    found = {}
    for project in dict.fromkeys(group[2] for group in batch.snapshot.equivalence_classes.groups):
        leaf = usage.tree.leaf_of(project)
        quota = usage.tree.branches[leaf].quota.gpu_milli
        used, share = usage.allocated(leaf).gpu_milli, batch.shares.get(leaf, ZERO).gpu_milli
        found[project] = quota != UNLIMITED and quota < used <= share
    return found


def _refused(proposal: Proposal, kind: str, would_need: str, explanation: Explanation) -> Proposal:
    return proposal.model_copy(update={"refused": kind, "would_need": would_need[:2000], "explanation": explanation})


def _explanation(problem: Problem, solution: Solution) -> Explanation:
    runner_up, candidates, fragmentation = solution.runner_up, solution.candidates, problem.index.fragmentation
    names = list(dict.fromkeys(step.job.id for step in sorted(runner_up, key=lambda step: (step.job.seq, step.job.id))))
    return Explanation(
        candidates=len(candidates.chains) if candidates.groups is None else candidates.groups.candidates,
        excluded=tuple(_excluded(candidates)),
        steps=problem.budget.used,
        proven=solution.proven,
        runner_up=tuple(names[:MAX_JOBS_NAMED]),
        runner_up_lost_gpu_ms=sum(step.cost.lost_gpu_ms for step in runner_up),
        runner_up_cost=cost_of(runner_up, fragmentation) if runner_up else None,
        cost=cost_of(solution.victims, fragmentation) if solution.victims is not None else None,
        lower_bound=None if solution.proven or solution.victims is None else cost_of(solution.bound, fragmentation),
    )


def _excluded(candidates: Candidates) -> Iterator[Excluded]:
    """Per rule the number of jobs that it protects, and the first of them by name."""
    if candidates.groups is not None:
        for rule, count in sorted(candidates.groups.excluded.items()):
            yield Excluded(rule=rule, jobs=count, examples=tuple(name for _, name in candidates.groups.examples[rule]))
        return
    for rule, units in sorted(candidates.excluded.items()):
        jobs = list(dict.fromkeys(unit.job.id for unit in units))
        yield Excluded(rule=rule, jobs=len(jobs), examples=tuple(jobs[:MAX_EXAMPLES]))
