"""A cheap view of what is free on each node, on which placements and evictions can be tried and taken back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from bailiff_core.model.pool import Node, Pool, Room
from bailiff_core.model.room import add, both, contains, less, more
from bailiff_core.model.sharing import amount_of, units_of
from bailiff_core.model.units import Unit, holds

from .need import Kind, Need

if TYPE_CHECKING:
    from .domains import Domains
    from .gang import GangPlace
    from .index import Index
    from .tally import Tally

Standing = list[tuple["NodeRoom", Room]]
FootingKey = tuple[str, int, tuple[int, ...]]
SuitedKey = tuple[Kind, tuple[str, ...], int, int]
SUITED_KEPT = 64
CHANGES_KEPT = 100_000


class NodeRoom:
    """Free room of one node.

    `unheld` is not held by anybody, promised or not. `later` is what nobody holds or is promised once everything on
    its way out is gone. What a task may start on at once is what both have: a promise is backed by releasing room
    first (model/room.py). Rooms are replaced, never changed, so that undoing is putting the old one back.
    units: all units of each usable device, by number. gone: the node takes no tasks any more.
    """

    __slots__ = ("_devices", "_now", "gone", "labels", "later", "models", "name", "node", "number", "unheld", "units", "usable")

    def __init__(self, node: Node, usable: int, unheld: Room, later: Room) -> None:
        self.node = node
        self.number = node.number
        self.name = node.name
        self.labels = node.labels
        self.usable = usable
        self.gone = False
        self._devices = node.devices
        self.models, self.units = _kinds(
            tuple([(d.number, d.model, units_of(d)) for d in node.devices if usable >> d.number & 1])
        )
        self.put(unheld, later)

    def describes(self, node: Node) -> bool:
        """Whether the node still is what this was made of. Devices come in another list when they change."""
        if self._devices is not node.devices:
            return False
        return (self.name, self.usable) == (node.name, _usable(node)) and self.labels == node.labels

    def put(self, unheld: Room, later: Room) -> None:
        """What is free from now on."""
        self.unheld, self.later = unheld, later
        self._now: Room | None = None

    def now(self) -> Room:
        """What a task may start on at once."""
        if self._now is None:
            self._now = both(self.unheld, self.later)
        return self._now

    def devices_of(self, models: Sequence[str]) -> int:
        """Devices, free or not, of one of these models; of any, where none is named."""
        if not models:
            return self.usable
        mask = 0
        for model in models:
            mask |= self.models.get(model, 0)
        return mask

    def is_shared(self, number: int) -> bool:
        """Whether somebody holds a part of the device, or is promised one."""
        return number in self.unheld.shares or number in self.later.shares

    def fits_now(self, amount: Room) -> bool:
        """Whether that much is free at once."""
        return contains(self.now(), amount)

    def takes_back(self, amount: Room) -> bool:
        """Whether what stood here could do so again. Devices that went bad meanwhile are no obstacle."""
        shares = {number: share for number, share in amount.shares.items() if number in self.units}
        return contains(self.later, replace(amount, devices=amount.devices & self.usable, shares=shares))


class Rooms:
    """Free room of all nodes that take tasks, and a log of changes to undo.

    remarks: for refusals, what is true of a need while nodes stay as they are (why.py).
    changed: every node that changed, in order, for the `indices` and `domains` that are kept on these rooms (index.py,
    domains.py). labels: of all nodes, also of those that take no tasks now. empty: the same pool without any task.
    """

    def __init__(self, nodes: Iterable[NodeRoom], pool: Pool) -> None:
        self.nodes = {node.number: node for node in sorted(nodes, key=lambda node: node.number)}
        self.policy = pool.policy
        self.labels = {number: node.labels for number, node in pool.nodes.items()}
        self.changed: list[NodeRoom] = []
        self.indices: dict[Kind, Index] = {}
        self.domains: dict[tuple[str, ...], Domains] = {}
        self._changes: list[tuple[NodeRoom, Room, Room]] = []
        self._footings: dict[FootingKey, Standing] = {}
        self._footings_on: dict[int, dict[FootingKey, None]] = {}
        self.empty: Rooms | None = None
        self._by_name: dict[str, NodeRoom] | None = None
        self._largest: int | None = None
        self.remarks: dict[SuitedKey, tuple[int, list[str]]] = {}
        self.tallies: dict[int, Tally] = {}
        self._suited: dict[SuitedKey, list[tuple[NodeRoom, int]]] = {}

    @classmethod
    def of(cls, pool: Pool) -> "Rooms":
        """What is free on the nodes that take work."""
        return cls((_node_room(node) for node in pool.nodes.values() if node.takes_work), pool)

    @classmethod
    def when_empty(cls, pool: Pool) -> "Rooms":
        """The pool without any task, all devices healthy, and silent nodes back: what could ever be free."""
        found = []
        for node in pool.nodes.values():
            if node.state != "lost":
                devices = sum(1 << device.number for device in node.devices)
                room = replace(node.capacity, devices=devices)
                found.append(NodeRoom(node, devices, room, room))
        return cls(found, pool)

    def refresh(self, pool: Pool, nodes: Iterable[int]) -> None:
        """Take these nodes as they are in the pool now, and take back every trial. All others must not have changed."""
        self.rollback(0)
        self.policy = pool.policy
        for number in nodes:
            for key in self._footings_on.pop(number, ()):
                self._footings.pop(key, None)
            node, known = pool.nodes[number], self.nodes.get(number)
            self.labels[number] = node.labels
            if known is not None and node.takes_work and known.describes(node):
                known.node = node
                unheld, later = _free(node, known.usable, known.units)
                if (known.unheld, known.later) != (unheld, later):
                    known.put(unheld, later)
                    self.changed.append(known)
            elif known is not None or node.takes_work:
                self._exchange(number, known, _node_room(node) if node.takes_work else None)
        self._forget_changes()

    def _exchange(self, number: int, known: NodeRoom | None, fresh: NodeRoom | None) -> None:
        self._suited.clear()
        self.remarks.clear()
        self.tallies.clear()
        self._by_name = self._largest = None
        if known is not None:
            known.gone = True
            self.changed.append(known)
            del self.nodes[number]
        if fresh is not None:
            self.changed.append(fresh)
            last = next(reversed(self.nodes), -1)
            self.nodes[number] = fresh
            if number < last:
                self.nodes = dict(sorted(self.nodes.items()))

    def _forget_changes(self) -> None:
        """All indices have seen the changes, so that the list does not grow for ever."""
        if len(self.changed) > CHANGES_KEPT:
            kept: list[Index | Domains | Tally] = [*self.indices.values(), *self.domains.values(), *self.tallies.values()]
            for view in kept:
                view.refresh()
                view.seen = 0
            self.changed.clear()

    def by_name(self) -> dict[str, NodeRoom]:
        """All nodes, in order of their names."""
        if self._by_name is None:
            self._by_name = {node.name: node for node in sorted(self.nodes.values(), key=lambda node: node.name)}
        return self._by_name

    def largest_device(self) -> int:
        """Units of the largest device of any node; at least 1."""
        if self._largest is None:
            self._largest = max((units for node in self.nodes.values() for units in node.units.values()), default=1)
        return self._largest

    def suited(self, need: Need) -> list[tuple[NodeRoom, int]]:
        """Nodes by name that a task may use at all, full or not, each with the devices it may use there."""
        key = (need.kind, need.nodes, need.devices, need.share_bytes)
        if key not in self._suited:
            if len(self._suited) >= SUITED_KEPT:
                self._suited.clear()
                self.tallies.clear()
            by_name = self.by_name()
            listed = [by_name[name] for name in sorted(dict.fromkeys(need.nodes)) if name in by_name]
            every = need._replace(nodes=())  # each that is listed is one of those named
            among = listed if need.nodes else by_name.values()
            self._suited[key] = [(node, node.devices_of(need.models)) for node in among if suits(every, node)]
        return self._suited[key]

    def mark(self) -> int:
        """A point to come back to."""
        return len(self._changes)

    def rollback(self, mark: int) -> None:
        """Undo everything since `mark`, the last change first."""
        while len(self._changes) > mark:
            node, unheld, later = self._changes.pop()
            node.put(unheld, later)
            self.changed.append(node)

    def take(self, node: NodeRoom, amount: Room, *, later: bool) -> None:
        """So much of the node is used from now on: by tasks that start, or with `later` only promised."""
        self._change(node, node.unheld if later else less(node.unheld, amount, node.units), less(node.later, amount, node.units))

    def leave(self, node: NodeRoom, later: Room) -> None:
        """So much of the node is left from now on, beside what is promised."""
        self._change(node, node.unheld, later)

    def close(self, node: NodeRoom) -> None:
        """As if nothing were free on the node, now or later."""
        self._change(node, Room(), Room())

    def evict(self, unit: Unit) -> None:
        """As if the unit were told to leave: its room comes later. Of tasks not started the promise is dropped."""
        for node, amount in self.standing(unit):
            self._change(node, node.unheld, more(node.later, amount, node.units, node.usable))

    def put_back(self, unit: Unit) -> None:
        """The opposite of `evict`."""
        for node, amount in self.standing(unit):
            self._change(node, node.unheld, less(node.later, amount, node.units))

    def place(self, unit: Unit, place: "GangPlace") -> None:
        """The unit's tasks stand there from now on. The place was found on the same or equal rooms."""
        groups = unit.job.groups()
        for task in place.tasks:
            node = self.nodes[task.node]
            devices, cpu_milli, memory_bytes, shares = amount_of(node.node, groups[task.index], task.devices)
            self.take(node, Room(devices, cpu_milli, memory_bytes, 1, dict(shares)), later=place.later)

    def has_place_for(self, unit: Unit) -> bool:
        """Whether an evicted unit's own place is still free for it."""
        return all(node.takes_back(amount) for node, amount in self.standing(unit))

    def standing(self, unit: Unit) -> Standing:
        """What the unit's tasks hold, summed by node, in order of its tasks; kept while its nodes stay as they are."""
        job = unit.job
        key = (job.id, job.attempt, unit.indices)
        found = self._footings.get(key)
        if found is not None:
            return found
        groups = job.groups()
        sums: dict[int, Room] = {}
        for index in unit.indices:
            task = job.task(index)
            if task is None:
                continue
            self._footings_on.setdefault(task.node, {})[key] = None
            if holds(task) and task.node in self.nodes:
                room = sums.setdefault(task.node, Room())
                add(room, *amount_of(self.nodes[task.node].node, groups[index], task.devices))
        found = [(self.nodes[number], room) for number, room in sums.items()]
        if found:
            self._footings[key] = found
        return found

    def _change(self, node: NodeRoom, unheld: Room, later: Room) -> None:
        self._changes.append((node, node.unheld, node.later))
        self.changed.append(node)
        node.put(unheld, later)


