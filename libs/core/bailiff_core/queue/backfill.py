"""Backfill: a job behind the head of the queue may start where it does not delay the head.

The head gets a future place: running jobs are taken to end in an order that only they themselves can change, and as few
of them as it needs are gone when it starts. What it then stands on is kept for it, unless a job has a run-time limit
and ends before. The jobs that have to end are the oldest and what starts meanwhile is younger, so from pass to pass
the head's turn comes nearer and never moves away, however many small jobs arrive.
"""

from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.resources import subtract
from bailiff_core.model.state import Job, Resources
from bailiff_core.model.units import Unit, whole_job
from bailiff_core.placement.cluster_resources import NodeResources
from bailiff_core.placement.feasibility import could_ever_fit
from bailiff_core.placement.gang import GangPlacement, NoFit, has_uniform_tasks, place_unit
from bailiff_core.placement.packing import ANYWHERE, has_capacity
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.placement.task_requirements import TaskRequirements, requirements_of_unit
from bailiff_core.scheduling_snapshot import SchedulingSnapshot
from bailiff_core.scheduling_snapshot.completion_forecast import NOBODY, End, in_order_of_end, known_end

Kept = tuple[str, dict[int, Resources], int | None]


class Backfill:
    """The place that is kept for `head`, the first unit that found no room (and is kept out by nothing else).

    It is looked for when it is first asked for. `starts`: when the head can start, µs; `None` where that depends on jobs
    without a run-time limit, or where no place was found and so none is kept. kept_out: shapes that found no place.
    """

    def __init__(self, snapshot: SchedulingSnapshot, head: Unit, budget: StepBudget) -> None:
        self._snapshot = snapshot
        self.head = head.job
        self._head = head
        self._budget = budget
        self._wanted = {need: len(indices) for need, indices in requirements_of_unit(head).items()}
        self._kept: dict[int, Resources] | None = None
        self._starts: int | None = None
        self._beside: dict[
            int, tuple[Resources, Resources]
        ] = {}  # by node, its room, and what of that is left beside what is kept
        self.kept_out: dict[str, None] = {}

    @property
    def known(self) -> bool:
        """Whether it has been looked for."""
        return self._kept is not None

    @property
    def kept(self) -> dict[int, Resources]:
        """What is kept for the head of the room that is, or is about to be, free: by node."""
        if self._kept is None:
            snapshot, pool = self._snapshot, self._snapshot.state
            found_for = (snapshot.version, pool.seq, pool.now, self._head.job.id, self._head.indices)
            if snapshot.kept is None or snapshot.kept[0] != found_for:
                self._kept = {}
                mark = snapshot.cluster.mark()
                self._look(mark)
                snapshot.cluster.rollback(mark)
                snapshot.kept = found_for, self._kept, self._starts
            _, self._kept, self._starts = snapshot.kept
        return self._kept

    @property
    def starts(self) -> int | None:
        """When the head can start."""
        return self._starts if self.kept else None

    def keeps(self) -> Kept:
        """For whom what is kept until when."""
        return self.head.id, self.kept, self.starts

    def place(self, unit: Unit, budget: StepBudget) -> GangPlacement | NoFit:
        """`place_unit` for a unit behind the head."""
        cluster = self._snapshot.cluster
        if not self.kept or self.over_before(unit):
            return place_unit(cluster, unit, budget)
        mark = cluster.mark()
        for number, room in self.kept.items():
            node = cluster.nodes[number]
            found_for = self._beside.get(number)
            if found_for is None or found_for[0] is not node.future:
                found_for = self._beside[number] = node.future, subtract(node.future, room, node.units)
            cluster.set_future(node, found_for[1])
        found = place_unit(cluster, unit, budget)
        cluster.rollback(mark)
        if isinstance(found, GangPlacement):
            cluster.place(unit, found)
        return found

    def over_before(self, unit: Unit) -> bool:
        """Whether the unit's job has a run-time limit and is over when the head starts."""
        limit, start = unit.job.demand.run_time_limit, unit.job.last_start
        if limit is None or self.starts is None:
            return False
        return (self._snapshot.state.now if start is None else start) + limit <= self.starts

    def _look(self, before: int) -> None:
        """Find the fewest jobs that have to end, and what the head then takes. Leaves the rooms changed."""
        if could_ever_fit(self._snapshot.state, self._head.job.demand) is not None:
            return
        endings = self._snapshot.endings
        last = NOBODY
        for need, count in self._wanted.items():
            end = NOBODY if need.shared else endings.enough_for(need, count)
            if end is None:
                return
            last = max(last, end)
        counts = has_uniform_tasks(self._head)
        found = self._counted(next(iter(self._wanted)), last) if counts else self._searched(endings.until(last))
        if found is None:
            return
        place, self._starts = found
        cluster = self._snapshot.cluster
        cluster.place(self._head, place)
        nodes = [cluster.nodes[number] for number in dict.fromkeys(task.node for task in place.tasks)]
        after = [node.future for node in nodes]
        cluster.rollback(before)
        self._kept = {node.number: what_to_keep(node, future) for node, future in zip(nodes, after, strict=True)}

    def _counted(self, need: TaskRequirements, last: End) -> tuple[GangPlacement, int | None] | None:
        """Where equal tasks stand after that end, the first after which they find room, and when that is; all who matter go."""
        endings = self._snapshot.endings
        if not self._budget.spend(endings.until(last)):
            return None
        for unit in endings.leaving(need, last):
            self._snapshot.cluster.evict(unit)
        place = self._fits()
        if place is None:
            return None
        end = self._snapshot.state.now if last == NOBODY else last.when()
        return place, None if end is None else max(end, self._snapshot.state.now)

    def _searched(self, least: int) -> tuple[GangPlacement, int | None] | None:
        """The same for others, who need at least so many to be gone: with twice as many, and so on, then between the two."""
        departures = _Departures(self._snapshot, self._budget)
        low = high = least
        if departures.let_go(least) < least:
            return None
        place = self._fits()
        while place is None:
            low = high + 1
            high = departures.let_go(max(1, 2 * high))
            if high < low:
                return None
            place = self._fits()
        while low < high:
            middle = (low + high) // 2
            departures.let_go(middle)
            found = self._fits()
            if found is None:
                low = middle + 1
            else:
                place, high = found, middle
        departures.let_go(high)
        return place, departures.last_end()

    def _fits(self) -> GangPlacement | None:
        cluster = self._snapshot.cluster
        if not all(has_capacity(cluster, need, count, ANYWHERE, future=True) for need, count in self._wanted.items()):
            return None
        mark = cluster.mark()
        found = place_unit(cluster, self._head, self._budget, reserve=True)
        cluster.rollback(mark)
        return found if isinstance(found, GangPlacement) else None


