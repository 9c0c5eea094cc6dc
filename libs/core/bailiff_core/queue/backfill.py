"""Backfill: a job behind the head of the queue may start where it does not delay the head.

The head gets a future place: running jobs are taken to end in an order that only they themselves can change, and as few
of them as it needs are gone when it starts. What it then stands on is kept for it, unless a job has a run-time limit
and ends before. The jobs that have to end are the oldest and what starts meanwhile is younger, so from pass to pass
the head's turn comes nearer and never moves away, however many small jobs arrive.
"""

from collections.abc import Iterator
from heapq import merge

import numpy as np

from bailiff_core.lifecycle.agenda import KNOWN_END, UNKNOWN_END, Key, agenda_of
from bailiff_core.model.places import bits
from bailiff_core.model.pool import Job, Pool, Room
from bailiff_core.model.units import Unit, whole
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.ever import could_ever_fit
from bailiff_core.placement.gang import GangPlace, NoFit, place_unit
from bailiff_core.placement.need import needs_of_unit
from bailiff_core.placement.packing import ANYWHERE, has_room
from bailiff_core.placement.parts import has_rules
from bailiff_core.placement.rooms import NodeRoom, slots_for
from bailiff_core.placement.tally import tally_of
from bailiff_core.scene import Scene

Kept = tuple[str, dict[int, Room], int | None]


class Backfill:
    """The place that is kept for `head`, the first unit that found no room (and is kept out by nothing else).

    It is looked for when it is first asked for. `starts`: when the head can start, µs; `None` where that depends on jobs
    without a run-time limit, or where no place was found and so none is kept. kept_out: shapes that found no place.
    """

    def __init__(self, scene: Scene, head: Unit, budget: Budget) -> None:
        self._scene = scene
        self.head = head.job
        self._head = head
        self._budget = budget
        self._wanted = {need: len(indices) for need, indices in needs_of_unit(head).items()}
        self._kept: dict[int, Room] | None = None
        self._starts: int | None = None
        self.kept_out: dict[str, None] = {}

    @property
    def kept(self) -> dict[int, Room]:
        """What is kept for the head of the room that is, or is about to be, free: by node."""
        if self._kept is None:
            self._kept = {}
            mark = self._scene.rooms.mark()
            self._look()
            self._scene.rooms.rollback(mark)
        return self._kept

    @property
    def starts(self) -> int | None:
        """When the head can start."""
        return self._starts if self.kept else None

    def keeps(self) -> Kept:
        """For whom what is kept until when."""
        return self.head.id, self.kept, self.starts

    def place(self, unit: Unit, budget: Budget) -> GangPlace | NoFit:
        """`place_unit` for a unit behind the head."""
        rooms = self._scene.rooms
        if not self.kept or self.over_before(unit):
            return place_unit(rooms, unit, budget)
        mark = rooms.mark()
        for number, room in self.kept.items():
            rooms.take(rooms.nodes[number], room, later=True)
        found = place_unit(rooms, unit, budget)
        rooms.rollback(mark)
        if isinstance(found, GangPlace):
            rooms.place(unit, found)
        return found

    def over_before(self, unit: Unit) -> bool:
        """Whether the unit's job has a run-time limit and is over when the head starts."""
        limit, start = unit.job.demand.run_time_limit, unit.job.last_start
        if limit is None or self.starts is None:
            return False
        return (self._scene.pool.now if start is None else start) + limit <= self.starts

    def _look(self) -> None:
        """Find the fewest jobs that have to end, and what the head then takes. Leaves the rooms changed."""
        if could_ever_fit(self._scene.pool, self._head.job.demand) is not None:
            return
        endings = _Endings(self._scene, self._budget)
        low = high = self._counted(endings)
        place = self._fits()
        while place is None:
            low = high + 1
            high = endings.let_go(max(1, 2 * high))
            if high < low:
                return
            place = self._fits()
        while low < high:
            middle = (low + high) // 2
            endings.let_go(middle)
            found = self._fits()
            if found is None:
                low = middle + 1
            else:
                place, high = found, middle
        endings.let_go(high)
        self._starts = endings.last_end()
        rooms = self._scene.rooms
        rooms.place(self._head, place)
        nodes = [rooms.nodes[number] for number in dict.fromkeys(task.node for task in place.tasks)]
        after = [node.later for node in nodes]
        endings.let_go(0)
        self._kept = {node.number: _difference(node, later) for node, later in zip(nodes, after, strict=True)}

    def _counted(self, endings: "_Endings") -> int:
        """How many have to be gone for equal tasks to have slots, as far as that can be counted node by node; they are gone.

        With fewer there is no place.
        """
        need, wanted = next(iter(self._wanted.items()))
        if len(self._wanted) > 1 or not need.gpus or need.nodes or has_rules(self.head.demand):
            return 0
        rooms, tally = self._scene.rooms, tally_of(self._scene.rooms, need)
        slots: dict[int, int] = {}
        for at in np.flatnonzero(tally.free >= need.gpus).tolist():
            node, devices = tally.suited[at]
            slots[at] = slots_for(need, node, node.later, devices)
        missing, gone = wanted - sum(slots.values()), 0
        while missing > 0 and endings.let_go(gone + 1) > gone:
            gone += 1
            for node, _ in rooms.standing(endings.last()):
                place = tally.place_of.get(node.number)
                if place is not None:
                    now = slots_for(need, node, node.later, tally.suited[place][1])
                    missing -= now - slots.get(place, 0)
                    slots[place] = now
        return gone

    def _fits(self) -> GangPlace | None:
        rooms = self._scene.rooms
        if not all(has_room(rooms, need, count, ANYWHERE, later=True) for need, count in self._wanted.items()):
            return None
        mark = rooms.mark()
        found = place_unit(rooms, self._head, self._budget, promised=True)
        rooms.rollback(mark)
        return found if isinstance(found, GangPlace) else None


