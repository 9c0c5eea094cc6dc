"""A cheap view of what is free on each node, on which placements and evictions can be tried and taken back."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from bailiff_core.model.pool import Job, Node, Pool, Room, Task

from .need import Need

if TYPE_CHECKING:
    from .ranking import Ranking


class NodeRoom:
    """Free room of one node.

    `unheld` is not held by anybody, promised or not. `later` is what nobody holds or is promised once everything on
    its way out is gone. What a task may start on at once is what both have: a promise is backed by releasing room
    first (model/room.py). Rooms are replaced, never changed, so that undoing is putting the old one back.
    """

    __slots__ = ("labels", "later", "models", "name", "number", "unheld", "usable")

    def __init__(self, node: Node, usable: int, unheld: Room, later: Room) -> None:
        self.number = node.number
        self.name = node.name
        self.labels = node.labels
        self.usable = usable
        self.unheld = unheld
        self.later = later
        self.models: dict[str, int] = {}
        for device in node.devices:
            if usable >> device.number & 1:
                self.models[device.model] = self.models.get(device.model, 0) | 1 << device.number

    def now(self) -> Room:
        """What a task may start on at once."""
        return _both(self.unheld, self.later)

    def suited_devices(self, need: Need) -> int:
        """Devices, free or not, that a task with this need may use."""
        if not need.models:
            return self.usable
        mask = 0
        for model in need.models:
            mask |= self.models.get(model, 0)
        return mask


class Rooms:
    """Free room of all nodes that take tasks, and a log of changes to undo.

    changed: every node that changed, in order, for the `rankings` that are kept on these rooms (ranking.py).
    """

    def __init__(self, nodes: Iterable[NodeRoom]) -> None:
        self.nodes = {node.number: node for node in sorted(nodes, key=lambda node: node.number)}
        self.changed: list[NodeRoom] = []
        self.rankings: dict[tuple[Need, bool], Ranking] = {}
        self._changes: list[tuple[NodeRoom, Room, Room]] = []
        self._footings: dict[tuple[str, int, str], list[tuple[NodeRoom, tuple[int, int, int, int]]]] = {}
        self._suited: dict[Need, list[tuple[NodeRoom, int]]] = {}

    @classmethod
    def of(cls, pool: Pool, held_back: Mapping[int, Room] | None = None) -> "Rooms":
        """What is free on the ready nodes. `held_back`: room by node that must not be touched (an open selection's)."""
        found = []
        for node in pool.nodes.values():
            if node.state == "ready":
                floor = held_back.get(node.number) if held_back else None
                found.append(_node_room(node, floor))
        return cls(found)

    @classmethod
    def when_empty(cls, pool: Pool) -> "Rooms":
        """The pool without any task, all devices healthy, and silent nodes back: what could ever be free."""
        found = []
        for node in pool.nodes.values():
            if node.state != "lost":
                devices = sum(1 << device.number for device in node.devices)
                room = replace(node.capacity, devices=devices)
                found.append(NodeRoom(node, devices, room, room))
        return cls(found)

    def suited(self, need: Need) -> list[tuple[NodeRoom, int]]:
        """Nodes by name that a task may use at all, full or not, each with the devices it may use there."""
        if need not in self._suited:
            found = []
            for node in sorted(self.nodes.values(), key=lambda node: (node.name, node.number)):
                if need.nodes and node.name not in need.nodes:
                    continue
                if any(node.labels.get(key) != value for key, value in need.labels):
                    continue
                devices = node.suited_devices(need)
                if devices.bit_count() >= need.gpus:
                    found.append((node, devices))
            self._suited[need] = found
        return self._suited[need]

    def mark(self) -> int:
        """A point to come back to."""
        return len(self._changes)

    def rollback(self, mark: int) -> None:
        """Undo everything since `mark`, the last change first."""
        while len(self._changes) > mark:
            node, unheld, later = self._changes.pop()
            node.unheld, node.later = unheld, later
            self.changed.append(node)

    def take(self, node: NodeRoom, need: Need, devices: int, count: int = 1, *, later: bool) -> None:
        """`count` tasks stand here from now on: started, or with `later` only promised."""
        self._note(node)
        amounts = (devices, need.cpu_milli * count, need.memory_bytes * count, count)
        node.later = _less(node.later, *amounts)
        if not later:
            node.unheld = _less(node.unheld, *amounts)

    def give_back(self, node: NodeRoom, need: Need, devices: int, count: int = 1, *, later: bool) -> None:
        """The opposite of `take`, for a placement that is not to stand after all."""
        self._note(node)
        amounts = (devices, need.cpu_milli * count, need.memory_bytes * count, count)
        node.later = _more(node.later, node.usable, *amounts)
        if not later:
            node.unheld = _more(node.unheld, node.usable, *amounts)

    def evict(self, job: Job) -> None:
        """As if the job were told to leave: its room comes later. Of a gang not started the promise is dropped."""
        for node, amounts in self.standing(job):
            self._note(node)
            node.later = _more(node.later, node.usable, *amounts)

    def put_back(self, job: Job) -> None:
        """The opposite of `evict`."""
        for node, amounts in self.standing(job):
            self._note(node)
            node.later = _less(node.later, *amounts)

    def has_place_for(self, job: Job) -> bool:
        """Whether an evicted job's own place is still free for it."""
        mark = self.mark()
        whole = True
        for node, (devices, cpu_milli, memory_bytes, slots) in self.standing(job):
            room = node.later
            whole = (
                not (devices & node.usable & ~room.devices)
                and cpu_milli <= max(0, room.cpu_milli)
                and memory_bytes <= max(0, room.memory_bytes)
                and slots <= room.slots
            )
            if not whole:
                break
            self._note(node)
            node.later = _less(room, devices, cpu_milli, memory_bytes, slots)
        self.rollback(mark)
        return whole

    def standing(self, job: Job) -> list[tuple[NodeRoom, tuple[int, int, int, int]]]:
        """What the job's tasks hold, summed by node, in order of its tasks; kept while the attempt stands."""
        key = (job.id, job.attempt, job.phase)
        if key not in self._footings:
            groups = job.groups()
            sums: dict[int, tuple[int, int, int, int]] = {}
            for task in job.tasks:
                if stands(task) and task.node in self.nodes:
                    group = groups[task.index]
                    devices, cpu_milli, memory_bytes, slots = sums.get(task.node, (0, 0, 0, 0))
                    sums[task.node] = (
                        devices | task.devices,
                        cpu_milli + group.cpu_milli,
                        memory_bytes + group.memory_bytes,
                        slots + 1,
                    )
            self._footings[key] = [(self.nodes[number], amounts) for number, amounts in sums.items()]
        return self._footings[key]

    def _note(self, node: NodeRoom) -> None:
        self._changes.append((node, node.unheld, node.later))
        self.changed.append(node)


def stands(task: Task) -> bool:
    """Whether evicting the task frees room: what has exited is on its way out already."""
    return task.state in ("reserved", "starting", "running")


def slots_for(need: Need, room: Room, suited: int) -> int:
    """How many tasks of this need the room takes at once."""
    count = room.slots
    if need.gpus:
        count = min(count, (room.devices & suited).bit_count() // need.gpus)
    if need.cpu_milli:
        count = min(count, room.cpu_milli // need.cpu_milli)
    if need.memory_bytes:
        count = min(count, room.memory_bytes // need.memory_bytes)
    return max(0, count)


def _node_room(node: Node, floor: Room | None) -> NodeRoom:
    usable = node.capacity.devices & ~node.quarantined
    for device in node.devices:
        if not device.healthy:
            usable &= ~(1 << device.number)
    unheld = _less(Room(*_amounts(node.capacity)), *_amounts(node.held))
    later = _less(_more(unheld, -1, *_amounts(node.releasing)), *_amounts(node.reserved))
    unheld.devices &= usable
    later.devices &= usable
    if floor is not None:
        unheld, later = _less(unheld, *_amounts(floor)), _less(later, *_amounts(floor))
    return NodeRoom(node, usable, unheld, later)


def _amounts(room: Room) -> tuple[int, int, int, int]:
    return room.devices, room.cpu_milli, room.memory_bytes, room.slots


def _both(one: Room, other: Room) -> Room:
    return Room(
        one.devices & other.devices,
        min(one.cpu_milli, other.cpu_milli),
        min(one.memory_bytes, other.memory_bytes),
        min(one.slots, other.slots),
    )


def _less(room: Room, devices: int, cpu_milli: int, memory_bytes: int, slots: int) -> Room:
    return Room(room.devices & ~devices, room.cpu_milli - cpu_milli, room.memory_bytes - memory_bytes, room.slots - slots)


def _more(room: Room, usable: int, devices: int, cpu_milli: int, memory_bytes: int, slots: int) -> Room:
    return Room(
        room.devices | devices & usable,
        room.cpu_milli + cpu_milli,
        room.memory_bytes + memory_bytes,
        room.slots + slots,
    )
