"""Looks an answer over when it comes back: the pool may have moved on since it was computed."""

from collections.abc import Sequence
from dataclasses import dataclass

from bailiff_core.model.answer import Answer, VictimChoice
from bailiff_core.model.places import NodeShare, numbers, ranges
from bailiff_core.model.pool import Job, Pool, Task
from bailiff_core.model.room import contains
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.placement.domains import key_of
from bailiff_core.placement.gang import GangPlace, TaskPlace
from bailiff_core.placement.need import needs_of_unit
from bailiff_core.placement.parts import Part, parts_of
from bailiff_core.placement.rooms import Rooms, suits
from bailiff_core.placement.shares import from_shares, to_shares
from bailiff_core.protections import Shields
from bailiff_core.queue.gates import Shares, over_limit
from bailiff_core.scene import Scene

from .batch import victims_of
from .objective import Price, price
from .terms import Terms, why_not_ask


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer holds. `victims` are still needed, their losses as of now; `dropped` are gone or needed no more."""

    unit: Unit
    victims: tuple[VictimChoice, ...]
    dropped: tuple[str, ...]
    placement: tuple[NodeShare, ...]


@dataclass(frozen=True, slots=True)
class Stale:
    """The answer does not hold on the pool as it is."""

    reason: str


@dataclass(slots=True)
class _Victim:
    """One victim as it is now: what leaves of it, unit by unit, and which of its members have a new place."""

    pool: Pool
    job: Job
    units: list[Unit]
    moved: dict[int, TaskPlace]

    def whole(self) -> Unit:
        """All that leaves, as one."""
        return Unit(self.job, tuple(sorted(index for unit in self.units for index in unit.indices)), self.units[-1].core)

    def goes(self) -> list[Unit]:
        """What goes to a new place or does not, the last to leave first: the job as one, of surplus each unit by itself."""
        return [self.whole()] if self.units[-1].core else self.units[::-1]

    def price(self) -> Price:
        """What it costs as of now."""
        return price(self.pool, self.job, _tasks(self.job, self.units), whole=self.units[-1].core)

    def value(self) -> tuple[int, Price, int, str]:
        """The most valuable sorts last."""
        return (self.job.priority, self.price(), -self.job.seq, self.job.id)

    def choice(self) -> VictimChoice:
        """The victim as it goes into the record."""
        job, indices = self.job, [index for unit in self.units for index in unit.indices]
        cost = self.price()
        return VictimChoice(
            job=job.id,
            attempt=job.attempt,
            priority=job.priority,
            gpus=sum(job.group(index).gpu_milli for index in indices) // 1000,
            lost_gpu_ms=cost.lost_gpu_ms,
            reserved=bool(cost.promises),
            class_name=job.class_name,
            project=job.project,
            tasks="" if self.units[-1].core else ranges(indices),
            moved=to_shares(GangPlace(tuple(self.moved.values()), later=True)),
        )


def check_answer(scene: Scene, shares: Shares, asker: Job, answer: Answer) -> Accepted | Stale:
    """Whether the answer (not a refusal) still holds, for the placement it names. The scene stays as it was."""
    mark = scene.mark()
    try:
        return _check(scene, shares, asker, answer)
    except ValueError as error:
        return Stale(str(error))
    finally:
        scene.rollback(mark)


def _check(scene: Scene, shares: Shares, asker: Job, answer: Answer) -> Accepted | Stale:
    if answer.refused is not None or answer.job != asker.id:
        return Stale("the answer is a refusal or about another job")
    unit = next_unit(asker)
    if unit is None or asker.phase not in ("pending", "starting", "running") or bool(answer.tasks) != bool(asker.tasks):
        return Stale(f"{asker.id!r} does not wait for room any more")
    if answer.tasks and sorted(numbers(answer.tasks)) != sorted(unit.indices):
        return Stale(f"{asker.id!r} asks for other tasks now")
    try:
        place = GangPlace(tuple(from_shares(asker, answer.placement, unit.indices)), later=True)
    except ValueError as error:
        return Stale(f"the placement makes no sense: {error}")
    if answer.verb == "allocate" or not answer.victims:
        problem = over_limit(scene, unit, place) or _obstacle(scene.rooms, unit, place)
        return Stale(problem) if problem else Accepted(unit, (), (), answer.placement)
    why = why_not_ask(scene, shares, unit, answer.verb)
    if why is not None:
        return Stale(f"{asker.id!r} may not have room made for it any more: {why}")
    terms = Terms(scene, shares, unit, answer.verb)
    dropped: list[str] = []
    victims = _present(scene, asker, answer, dropped)
    if isinstance(victims, Stale):
        return victims
    rooms = scene.rooms
    for victim in victims:
        for one in victim.units:
            rooms.evict(one)
    problem = _obstacle(rooms, unit, place)
    if problem is not None:
        return Stale(problem)
    rooms.place(unit, place)
    if answer.verb == "consolidate":
        problem = _moved_together(rooms, victims, dropped)
        if problem is not None:
            return Stale(problem)
        victims = [victim for victim in victims if victim.units]
    else:
        victims = _filled_back(rooms, victims, dropped, terms, place)
        for victim in victims:
            _move(rooms, victim, at_all=not terms.bounded)
    if answer.verb == "consolidate" and 0 <= scene.pool.rules.preemption.most_moved < len(victims):
        return Stale("the policy does not let so many jobs be moved")
    leaving = [one for victim in victims for one in victim.units]
    moved = {victim.job.id: victim.moved for victim in victims}
    taken = [one for one in leaving if not all(index in moved.get(one.job.id, ()) for index in one.indices)]
    problem = terms.above_limit(taken, place) or terms.forbids(leaving, taken) or terms.objects(taken)
    if problem is not None:
        return Stale(problem)
    return Accepted(unit, tuple(victim.choice() for victim in victims), tuple(dropped), answer.placement)


def _present(scene: Scene, asker: Job, answer: Answer, dropped: list[str]) -> list[_Victim] | Stale:
    """The victims as they are now. Those that left by themselves, or are on their way out already, are dropped."""
    pool = scene.pool
    shields = Shields(pool, answer.verb, asker)
    found: dict[str, _Victim] = {}
    for choice in answer.victims:
        job = pool.jobs.get(choice.job)
        if choice.job in found or choice.job in dropped:
            return Stale(f"victim {choice.job!r} is named twice")
        if job is None or job.attempt != choice.attempt or job.phase not in ("reserved", "starting", "running"):
            dropped.append(choice.job)
            continue
        units = victims_of(job, choice)
        if not units:
            dropped.append(choice.job)
            continue
        if choice.reserved and any(task.state != "reserved" for task in _tasks(job, units)):
            return Stale(f"victim {job.id!r} has started since")
        for unit in units:
            rule = shields.excluded_by(unit)
            if rule is not None:
                return Stale(f"victim {job.id!r} is shielded by the rule {rule!r} now")
        moved = from_shares(job, choice.moved, choice.movers)
        leaves = dict.fromkeys(index for unit in units for index in unit.indices)
        found[job.id] = _Victim(pool, job, units, {place.index: place for place in moved if place.index in leaves})
    return list(found.values())


def _filled_back(rooms: Rooms, victims: Sequence[_Victim], dropped: list[str], terms: Terms, place: GangPlace) -> list[_Victim]:
    """Who fits in its own place after all stays, the most valuable first; the asker stands in `rooms`.

    A job that was to move whole stays whole or moves whole: to lose a part of it is another thing, which may not be allowed.
    """
    for victim in sorted(victims, key=lambda victim: victim.value(), reverse=True):
        if victim.moved and victim.units[-1].core and not rooms.has_place_for(victim.whole()):
            continue
        while victim.units and rooms.has_place_for(victim.units[-1]):
            unit = victim.units.pop()
            if terms.bounded and terms.above_limit([one for each in victims for one in each.units], place):
                victim.units.append(unit)
                break
            rooms.put_back(unit)
            for index in unit.indices:
                victim.moved.pop(index, None)
        if not victim.units:
            dropped.append(victim.job.id)
    return [victim for victim in victims if victim.units]


def _move(rooms: Rooms, victim: _Victim, *, at_all: bool = True) -> str | None:
    """Take the victim's new places; those that cannot be had are forgotten. What stands in the way of the last such one."""
    problem: str | None = None
    for unit in victim.goes():
        if not any(index in victim.moved for index in unit.indices):
            continue
        if not at_all or not all(index in victim.moved for index in unit.indices):
            obstacle: str | None = "not all of it has one"
        else:
            there = GangPlace(tuple(victim.moved[index] for index in unit.indices), later=True)
            obstacle = _obstacle(rooms, unit, there)
            if obstacle is None:
                rooms.place(unit, there)
                continue
        problem = obstacle
        for index in unit.indices:
            victim.moved.pop(index, None)
    return problem