class _Endings:
    """Jobs of the scene let go one after the other, in the order in which they are taken to end."""

    def __init__(self, scene: Scene, budget: Budget) -> None:
        self._scene = scene
        self._budget = budget
        self._order = _in_order_of_end(scene.pool)
        self._known: list[tuple[Job, int | None]] = []
        self._marks = [scene.rooms.mark()]

    def let_go(self, count: int) -> int:
        """From now on the first `count` are gone. How many really are: there may be fewer, or the budget too small."""
        if count < len(self._marks):
            self._scene.rooms.rollback(self._marks[count])
            del self._marks[count + 1 :]
        while len(self._marks) <= count:
            at = len(self._marks) - 1
            if at == len(self._known):
                found = next(self._order, None)
                if found is None or not self._budget.spend():
                    break
                self._known.append(found)
            self._scene.rooms.evict(whole(self._known[at][0]))
            self._marks.append(self._scene.rooms.mark())
        return len(self._marks) - 1

    def last(self) -> Unit:
        """Who was let go last."""
        return whole(self._known[len(self._marks) - 2][0])

    def last_end(self) -> int | None:
        """When the last of those that are gone ends, as far as that is known; now, where nobody had to go."""
        now, gone = self._scene.pool.now, len(self._marks) - 1
        end = self._known[gone - 1][1] if gone else now
        return None if end is None else max(end, now)


def _in_order_of_end(pool: Pool) -> Iterator[tuple[Job, int | None]]:
    """Jobs with a run-time limit by their end; then the others, the one that runs longest first; then promised ones.

    Whoever is just being started ends so long from now. Jobs that are leaving are room to come already.
    """
    starting = [pool.jobs[name] for name in pool.starting]
    begun: list[Key] = sorted(_begins(pool.now, job) for job in starting if job.phase == "starting")
    for rank, moment, _, name in merge(agenda_of(pool).endings, begun):
        yield pool.jobs[name], moment if rank == KNOWN_END else None
    promised = [job for name in pool.reserved if (job := pool.jobs[name]).phase == "reserved"]
    for job in sorted(promised, key=lambda job: (job.seq, job.id)):
        yield job, None


def _begins(now: int, job: Job) -> Key:
    limit = job.demand.run_time_limit
    return (UNKNOWN_END, now, job.seq, job.id) if limit is None else (KNOWN_END, now + limit, job.seq, job.id)


def _difference(node: NodeRoom, after: Room) -> Room:
    """What has to be kept of the node's room for it to become `after`.

    Of equal devices those that are idle now stay free: the head takes the ones that others still use.
    """
    before, idle, devices = node.later, node.now().devices, after.devices
    shared = sum(1 << number for number in after.shares)
    for alike in node.models.values():
        given, others = idle & before.devices & ~devices & ~shared & alike, devices & ~idle & alike
        for one, other in zip(bits(given), bits(others), strict=False):
            devices ^= 1 << one | 1 << other
    kept = Room(
        before.devices & ~devices,
        max(0, before.cpu_milli - after.cpu_milli),
        max(0, before.memory_bytes - after.memory_bytes),
        max(0, before.slots - after.slots),
    )
    for number in {**before.shares, **after.shares}:
        if number not in node.units:
            continue
        left = node.units[number] if devices >> number & 1 else after.shares.get(number, 0)
        if before.devices >> number & 1 and number in after.shares:
            kept.devices &= ~(1 << number)
            kept.shares[number] = node.units[number] - left
        elif before.shares.get(number, 0) > left:
            kept.shares[number] = before.shares[number] - left
    return kept
