"""Backfill: a job behind the head of the queue may start where it does not delay the head.

The head gets a future placement: after the fewest expected completions with which it fits. Jobs that start later do not
change the relative order of completions of the running jobs. The resources of that placement are reserved for the head,
except against jobs whose run-time limit ends before the head starts. Jobs that start meanwhile are younger than those whose
completion the head needs, so where all jobs have a run-time limit, or none has, a stream of small jobs does not delay the
head. Where some have one, it delays the head by one limit at most (docs/concepts/semantics/placement.md).
"""

from dataclasses import dataclass

from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.resources import subtract
from bailiff_core.model.state import Job, Resources
from bailiff_core.model.units import Unit, whole_job
from bailiff_core.placement.cluster_resources import NodeResources, is_eligible
from bailiff_core.placement.gang import GangPlacement, NoFit, has_uniform_tasks, place_unit
from bailiff_core.placement.packing import ANYWHERE, has_capacity
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.placement.task_requirements import TaskRequirements, requirements_of_unit
from bailiff_core.quota.maintenance import on_open_nodes
from bailiff_core.scheduling_snapshot import SchedulingSnapshot
from bailiff_core.scheduling_snapshot.completion_order import ASSUMED_EVICTED, NO_COMPLETION, End, in_order_of_end, known_end

from .head import BackfilledVictims

Reserved = tuple[str, dict[int, Resources], int | None]


@dataclass(frozen=True, slots=True)
class _FuturePlace:
    """What is reserved for the head, by node; when it can start; whether it needs no more than evictions of backfilled jobs.

    ended: what is expected to be gone by then.
    """

    reserved: dict[int, Resources]
    starts: int | None = None
    by_evictions: bool = False
    ended: tuple[Unit, ...] = ()


NOTHING = _FuturePlace({})


