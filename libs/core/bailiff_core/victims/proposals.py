"""Proposals as records: victims, cost and explanation of a solution, or the refusal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.proposal import AttemptedAction, ClassGpus, Cost, Excluded, Explanation, Proposal, VictimChoice
from bailiff_core.model.state import OpenRequest
from bailiff_core.model.units import Unit, restarts_to_shrink, stopped_tasks
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.placement.placement_codec import encode_placement

from .candidates import MAX_EXAMPLES, Candidates, EvictionStep
from .objective import MAX_CLASSES, EvictionCost, Fragmentation
from .trial import Problem, Solution

MAX_JOBS_NAMED = 50
MAX_NEED_LENGTH = 600


def choices(
    steps: Iterable[EvictionStep], moved: Mapping[str, GangPlacement], earlier: Mapping[str, Mapping[int, None]]
) -> list[VictimChoice]:
    """Victims by job, oldest first.

    Args:
        earlier: By job, the tasks that earlier decisions of the batch evict.
    """
    of_job: dict[str, list[EvictionStep]] = {}
    for step in steps:
        of_job.setdefault(step.job.id, []).append(step)
    found = []
    for taken in sorted(of_job.values(), key=lambda taken: (taken[0].job.seq, taken[0].job.id)):
        cost = EvictionCost(
            ends=sum(step.cost.ends for step in taken),
            lost_gpu_ms=sum(step.cost.lost_gpu_ms for step in taken),
            tasks=sum(step.cost.tasks for step in taken),
            cpu_milli=sum(step.cost.cpu_milli for step in taken),
            measured=sum(step.cost.measured for step in taken),
            parked=sum(step.cost.parked for step in taken),
        )
        place = moved.get(taken[0].job.id)
        job = taken[0].job
        places = place.tasks if place is not None else ()
        lost = earlier.get(job.id, {})
        stops = restarts_to_shrink(job) and any(task.state != "reserved" for task in job.tasks if task.index in lost)
        found.append(victim_choice([step.unit for step in taken], cost, places, lost if stops else {}))
    return found


def victim_choice(
    units: Sequence[Unit], cost: EvictionCost, places: Sequence[TaskPlacement], lost: Mapping[int, None] = MappingProxyType({})
) -> VictimChoice:
    """One job as a victim: the units that it loses, at what cost, and the new places of its relocated tasks.

    Args:
        lost: Tasks without which it restarts for an earlier decision.
    """
    job, indices = units[0].job, dict.fromkeys(index for unit in units for index in unit.indices)
    whole, placed = any(unit.core for unit in units), dict.fromkeys(place.index for place in places)
    evicted = [task for task in job.tasks if task.index in indices]
    stopped = [task.index for task in stopped_tasks(job, evicted, whole=whole)]
    restarts = [index for index in stopped if index not in indices and index not in lost]
    return VictimChoice(
        job=job.id,
        attempt=job.attempt,
        priority=job.priority,
        gpus=sum(job.group(index).gpu_milli for index in indices) // 1000,
        lost_gpu_ms=cost.lost_gpu_ms,
        reserved=not cost.tasks and not lost,
        class_name=job.class_name,
        project=job.project,
        backfilled=job.backfilled,
        tasks="" if whole else ranges(indices),
        moved_to=encode_placement(GangPlacement(tuple(places), future=True)),
        cpu_milli=cost.cpu_milli,
        not_relocated=ranges(index for index in indices if index not in placed) if whole and placed else "",
        restarts=ranges(restarts),
        ends=bool(cost.ends),
        together=bool(restarts) and not whole,
        extends=bool(lost),
        measured=bool(cost.measured),
        parked=bool(cost.parked),
    )


def cost_of(steps: Sequence[EvictionStep], fragmentation: Fragmentation) -> Cost:
    """Cost of the set, by level of the objective."""
    classes: dict[int, int] = {}
    under = ends = lost = jobs = tasks = cpu_milli = 0
    for step in steps:
        cost = step.cost
        if cost.gpu_milli:
            classes[step.job.priority] = classes.get(step.job.priority, 0) + cost.gpu_milli
        under += step.under_share
        ends += cost.ends
        lost += cost.lost_gpu_ms
        jobs += cost.jobs
        tasks += cost.tasks
        cpu_milli += cost.cpu_milli
    return Cost(
        classes=tuple(
            ClassGpus(priority=priority, gpu_milli=classes[priority]) for priority in sorted(classes, reverse=True)[:MAX_CLASSES]
        ),
        under_share_gpu_milli=under,
        jobs_ended=ends,
        lost_gpu_ms=lost,
        jobs_stopped=jobs,
        tasks=tasks,
        fragmented_nodes=fragmentation.count([step.uses for step in steps]),
        cpu_milli=cpu_milli,
    )


def refused(proposal: Proposal, kind: str, would_need: str, explanation: Explanation) -> Proposal:
    return proposal.model_copy(update={"refused": kind, "would_need": would_need[:2000], "explanation": explanation})


def explanation_of(problem: Problem, solution: Solution) -> Explanation:
    runner_up, candidates, fragmentation = solution.runner_up, solution.candidates, problem.index.fragmentation
    names = list(dict.fromkeys(step.job.id for step in sorted(runner_up, key=lambda step: (step.job.seq, step.job.id))))
    return Explanation(
        candidates=candidates.count,
        excluded=tuple(excluded_jobs(candidates)),
        steps=problem.budget.used,
        proven=solution.proven,
        runner_up=tuple(names[:MAX_JOBS_NAMED]),
        runner_up_lost_gpu_ms=sum(step.cost.lost_gpu_ms for step in runner_up),
        runner_up_cost=cost_of(runner_up, fragmentation) if runner_up else None,
        cost=cost_of(solution.victims, fragmentation) if solution.victims is not None else None,
        lower_bound=None if solution.proven or solution.victims is None else cost_of(solution.bound, fragmentation),
    )


def excluded_jobs(candidates: Candidates) -> Iterator[Excluded]:
    """Per rule the number of jobs that it protects, and the first of them by name."""
    if candidates.groups is not None:
        for rule, count in sorted(candidates.groups.excluded.items()):
            yield Excluded(rule=rule, jobs=count, examples=tuple(name for _, name in candidates.groups.examples[rule]))
        return
    for rule, units in sorted(candidates.excluded.items()):
        known = candidates.named.get(rule)
        if known is None or known[0] != len(units):  # units are only added
            jobs = list(dict.fromkeys([unit.job.id for unit in units]))
            found = Excluded(rule=rule, jobs=len(jobs), examples=tuple(jobs[:MAX_EXAMPLES]))
            known = candidates.named[rule] = len(units), found
        yield known[1]


def merged(request: OpenRequest, accepted: Proposal | None, refused: Sequence[Proposal]) -> Proposal:
    """The accepted proposal, else the refusal of the last action that gave up, or that searched; with those of the others."""
    if accepted is None and not refused:
        reason = "the job is no longer pending"
        return Proposal(request=request.seq, job=request.job, refused="impossible", would_need=reason)
    searched = [proposal for proposal in refused if proposal.explanation.candidates or proposal.explanation.excluded]
    gave_up = [proposal for proposal in searched if proposal.refused == "gave-up"]
    chosen = accepted or (gave_up or searched or refused)[-1]
    attempted = tuple(_attempted(proposal) for proposal in refused if proposal.action != chosen.action)
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
