"""Looks an answer over when it comes back: the pool may have moved on since it was computed."""

from dataclasses import dataclass

from bailiff_core.model.answer import Answer, VictimChoice
from bailiff_core.model.places import NodeShare
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.room import contains
from bailiff_core.model.units import whole
from bailiff_core.placement.gang import GangPlace, TaskPlace
from bailiff_core.placement.need import needs_of
from bailiff_core.placement.rooms import Rooms
from bailiff_core.placement.shares import from_shares
from bailiff_core.protections import excluded_by

from .objective import loss, weigh
from .select import pool_rules


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer holds. `victims` are still needed, their losses as of now; `dropped` are gone or needed no more."""

    victims: tuple[VictimChoice, ...]
    dropped: tuple[str, ...]
    placement: tuple[NodeShare, ...]


@dataclass(frozen=True, slots=True)
class Stale:
    """The answer does not hold on the pool as it is."""

    reason: str


def check_answer(pool: Pool, rooms: Rooms, asker: Job, answer: Answer) -> Accepted | Stale:
    """Whether the answer (not a refusal) still holds, for the placement it names. `rooms` stays as it was."""
    mark = rooms.mark()
    try:
        return _check(pool, rooms, asker, answer)
    finally:
        rooms.rollback(mark)


def _check(pool: Pool, rooms: Rooms, asker: Job, answer: Answer) -> Accepted | Stale:
    rules = pool_rules(pool)
    if answer.refused is not None or answer.job != asker.id:
        return Stale("the answer is a refusal or about another job")
    if asker.phase != "pending":
        return Stale(f"{asker.id!r} does not wait for room any more")
    if answer.victims and not (asker.may_preempt and "preempt" in rules.verbs):
        return Stale(f"{asker.id!r} may not displace others")
    try:
        place = GangPlace(tuple(from_shares(asker, answer.placement)), later=True)
    except ValueError as error:
        return Stale(f"the placement makes no sense: {error}")
    victims: list[Job] = []
    choices: dict[str, VictimChoice] = {}
    dropped: list[str] = []
    for choice in answer.victims:
        job = pool.jobs.get(choice.job)
        if choice.job in choices or choice.job in dropped:
            return Stale(f"victim {choice.job!r} is named twice")
        if job is None or job.attempt != choice.attempt or job.phase not in ("reserved", "starting", "running"):
            dropped.append(choice.job)  # it left by itself, or is on its way out already
            continue
        if choice.reserved and job.phase != "reserved":
            return Stale(f"victim {job.id!r} has started since")
        rule = excluded_by(pool, "preempt", asker, whole(job))
        if rule is not None:
            return Stale(f"victim {job.id!r} is shielded by the rule {rule!r} now")
        victims.append(job)
        choices[job.id] = VictimChoice(
            job=job.id,
            attempt=job.attempt,
            priority=job.priority,
            gpus=job.gpus,
            lost_gpu_ms=loss(pool, rules, job),
            reserved=job.phase == "reserved",
        )
    for job in victims:
        rooms.evict(whole(job))
    problem = _obstacle(rooms, asker, place)
    if problem is not None:
        return Stale(problem)
    rooms.place(whole(asker), place)
    weights = weigh(pool, rules, victims)
    for job in sorted(victims, key=lambda job: weights[job.id], reverse=True):
        if rooms.has_place_for(whole(job)):
            rooms.put_back(whole(job))
            del choices[job.id]
            dropped.append(job.id)
    return Accepted(tuple(choices.values()), tuple(dropped), answer.placement)


def _obstacle(rooms: Rooms, asker: Job, place: GangPlace) -> str | None:
    """Why the gang cannot stand exactly there, or `None`."""
    mark = rooms.mark()
    need_of = {index: need for need, indices in needs_of(asker.demand).items() for index in indices}
    by_node: dict[int, list[TaskPlace]] = {}
    for task in place.tasks:
        by_node.setdefault(task.node, []).append(task)
    problem = None
    for number, tasks in by_node.items():
        node = rooms.nodes.get(number)
        if node is None:
            problem = f"node {number} takes no tasks now"
            break
        for task in tasks:
            need = need_of[task.index]
            suited = dict(rooms.suited(need)).get(node)
            if suited is None or task.devices & ~suited:
                problem = f"task {task.index} may not stand on {node.name} with these devices"
                break
            amount = need.amount(node.units, task.devices)
            if not contains(node.later, amount):
                problem = f"there is no room for task {task.index} on {node.name}"
                break
            rooms.take(node, amount, later=True)
    rooms.rollback(mark)
    return problem