class Backfill:
    """The reservation for `head`, the first unit that is pending only because free resources do not suffice.

    Computed on first use.

    Attributes:
        starts: When the head can start, µs; None if that depends on jobs without a run-time limit, or if no placement was found
            and nothing is reserved.
        victims: Jobs behind the head that it may evict once they are backfilled; those that are backfilled count as gone.
        unplaceable: Scheduling classes for which no placement was found.
    """

    def __init__(self, snapshot: SchedulingSnapshot, head: Unit, budget: StepBudget) -> None:
        self._snapshot = snapshot
        self.head = head.job
        self._head = head = on_open_nodes(snapshot.state, head)
        self._budget = budget
        self._wanted = {need: len(indices) for need, indices in requirements_of_unit(head).items()}
        self.victims = BackfilledVictims(snapshot, head)
        self._place: _FuturePlace | None = None
        # by node: its future free resources, and the part of them that is not reserved
        self._unreserved: dict[int, tuple[Resources, Resources]] = {}
        self.unplaceable: dict[str, None] = {}

    @property
    def known(self) -> bool:
        """Whether the reservation has been computed."""
        return self._place is not None

    @property
    def _future(self) -> _FuturePlace:
        if self._place is None:
            snapshot, state = self._snapshot, self._snapshot.state
            found_for = (snapshot.version, state.seq, state.now, self._head.job.id, self._head.indices)
            if snapshot.backfill_cache is None or snapshot.backfill_cache[0] != found_for:
                mark = snapshot.cluster.mark()
                found = self._find(mark)
                snapshot.cluster.rollback(mark)
                snapshot.backfill_cache = found_for, found
            cached = snapshot.backfill_cache[1]
            assert isinstance(cached, _FuturePlace)
            self._place = cached
        return self._place

    @property
    def reserved(self) -> dict[int, Resources]:
        """Free and releasing resources that are reserved for the head, by node."""
        return self._future.reserved

    @property
    def starts(self) -> int | None:
        """When the head can start."""
        return self._future.starts

    @property
    def starts_by_evictions(self) -> bool:
        """Whether the head fits once backfilled jobs are evicted for it, and not before."""
        least = self._least_completion()  # cheap, and in most cases enough
        return least is not None and least.moment <= ASSUMED_EVICTED and self._future.by_evictions

    def admits(self, job: Job) -> bool:
        """Whether this job may start on what is reserved: nothing says when the head starts, and it may evict the job then."""
        return (
            self._snapshot.state.rules.backfill == "preemptible"
            and self.starts is None
            and self.victims.would_permit(job, self._future.ended)
        )

    def is_backfilled(self, job: Job, place: GangPlacement) -> bool:
        """Whether the job, once it is placed there, may be evicted for the head, which could use one of these nodes."""
        nodes = [self._snapshot.cluster.nodes[number] for number in dict.fromkeys(task.node for task in place.tasks)]
        return (
            self._snapshot.state.rules.backfill == "preemptible"
            and any(is_eligible(need, node) for need in self._wanted for node in nodes)
            and self.victims.covers(job)
        )

    def reservation(self) -> Reserved:
        """The head's job id, the resources reserved for it by node, and its start, µs, if known."""
        return self.head.id, self.reserved, self.starts

    def find_place(self, unit: Unit, budget: StepBudget) -> GangPlacement | NoFit:
        """A placement of a unit behind the head that does not delay it. Nothing is allocated."""
        cluster = self._snapshot.cluster
        mark = cluster.mark()
        delaying = {} if self.completes_before_head(unit) else self.reserved
        for number, reserved in delaying.items():
            node = cluster.nodes[number]
            known = self._unreserved.get(number)
            # `future` is a new object whenever it changes.
            if known is None or known[0] is not node.future:
                known = self._unreserved[number] = node.future, subtract(node.future, reserved, node.units)
            cluster.set_future(node, known[1])
        found = place_unit(cluster, unit, budget)
        cluster.rollback(mark)
        return found

    def completes_before_head(self, unit: Unit) -> bool:
        """Whether the run-time limit of the unit's job ends before the head starts, or at that time."""
        limit, start = unit.job.demand.run_time_limit, unit.job.last_start
        if limit is None or self.starts is None:
            return False
        return (self._snapshot.state.now if start is None else start) + limit <= self.starts

    def _find(self, before: int) -> _FuturePlace:
        """Find the fewest completions that the head needs, and its resources then. The cluster resources are left changed."""
        last = self._least_completion()
        if last is None:
            return NOTHING
        forecast = self._snapshot.completion_forecast
        uniform = has_uniform_tasks(self._head)
        found = self._count(next(iter(self._wanted)), last) if uniform else self._search(forecast.count_until(last))
        if found is None:
            return NOTHING
        place, starts, by_evictions, ended = found
        cluster = self._snapshot.cluster
        cluster.place(self._head, place)
        nodes = [cluster.nodes[number] for number in dict.fromkeys(task.node for task in place.tasks)]
        after = [node.future for node in nodes]
        cluster.rollback(before)
        reserved = {node.number: resources_to_reserve(node, future) for node, future in zip(nodes, after, strict=True)}
        return _FuturePlace(reserved, starts, by_evictions, tuple(ended))

    def _least_completion(self) -> End | None:
        """The first completion after which the head can fit; that it does is certain for equal tasks only. `None`: never."""
        self._snapshot.assume_evicted(self.victims.now())
        forecast = self._snapshot.completion_forecast
        last = NO_COMPLETION
        for need, count in self._wanted.items():
            end = NO_COMPLETION if need.shared else forecast.first_fit(need, count)
            if end is None:
                return None
            last = max(last, end)
        return last

    def _count(self, need: TaskRequirements, last: End) -> tuple[GangPlacement, int | None, bool, list[Unit]] | None:
        """Placement of equal tasks after `last`, the first completion after which they fit, its time, µs, if known, whether it is
        an eviction of a backfilled job, and the jobs that have ended.
        """
        forecast = self._snapshot.completion_forecast
        if not self._budget.spend(forecast.count_until(last)):
            return None
        ended = forecast.completing(need, last)
        for unit in ended:
            self._snapshot.cluster.evict(unit)
        place = self._fits()
        if place is None:
            return None
        end = last.when()
        return place, None if end is None else max(end, self._snapshot.state.now), last.moment == ASSUMED_EVICTED, ended

    def _search(self, least: int) -> tuple[GangPlacement, int | None, bool, list[Unit]] | None:
        """The same for other units, which need at least `least` completions: the number is doubled, then bisected."""
        completions = _SimulatedCompletions(self._snapshot, self._budget)
        low = high = least
        if completions.simulate(least) < least:
            return None
        place = self._fits()
        while place is None:
            low = high + 1
            high = completions.simulate(max(1, 2 * high))
            if high < low:
                return None
            place = self._fits()
        while low < high:
            middle = (low + high) // 2
            completions.simulate(middle)
            found = self._fits()
            if found is None:
                low = middle + 1
            else:
                place, high = found, middle
        completions.simulate(high)
        return place, *completions.last_completion(), completions.ended()

    def _fits(self) -> GangPlacement | None:
        cluster = self._snapshot.cluster
        if not all(has_capacity(cluster, need, count, ANYWHERE, future=True) for need, count in self._wanted.items()):
            return None
        mark = cluster.mark()
        found = place_unit(cluster, self._head, self._budget, reserve=True)
        cluster.rollback(mark)
        return found if isinstance(found, GangPlacement) else None