def _moved_together(rooms: Rooms, victims: Sequence[_Victim], dropped: list[str]) -> str | None:
    """Everybody takes the new place of the plan; who could stay at its own after all does. Or why that is not to be had."""
    for victim in victims:
        problem = _move(rooms, victim)
        if len(victim.moved) < len(victim.whole().indices):
            return f"there is no new place for {victim.job.id!r}: {problem or 'the plan has none'}"
    for victim in sorted(victims, key=lambda victim: victim.value(), reverse=True):
        while victim.units:
            unit = victim.goes()[0]
            if not rooms.has_place_for(unit):
                break
            rooms.put_back(unit)  # its new place stays taken: nobody else is to count on it
            del victim.units[0 if unit.core else -1 :]
            for index in unit.indices:
                del victim.moved[index]
        if not victim.units:
            dropped.append(victim.job.id)
    return None


def _obstacle(rooms: Rooms, unit: Unit, place: GangPlace) -> str | None:
    """Why the unit cannot stand exactly there, or `None`."""
    mark = rooms.mark()
    need_of = {index: need for need, indices in needs_of_unit(unit).items() for index in indices}
    problem = None
    for task in place.tasks:
        need, node = need_of[task.index], rooms.nodes.get(task.node)
        if node is None:
            problem = f"node {task.node} takes no tasks now"
        elif not suits(need, node) or task.devices & ~node.devices_of(need.models):
            problem = f"task {task.index} may not stand on {node.name} with these devices"
        elif not contains(node.later, need.amount(node.units, task.devices)):
            problem = f"there is no room for task {task.index} on {node.name}"
        else:
            rooms.take(node, need.amount(node.units, task.devices), later=True)
            continue
        break
    rooms.rollback(mark)
    return problem or _apart(rooms, parts_of(unit, rooms.policy), {task.index: task.node for task in place.tasks})


def _apart(rooms: Rooms, part: Part, node_of: dict[int, int]) -> str | None:
    """Which of a topology's levels is not kept by members that must stand together, or `None`."""
    rule = part.rule
    if rule is not None and rule.required is not None:
        level = rule.required + 1
        nodes = [*part.standing, *(node_of[index] for indices in part.wanted().values() for index in indices)]
        keys = dict.fromkeys(key_of(rooms.nodes[node].labels, rule.levels[:level]) for node in nodes if node in rooms.nodes)
        if len(keys) != 1 or len(next(iter(keys))) < level:
            return f"the tasks do not stand together at the level {rule.levels[rule.required]!r} any more"
    return next((told for told in (_apart(rooms, inner, node_of) for inner in part.parts) if told), None)


def _tasks(job: Job, units: Sequence[Unit]) -> list[Task]:
    found = [job.task(index) for unit in units for index in unit.indices]
    return [task for task in found if task is not None]