class _Departures:
    """Jobs of the snapshot let go one after the other, in the order in which they are taken to end."""

    def __init__(self, snapshot: SchedulingSnapshot, budget: StepBudget) -> None:
        self._snapshot = snapshot
        self._budget = budget
        self._order = in_order_of_end(snapshot.state)
        self._known: list[Job] = []
        self._marks = [snapshot.cluster.mark()]

    def let_go(self, count: int) -> int:
        """From now on the first `count` are gone. How many really are: there may be fewer, or the budget too small."""
        if count < len(self._marks):
            self._snapshot.cluster.rollback(self._marks[count])
            del self._marks[count + 1 :]
        while len(self._marks) <= count:
            at = len(self._marks) - 1
            if at == len(self._known):
                found = next(self._order, None)
                if found is None or not self._budget.spend():
                    break
                self._known.append(found)
            self._snapshot.cluster.evict(whole_job(self._known[at]))
            self._marks.append(self._snapshot.cluster.mark())
        return len(self._marks) - 1

    def last_end(self) -> int | None:
        """When the last of those that are gone ends, as far as that is known; now, where nobody had to go."""
        now, gone = self._snapshot.state.now, len(self._marks) - 1
        end = known_end(self._snapshot.state, self._known[gone - 1]) if gone else now
        return None if end is None else max(end, now)


def what_to_keep(node: NodeResources, after: Resources) -> Resources:
    """What has to be kept of the node's room for it to become `after`.

    Of equal devices those that are idle now stay free: the head takes the ones that others still use.
    """
    before, idle, devices = node.future, node.now().devices, after.devices
    shared = sum(1 << number for number in after.shares)
    for alike in node.models.values():
        given, others = idle & before.devices & ~devices & ~shared & alike, devices & ~idle & alike
        for one, other in zip(bits(given), bits(others), strict=False):
            devices ^= 1 << one | 1 << other
    kept = Resources(
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
