"""Why this one and not that one, and who would be next: a decision about victims searched again under another condition."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from .considered import Decided, before, candidates
from .model.answer import Answer, ClassGpus, Cost
from .model.policy import Verb
from .model.pool import Job, Pool
from .model.units import Unit, next_unit
from .placement.budget import Budget
from .queue.order import shares_now
from .scene import Scene, scene_of
from .victims.batch import DISPLACING, enact
from .victims.candidates import Step
from .victims.select import Batch, cost_of, select

MOST_PARTS = 16  # of an elastic job's surplus tasks, so many are tried to be taken


@dataclass(frozen=True, slots=True)
class Instead:
    """What would have come of it had `other` had to leave, or, being a victim, had it been spared.

    rule: the one because of which it could not leave; `absent`: it held no room then. chosen: it is a victim, and the rest
    says what would have been without it. jobs, cost: the cheapest set found under that condition; none: there is no such set,
    and `why` says so. needless: with `other` gone all of the chosen victims would have had to leave all the same. proven:
    nothing is cheaper.
    """

    other: str
    verb: Verb
    rule: str = ""
    chosen: bool = False
    jobs: tuple[str, ...] = ()
    cost: Cost | None = None
    chosen_cost: Cost | None = None
    needless: bool = False
    proven: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Next:
    """Whom the same asker would displace if it came once more. `verb`: by which; allocate: it would find room."""

    verb: str
    jobs: tuple[str, ...] = ()
    cost: Cost | None = None
    proven: bool = False
    why: str = ""


ABSENT = "absent"


def instead(pool: Pool, decision: Decided, answers: Sequence[Answer], other: str) -> Instead:
    """pool: as it was when the answers were computed; answers: of the same proposal. The pool is left as it was."""
    verb: Verb = decision.verb
    mine = [each for each in candidates(pool, decision, answers) if each.job == other and each.verb == verb]
    chosen_cost = decision.explanation.cost
    if not mine:
        return Instead(other, verb, ABSENT, chosen_cost=chosen_cost)
    if all(each.rule for each in mine):
        return Instead(other, verb, mine[0].rule, chosen_cost=chosen_cost)
    scene = scene_of(pool)
    mark = scene.mark()
    try:
        if any(each.chosen for each in mine):
            return _without(_batch(scene, pool, decision, answers), decision, other)
        return _with(scene, pool, decision, answers, other)
    finally:
        scene.rollback(mark)


def _without(batch: Batch, decision: Decided, other: str) -> Instead:
    """The cheapest set that spares a victim."""
    pool = batch.scene.pool
    batch.board.taken(pool.jobs[other], 0)
    answer = _searched(batch, pool.jobs[decision.asker.job], decision.verb)
    found = Instead(other, decision.verb, chosen=True, chosen_cost=decision.explanation.cost)
    if answer.refused is not None:
        return replace(found, proven=answer.explanation.proven, why=answer.would_need)
    jobs = tuple(choice.job for choice in answer.victims)
    return replace(found, jobs=jobs, cost=answer.explanation.cost, proven=answer.explanation.proven)


def _with(scene: Scene, pool: Pool, decision: Decided, answers: Sequence[Answer], other: str) -> Instead:
    """The cheapest set of which `other` is part: what of it may leave does, a part at a time, and the rest is searched for."""
    asker, job = pool.jobs[decision.asker.job], pool.jobs[other]
    best: Instead | None = None
    chosen = dict.fromkeys(choice.job for choice in getattr(decision, "victims", ()))
    for steps in _parts(_batch(scene, pool, decision, answers).board.field(decision.verb, asker).chains[other]):
        mark = scene.mark()
        batch = _batch(scene, pool, decision, answers)
        for step in steps:
            scene.evict(step.unit)
        batch.board.taken(job, 0 if steps[-1].whole else len(steps))
        answer = _searched(batch, asker, decision.verb)
        scene.rollback(mark)
        if answer.refused is not None:
            best = best or Instead(other, decision.verb, chosen_cost=decision.explanation.cost, why=answer.would_need)
            continue
        rest = dict.fromkeys(choice.job for choice in answer.victims)
        cost = together(cost_of(steps), answer.explanation.cost)
        if best is None or best.cost is None or cheaper(cost, best.cost):
            proven = answer.explanation.proven or not rest
            jobs = (other, *[name for name in rest if name != other])
            needless = bool(chosen) and all(name in rest for name in chosen)
            best = Instead(
                other,
                decision.verb,
                jobs=jobs,
                cost=cost,
                chosen_cost=decision.explanation.cost,
                needless=needless,
                proven=proven,
            )
    assert best is not None
    return best


def _parts(chain: Sequence[Step]) -> Iterator[Sequence[Step]]:
    for taken in range(1, min(len(chain), MOST_PARTS) + 1):
        yield chain[:taken]
    if len(chain) > MOST_PARTS:
        yield chain


def _batch(scene: Scene, pool: Pool, decision: Decided, answers: Sequence[Answer]) -> Batch:
    """As the search stood when it came to this asker: earlier answers are agreed to."""
    batch = Batch.on(scene, shares_now(scene), askers=max(1, len(answers)))
    for answer in before(decision, answers, decision.verb):
        unit = next_unit(pool.jobs[answer.job])
        if answer.refused is None and unit is not None:
            enact(batch, unit, answer)
    return batch


def _searched(batch: Batch, asker: Job, verb: Verb) -> Answer:
    unit = next_unit(asker)
    assert unit is not None
    return select(batch, unit, verb, Budget(batch.scene.pool.rules.preemption.search_steps))


def who_is_next(pool: Pool, asker: str) -> Next:
    """The victims of another job like this one, on the pool as it is. The pool is left as it was."""
    like = pool.jobs[asker]
    again = Job(
        f"{asker[:50]}.again", pool.seq + 1, pool.now, like.demand, like.class_name, like.priority, like.preemptible,
        like.may_preempt, like.spec_digest, like.project, like.base_priority, like.shape, waiting_since=pool.now, user=like.user,
    )  # fmt: skip
    unit = next_unit(again)
    assert unit is not None
    return _found_for(pool, unit)


def _found_for(pool: Pool, unit: Unit) -> Next:
    scene = scene_of(pool)
    mark, last = scene.mark(), Next("preempt")
    try:
        batch = Batch.on(scene)
        for verb in [verb for verb in DISPLACING if verb in pool.rules.preemption.verbs]:
            answer = select(batch, unit, verb, Budget(pool.rules.preemption.search_steps))
            if answer.refused is None:
                jobs = tuple(dict.fromkeys(choice.job for choice in answer.victims))
                return Next(answer.verb, jobs, answer.explanation.cost, answer.explanation.proven)
            last = Next(verb, proven=answer.explanation.proven, why=answer.would_need)
    finally:
        scene.rollback(mark)
    return last


# --- costs, level by level


def together(one: Cost, other: Cost | None) -> Cost:
    """Of both sets."""
    if other is None:
        return one
    classes: dict[int, int] = {}
    for each in (*one.classes, *other.classes):
        classes[each.priority] = classes.get(each.priority, 0) + each.gpu_milli
    return Cost(
        classes=tuple(ClassGpus(priority=priority, gpu_milli=classes[priority]) for priority in sorted(classes, reverse=True)),
        under_share_gpu_milli=one.under_share_gpu_milli + other.under_share_gpu_milli,
        lost_gpu_ms=one.lost_gpu_ms + other.lost_gpu_ms,
        jobs_stopped=one.jobs_stopped + other.jobs_stopped,
        tasks=one.tasks + other.tasks,
        broken_nodes=one.broken_nodes + other.broken_nodes,
    )


def levels(one: Cost, other: Cost) -> list[tuple[str, int, int]]:
    """The objective's levels in order, each with both sets' amounts. A class is named `priority N`."""
    of_one, of_other = ({each.priority: each.gpu_milli for each in cost.classes} for cost in (one, other))
    found = [
        (f"priority {priority}", of_one.get(priority, 0), of_other.get(priority, 0))
        for priority in sorted({**of_one, **of_other}, reverse=True)
    ]
    names = ("under_share_gpu_milli", "lost_gpu_ms", "jobs_stopped", "tasks", "broken_nodes")
    return [*found, *((name, getattr(one, name), getattr(other, name)) for name in names)]


def cheaper(one: Cost, other: Cost) -> bool:
    """Whether the first costs less: the first level decides at which they differ."""
    return next((left < right for _, left, right in levels(one, other) if left != right), False)