def suits(need: Need, node: NodeRoom) -> bool:
    """Whether a task may use the node at all, full or not."""
    if not need.kind.admits(node.labels) or (need.nodes and node.name not in need.nodes):
        return False
    return need.hosts(node.units, node.devices_of(need.models)) >= need.devices


def slots_for(need: Need, node: NodeRoom, room: Room, suited: int) -> int:
    """How many tasks of this need the node's `room` takes at once, on these of its devices."""
    count = room.slots
    if need.cpu_milli:
        count = min(count, room.cpu_milli // need.cpu_milli)
    if need.memory_bytes:
        count = min(count, room.memory_bytes // need.memory_bytes)
    if count <= 0:
        return 0
    if need.gpus:
        count = min(count, (room.devices & suited).bit_count() // need.gpus)
    elif need.devices:
        count = need.sharers(count, need.capacities(room, node.units, suited))
    return count


def _usable(node: Node) -> int:
    usable = node.capacity.devices & ~node.quarantined
    for device in node.devices:
        if not device.healthy:
            usable &= ~(1 << device.number)
    return usable


@lru_cache(maxsize=1024)  # nodes come in many copies
def _kinds(devices: tuple[tuple[int, str, int], ...]) -> tuple[Mapping[str, int], Mapping[int, int]]:
    """Masks by model, and all units by number, of these devices: number, model, units."""
    models: dict[str, int] = {}
    for number, model, _ in devices:
        models[model] = models.get(model, 0) | 1 << number
    return models, {number: units for number, _, units in devices}


def _node_room(node: Node) -> NodeRoom:
    usable = _usable(node)
    made = NodeRoom(node, usable, Room(), Room())
    made.put(*_free(node, usable, made.units))
    return made


def _free(node: Node, usable: int, units: Mapping[int, int]) -> tuple[Room, Room]:
    """What nobody holds, and what nobody holds or is promised once everything on its way out is gone."""
    held, releasing, reserved, capacity = node.held, node.releasing, node.reserved, node.capacity
    free = Room(usable, capacity.cpu_milli, capacity.memory_bytes, capacity.slots)
    staying = Room(
        held.devices & ~releasing.devices | reserved.devices,
        held.cpu_milli - releasing.cpu_milli + reserved.cpu_milli,
        held.memory_bytes - releasing.memory_bytes + reserved.memory_bytes,
        held.slots - releasing.slots + reserved.slots,
    )
    for number in (*held.shares, *reserved.shares):
        used = held.shares.get(number, 0) - releasing.shares.get(number, 0) + reserved.shares.get(number, 0)
        if used:
            staying.shares[number] = used
    return less(free, held, units), less(free, staying, units)
