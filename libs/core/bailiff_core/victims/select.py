"""Answers one request for room: the joint rule of semantics §3, for consolidate, reclaim and preempt."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from bailiff_core.model.amounts import NOTHING, UNLIMITED
from bailiff_core.model.answer import Answer, ClassGpus, Cost, Excluded, Explanation, VictimChoice
from bailiff_core.model.places import ranges
from bailiff_core.model.policy import Verb
from bailiff_core.model.units import Unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import GangPlace, NoFit
from bailiff_core.placement.shares import to_shares
from bailiff_core.queue.gates import Shares, over_limit
from bailiff_core.queue.order import shares_now
from bailiff_core.queue.within_bounds import place_within_bounds
from bailiff_core.scene import Scene

from .candidates import NAMED, Board, Field, Step
from .consolidation import consolidate
from .fit import surely_not
from .moves import find_new_places
from .nearest import what_it_would_take
from .objective import MOST_CLASSES
from .search import Found, Search
from .several import kind_by_kind
from .shortlist import among_few
from .slots import Kept
from .terms import Terms, why_not_ask

PLACEMENT_STEPS = 10_000
MOVE_STEPS = 5_000
MOST_NAMED = 50


@dataclass(slots=True)
class Batch:
    """What the answers of one batch have in common. `shares`: fair shares as they were at its start.

    earlier: units that leave for askers that have their answer. decided: somebody has, and stands in the scene.
    """

    scene: Scene
    shares: Shares
    board: Board
    earlier: list[Unit] = field(default_factory=list)
    decided: bool = False
    slots: Kept = field(default_factory=dict)

    @classmethod
    def on(cls, scene: Scene, shares: Shares | None = None, askers: int = 1) -> "Batch":
        """A batch for so many askers on the scene as it stands."""
        return cls(scene, shares_now(scene) if shares is None else shares, Board(scene, askers))


def select(batch: Batch, unit: Unit, verb: Verb, budget: Budget, *, request: int = 0) -> Answer:
    """Who must leave under this verb so that the unit stands, or why nobody can be made to. The scene stays as it was.

    An answer without victims and without a refusal means that the unit fits as it is.
    """
    scene = batch.scene
    mark = scene.mark()
    try:
        return _select(batch, unit, verb, budget, request)
    finally:
        scene.rollback(mark)


def _select(batch: Batch, unit: Unit, verb: Verb, budget: Budget, request: int) -> Answer:
    scene, job = batch.scene, unit.job
    tasks = ranges(unit.indices) if job.tasks else ""
    answer = Answer(request=request, job=job.id, verb=verb, tasks=tasks)
    why = why_not_ask(scene, batch.shares, unit, verb)
    if why is not None:
        return _refused(answer, "impossible", why, Explanation(steps=budget.used, proven=True))
    if not surely_not(scene.rooms, unit):
        part = budget.part(budget.left // 4)
        mark = scene.mark()
        found_free = place_within_bounds(scene, unit, part)
        scene.rollback(mark)
        budget.join(part)
        if isinstance(found_free, GangPlace) and over_limit(scene, unit, found_free) is None:
            return answer.model_copy(update={"verb": "allocate", "placement": to_shares(found_free)})
    under_share = _under_share(batch) if verb == "reclaim" else {}
    terms = Terms(scene, batch.shares, unit, verb, batch.earlier)
    few = among_few(scene, batch.board, unit, verb, terms, under_share, budget) if verb != "consolidate" else None
    if few is not None:
        if few.steps is None:
            return _refused(answer, "impossible", few.why, _explanation(few.field, budget, Found(proven=True)))
        found = Found(few.steps, proven=True, runner_up=few.runner_up, bound=few.steps)
        return _agreed(batch, answer, unit, few.field, terms, budget, found)
    several = kind_by_kind(scene, batch.board, unit, verb, terms, under_share, budget) if verb != "consolidate" else None
    if several is not None:
        field, found = several
        if found.steps is None:
            return _refused(answer, "impossible", found.why, _explanation(field, budget, found))
        return _agreed(batch, answer, unit, field, terms, budget, found)
    field = batch.board.field(verb, job, under_share)
    if verb == "consolidate":
        found = consolidate(scene, unit, field, terms, budget, batch.slots)
    else:
        found = Search(scene, unit, field, terms, budget, batch.slots).run()
    if found.steps is None:
        explanation = _explanation(field, budget, found)
        if not found.proven:
            return _refused(answer, "gave-up", found.why, explanation)
        would_need = found.why or what_it_would_take(scene, unit, field, terms, after_others=batch.decided)
        return _refused(answer, "impossible", would_need, explanation)
    return _agreed(batch, answer, unit, field, terms, budget, found)


def _agreed(batch: Batch, answer: Answer, unit: Unit, field: Field, terms: Terms, budget: Budget, found: Found) -> Answer:
    """The chosen set, its asker's place, and where those go who may go on elsewhere."""
    scene = batch.scene
    assert found.steps is not None
    for step in found.steps:
        scene.evict(step.unit)
    place, moved = found.place, found.moved
    if place is None:
        settled = terms.place(Budget(PLACEMENT_STEPS))
        if not isinstance(settled, GangPlace):
            why = settled.why if isinstance(settled, NoFit) else settled
            return _refused(answer, "gave-up", why, _explanation(field, budget, found))
        place = settled
    else:
        scene.rooms.place(unit, place)
    if not moved and not terms.bounded:  # whoever had to leave for the sake of a limit would only come back above it
        moved = find_new_places(scene.rooms, found.steps, Budget(MOVE_STEPS))
    return answer.model_copy(
        update={
            "victims": tuple(choices(found.steps, moved)),
            "placement": to_shares(place),
            "explanation": _explanation(field, budget, found),
        }
    )


