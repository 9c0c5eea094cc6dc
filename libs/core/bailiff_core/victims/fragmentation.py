"""Fragmentation: the nodes of which a set of victims releases GPUs while other work stays on their devices.

A node counts once, however many victims run on it, and not at all if the set empties it. So this level of the objective is
no sum over the victims: their weights leave it out, and the searches add it for each set.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from bailiff_core.model.gpu_shares import share_of, shares_devices
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.model.units import Unit, allocated_tasks
from bailiff_core.placement.gang import GangPlacement

from .objective import CostScale


class NodeUse(NamedTuple):
    """Devices of one node that tasks use: whole devices, plus units of shares. released: some of the tasks have started."""

    node: int
    amount: int
    released: bool


Uses = tuple[NodeUse, ...]


class Evictable(Protocol):
    """A step of victim search: its weight without fragmentation, and the devices that its tasks use."""

    @property
    def weight(self) -> int: ...
    @property
    def uses(self) -> Uses: ...


def node_uses(state: PoolState, job: Job, tasks: Iterable[Task]) -> Uses:
    """What these tasks of the job use, by node."""
    found: dict[int, NodeUse] = {}
    for task in tasks:
        if not task.devices:
            continue
        group = job.group(task.index)
        if shares_devices(group):
            devices = state.nodes[task.node].devices
            amount = sum(share_of(group, devices[number]) for number in bits(task.devices))
        else:
            amount = task.devices.bit_count()
        released = task.state != "reserved"
        before = found.get(task.node)
        if before is not None:
            amount, released = amount + before.amount, released or before.released
        found[task.node] = NodeUse(task.node, amount, released)
    return tuple(found.values())


class Fragmentation:
    """Counts the fragmented nodes of victim sets, in the pool as it is after the earlier answers of the batch.

    per_node: weight of one node. above: lowest weight of the next higher level.
    """

    def __init__(self, state: PoolState, scale: CostScale) -> None:
        self._state = state
        self._in_use: dict[int, int] = {}
        self.above, self.per_node = scale.of_level[1], scale.of_level[0]

    def in_use(self, number: int) -> int:
        """Use of the node's devices by tasks that are not being evicted, and by reservations: as in `NodeUse.amount`."""
        found = self._in_use.get(number)
        if found is None:
            node = self._state.nodes[number]
            whole = node.allocated.devices & ~node.releasing.devices | node.reserved.devices
            shares = sum(node.allocated.shares.values()) + sum(node.reserved.shares.values())
            found = self._in_use[number] = whole.bit_count() + shares - sum(node.releasing.shares.values())
        return found

    def remove(self, unit: Unit) -> None:
        """Count the unit as evicted."""
        tasks = [task for task in allocated_tasks(unit.job) if task.index in unit.indices]
        self._change(node_uses(self._state, unit.job, tasks), -1)

    def add(self, job: Job, place: GangPlacement) -> None:
        """Count tasks of the job as placed."""
        tasks = [Task(task.index, task.node, task.devices, "reserved") for task in place.tasks]
        self._change(node_uses(self._state, job, tasks), 1)

    def _change(self, uses: Uses, by: int) -> None:
        for number, amount, _ in uses:
            self._in_use[number] = self.in_use(number) + by * amount

    def count(self, uses: Iterable[Uses]) -> int:
        """Number of nodes that the set with these uses leaves partially used."""
        taken: dict[int, int] = {}
        released: dict[int, None] = {}
        for each in uses:
            for number, amount, is_released in each:
                taken[number] = taken.get(number, 0) + amount
                if is_released:
                    released[number] = None
        return sum(self.in_use(number) > taken[number] for number in released)

    def weight(self, steps: Iterable[Evictable]) -> int:
        """Weight of the set, fragmentation included."""
        steps = list(steps)
        return sum([step.weight for step in steps]) + self.per_node * self.count([step.uses for step in steps])


class FragmentationBound:
    """Fragmented nodes that are certain while steps are decided one by one: released, and in use by what stays.

    It never falls while more is decided, and is exact once every step is.
    """

    def __init__(self, fragmentation: Fragmentation, undecided: Iterable[Evictable]) -> None:
        self.nodes = 0
        self._stays: dict[int, int] = {}
        self._released: dict[int, int] = {}
        for step in undecided:
            for number, amount, _ in step.uses:
                self._stays[number] = self._stays.get(number, fragmentation.in_use(number)) - amount

    def change(self, step: Evictable, *, evicted: bool, by: int) -> None:
        """Decide the step (`by` 1), or undo that (-1)."""
        for number, amount, is_released in step.uses:
            stays, released = self._stays[number], self._released.get(number, 0)
            self.nodes -= stays > 0 and released > 0
            if not evicted:
                stays = self._stays[number] = stays + by * amount
            elif is_released:
                released = self._released[number] = released + by
            self.nodes += stays > 0 and released > 0
