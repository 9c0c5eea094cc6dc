"""Answers all requests of a selection: verb by verb over all of them, each on the result of the ones before."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from bailiff_core.model.answer import Answer, Tried, VictimChoice
from bailiff_core.model.places import numbers
from bailiff_core.model.policy import VERBS, Verb
from bailiff_core.model.pool import Job, OpenRequest, Pool
from bailiff_core.model.units import Unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import GangPlace
from bailiff_core.placement.shares import from_shares
from bailiff_core.queue.order import Pass
from bailiff_core.scene import scene_of

from .candidates import units_that_leave
from .select import Batch, select

DISPLACING: tuple[Verb, ...] = VERBS[1:]
LONGEST_NEED = 600


def select_batch(pool: Pool, requests: Sequence[OpenRequest], steps: int) -> list[Answer]:
    """One answer per request, in the order given. Each has `steps` of its own for each verb. `pool` is only read."""
    scene = scene_of(pool)
    mark = scene.mark()
    try:
        return _answers(Batch.on(scene, askers=len(requests)), requests, steps)
    finally:
        scene.rollback(mark)


def _answers(batch: Batch, requests: Sequence[OpenRequest], steps: int) -> list[Answer]:
    pool = batch.scene.pool
    of_job = {request.job: request for request in requests}
    answers: dict[int, Answer] = {}
    refusals: dict[int, list[Answer]] = {}
    verbs = [verb for verb in DISPLACING if verb in pool.rules.preemption.verbs] or ["preempt"]
    waiting = [pool.jobs[request.job] for request in requests if request.job in pool.jobs]
    for verb in verbs:
        turn = Pass(batch.scene, [job for job in waiting if of_job[job.id].seq not in answers], batch.shares)
        while (unit := turn.next()) is not None:
            request = of_job[unit.job.id]
            if unit.job.held_because is not None or unit.job.phase not in ("pending", "starting", "running"):
                continue
            answer = select(batch, unit, verb, Budget(steps), request=request.seq)
            if answer.refused is None:
                answers[request.seq] = answer
                enact(batch, unit, answer)
            else:
                refusals.setdefault(request.seq, []).append(answer)
    return [_told(request, answers.get(request.seq), refusals.get(request.seq, [])) for request in requests]


def enact(batch: Batch, unit: Unit, answer: Answer) -> None:
    """The answer is agreed to: later ones are found on its result."""
    scene = batch.scene
    batch.decided = True
    nodes: dict[int, None] = {}
    for choice in answer.victims:
        job = scene.pool.jobs[choice.job]
        gone = {index: None for unit in batch.earlier if unit.job is job for index in unit.indices}
        units = victims_of(job, choice, gone)
        nodes.update((task.node, None) for task in job.tasks)  # also where its other members stand: they leave sooner now
        for leaving in units:
            scene.evict(leaving)
        if choice.moved:
            places = from_shares(job, choice.moved, choice.movers)
            staying = Unit(job, tuple(place.index for place in places), core=not choice.tasks)
            moved = GangPlace(tuple(places), later=True)
            nodes.update((task.node, None) for task in moved.tasks)
            scene.place(staying, moved)
        batch.earlier += units
        batch.board.taken(job, 0 if choice.moved or not choice.tasks else len(units))
    place = GangPlace(tuple(from_shares(unit.job, answer.placement, unit.indices)), later=True)
    nodes.update((task.node, None) for task in place.tasks)
    scene.place(unit, place)
    for slots in batch.slots.values():
        slots.touch(nodes)


def victims_of(job: Job, choice: VictimChoice, gone: Mapping[int, None] = MappingProxyType({})) -> list[Unit]:
    """The units that the choice names: the first of what the job can lose, after the members that are `gone` already.

    Raises `ValueError` where it does not name such.
    """
    units = [unit for unit in units_that_leave(job) if not all(index in gone for index in unit.indices)]
    if not choice.tasks:
        return units
    wanted = sorted(numbers(choice.tasks))
    taken: list[Unit] = []
    for unit in units:
        taken.append(unit)
        if sorted(index for unit in taken for index in unit.indices) == wanted and not unit.core:
            return taken
    raise ValueError(f"tasks {choice.tasks} of {job.id!r} are not what it would lose first")


def _told(request: OpenRequest, agreed: Answer | None, refused: Sequence[Answer]) -> Answer:
    """The verb's answer that found room, else the last that searched, with what the others that searched lacked.

    Refused is gave-up where one of them gave up.
    """
    if agreed is None and not refused:
        gone = "the job does not wait for room any more"
        return Answer(request=request.seq, job=request.job, refused="impossible", would_need=gone)
    searched = [answer for answer in refused if answer.explanation.candidates or answer.explanation.excluded]
    told = agreed or (searched or refused)[-1]
    if agreed is None and any(answer.refused == "gave-up" for answer in searched):
        told = told.model_copy(update={"refused": "gave-up"})
    tried = tuple(_tried(answer) for answer in searched if answer.verb != told.verb)
    return told.model_copy(update={"explanation": told.explanation.model_copy(update={"tried": tried})}) if tried else told


def _tried(answer: Answer) -> Tried:
    why = answer.explanation
    assert answer.verb != "allocate"
    assert answer.refused is not None
    return Tried(
        verb=answer.verb,
        refused=answer.refused,
        would_need=answer.would_need[:LONGEST_NEED],
        candidates=why.candidates,
        excluded=why.excluded,
    )