class _SimulatedCompletions:
    """Simulates completions of the snapshot's jobs one after the other, in the order of the forecast."""

    def __init__(self, snapshot: SchedulingSnapshot, budget: StepBudget) -> None:
        self._snapshot = snapshot
        self._budget = budget
        self._order = in_order_of_end(snapshot.state)
        self._known: list[Job] = []
        self._marks = [snapshot.cluster.mark()]

    def simulate(self, count: int) -> int:
        """Simulate the first `count` completions. Returns their number: fewer if there are no more, or the budget is spent."""
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

    def ended(self) -> list[Unit]:
        """The jobs that have completed."""
        return [whole_job(job) for job in self._known[: len(self._marks) - 1]]

    def last_completion(self) -> tuple[int | None, bool]:
        """Time of the last simulated completion, µs, now if there is none, `None` if it is not known; and whether it is an
        eviction of a backfilled job.
        """
        now, completed = self._snapshot.state.now, len(self._marks) - 1
        end = known_end(self._snapshot.state, self._known[completed - 1]) if completed else now
        return None if end is None else max(end, now), end == ASSUMED_EVICTED


def resources_to_reserve(node: NodeResources, after: Resources) -> Resources:
    """Resources to reserve on the node so that its future free resources become `after`.

    Of equal devices those that are idle now stay free: the head gets the ones that are still in use.
    """
    before, idle, devices = node.future, node.now().devices, after.devices
    shared = sum(1 << number for number in after.shares)
    for equal in node.models.values():
        given, others = idle & before.devices & ~devices & ~shared & equal, devices & ~idle & equal
        for one, other in zip(bits(given), bits(others), strict=False):
            devices ^= 1 << one | 1 << other
    reserved = Resources(
        before.devices & ~devices,
        max(0, before.cpu_milli - after.cpu_milli),
        max(0, before.memory_bytes - after.memory_bytes),
        max(0, before.slots - after.slots),
    )
    for number in {**before.shares, **after.shares}:
        if number not in node.units:
            continue
        left = node.units[number] if devices >> number & 1 else after.shares.get(number, 0)
        if before.devices >> number & 1:
            reserved.devices &= ~(1 << number)
            reserved.shares[number] = node.units[number] - left
        elif before.shares.get(number, 0) > left:
            reserved.shares[number] = before.shares[number] - left
    return reserved