def choices(steps: Iterable[Step], moved: Mapping[str, GangPlace]) -> list[VictimChoice]:
    """One entry per job, the oldest first."""
    of_job: dict[str, list[Step]] = {}
    for step in steps:
        of_job.setdefault(step.job.id, []).append(step)
    found = []
    for taken in sorted(of_job.values(), key=lambda taken: (taken[0].job.seq, taken[0].job.id)):
        job = taken[0].job
        indices = [index for step in taken for index in step.unit.indices]
        place = moved.get(job.id)
        found.append(
            VictimChoice(
                job=job.id,
                attempt=job.attempt,
                priority=job.priority,
                gpus=sum(job.group(index).gpu_milli for index in indices) // 1000,
                lost_gpu_ms=sum(step.price.lost_gpu_ms for step in taken),
                reserved=all(not step.price.tasks for step in taken),
                class_name=job.class_name,
                project=job.project,
                tasks="" if any(step.whole for step in taken) else ranges(indices),
                moved=to_shares(place) if place is not None else (),
            )
        )
    return found


def cost_of(steps: Iterable[Step]) -> Cost:
    """What the set costs, level by level."""
    classes: dict[int, int] = {}
    under = lost = jobs = tasks = broken = 0
    for step in steps:
        price = step.price
        if price.gpu_milli:
            classes[step.job.priority] = classes.get(step.job.priority, 0) + price.gpu_milli
        under += step.under_share
        lost += price.lost_gpu_ms
        jobs += price.jobs
        tasks += price.tasks
        broken += price.broken_nodes
    return Cost(
        classes=tuple(
            ClassGpus(priority=priority, gpu_milli=classes[priority]) for priority in sorted(classes, reverse=True)[:MOST_CLASSES]
        ),
        under_share_gpu_milli=under,
        lost_gpu_ms=lost,
        jobs_stopped=jobs,
        tasks=tasks,
        broken_nodes=max(0, broken),
    )


def _under_share(batch: Batch) -> dict[str, bool]:
    """Projects over their quota and not over their fair share in GPUs, as they are before anything is taken."""
    usage = batch.scene.usage
    found = {}
    for project in dict.fromkeys(group[2] for group in batch.scene.alike.groups):
        leaf = usage.tree.leaf_of(project)
        quota = usage.tree.branches[leaf].quota.gpu_milli
        used, share = usage.allocated(leaf).gpu_milli, batch.shares.get(leaf, NOTHING).gpu_milli
        found[project] = quota != UNLIMITED and quota < used <= share
    return found


def _refused(answer: Answer, kind: str, would_need: str, explanation: Explanation) -> Answer:
    return answer.model_copy(update={"refused": kind, "would_need": would_need[:2000], "explanation": explanation})


def _explanation(field: Field, budget: Budget, found: Found) -> Explanation:
    runner_up = found.runner_up
    names = list(dict.fromkeys(step.job.id for step in sorted(runner_up, key=lambda step: (step.job.seq, step.job.id))))
    return Explanation(
        candidates=len(field.chains) if field.groups is None else field.groups.candidates,
        excluded=tuple(_excluded(field)),
        steps=budget.used,
        proven=found.proven,
        runner_up=tuple(names[:MOST_NAMED]),
        runner_up_lost_gpu_ms=sum(step.price.lost_gpu_ms for step in runner_up),
        runner_up_cost=cost_of(runner_up) if runner_up else None,
        cost=cost_of(found.steps) if found.steps is not None else None,
        at_least=None if found.proven or found.steps is None else cost_of(found.bound),
    )


def _excluded(field: Field) -> Iterator[Excluded]:
    """By rule how many jobs it shields, the first of them by name."""
    if field.groups is not None:
        for rule, count in sorted(field.groups.excluded.items()):
            yield Excluded(rule=rule, jobs=count, examples=tuple(name for _, name in field.groups.examples[rule]))
        return
    for rule, units in sorted(field.excluded.items()):
        jobs = list(dict.fromkeys(unit.job.id for unit in units))
        yield Excluded(rule=rule, jobs=len(jobs), examples=tuple(jobs[:NAMED]))
