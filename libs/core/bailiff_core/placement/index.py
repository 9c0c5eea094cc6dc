"""The nodes that suit one kind of task, ordered by what is free on them and kept so while rooms change.

A pass over thousands of jobs asks again and again for the best node, and each placement changes one: only nodes that
changed since the last look are looked at anew, and only as many are touched as it takes to find one with room.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from heapq import merge

from bailiff_core.model.pool import Room

from .need import Kind, Need
from .offers import Offer, offer_of, rank, sharing_rank
from .rooms import NodeRoom, Rooms

INDICES_KEPT = 32
ORDERS_KEPT = 16
Entry = tuple[str, NodeRoom]
Shape = tuple[int, int, int, int, int]  # devices, those free, those that suit and are free; doublings of CPU and memory free


class Index:
    """Nodes of one kind, by the shape of what is free now and of what will be free later. seen: changes looked at."""

    def __init__(self, rooms: Rooms, kind: Kind) -> None:
        self._rooms, self._kind = rooms, kind
        self._suited: dict[NodeRoom, int] = {}
        self._now, self._later = _Buckets(), _Buckets()
        self._sharing: dict[NodeRoom, None] = {}
        self._looked: dict[NodeRoom, tuple[Room, Room]] = {}  # of what it put into the buckets: trials come back to the same
        self._orders: dict[tuple[Need, bool], _SharedFirst] = {}
        self.seen = len(rooms.changed)
        for node in rooms.by_name().values():
            self._look_at(node)

    def refresh(self) -> None:
        """Look at the nodes anew that changed since the last time."""
        for node in dict.fromkeys(self._rooms.changed[self.seen :]):
            self._look_at(node)
        self.seen = len(self._rooms.changed)

    def offers(self, need: Need, *, later: bool, spread: bool) -> Iterator[Offer]:
        """Nodes with room for a task of this need, best first. Rooms may change meanwhile; the order is as of now.

        Nodes come last that have room only on devices that are shared already (`best_shared` knows which is best).
        """
        buckets = (self._later if later else self._now).lists
        best: dict[tuple[int, ...], list[list[Entry]]] = {}
        cpu_class, memory_class = need.cpu_milli.bit_length(), need.memory_bytes.bit_length()
        for shape, entries in buckets.items():
            devices, free, suited, cpu, memory = shape
            if suited >= need.devices and cpu >= cpu_class and memory >= memory_class:
                key = rank(need, devices, free, -cpu if spread and not need.devices else 0, spread=spread)
                best.setdefault(key, []).append(entries)
        for key in sorted(best):
            lists = best[key]
            in_order = lists[0][:] if len(lists) == 1 else merge(*(entries[:] for entries in lists))
            found = (offer_of(need, node, self._suited[node], later=later) for _, node in in_order)
            if spread and not need.devices:
                yield from sorted((offer for offer in found if offer), key=lambda offer: -offer.free_cpu(later=later))
            else:
                yield from (offer for offer in found if offer)

        for node in sorted(self._sharing, key=lambda node: node.name) if need.shared else ():
            room, suited_here = node.later if later else node.now(), self._suited[node]
            if (room.devices & suited_here).bit_count() < need.devices:
                offer = offer_of(need, node, suited_here, later=later)
                if offer is not None:
                    yield offer

    def best_shared(self, need: Need, *, spread: bool) -> Offer | None:
        """The best of the nodes where the task finds a device that is shared already, even if it has to wait there."""
        order = self._orders.pop((need, spread), None)
        if order is None:
            order = _SharedFirst(need, spread=spread)
            order.stale.update(self._sharing)
            if len(self._orders) >= ORDERS_KEPT:
                del self._orders[next(iter(self._orders))]
        self._orders[need, spread] = order
        node = order.best(self._suited)
        return None if node is None else offer_of(need, node, self._suited[node], later=True)

    def _look_at(self, node: NodeRoom) -> None:
        if node.gone:
            self._suited.pop(node, None)
            self._sharing.pop(node, None)
            self._looked.pop(node, None)
            self._now.put(node, None)
            self._later.put(node, None)
            for order in self._orders.values():
                order.stale[node] = None
            return
        suited = self._suited.get(node)
        if suited is None:
            if not self._kind.admits(node.labels):
                return
            suited = self._suited[node] = node.devices_of(self._kind.models)
        looked = self._looked.get(node)
        if looked is None or looked[0] is not node.unheld or looked[1] is not node.later:
            self._looked[node] = node.unheld, node.later
            self._now.put(node, _shape(node, node.now(), suited))
            self._later.put(node, _shape(node, node.later, suited))
        if node.unheld.shares or node.later.shares:
            self._sharing[node] = None
        elif node in self._sharing:
            del self._sharing[node]
        else:
            return
        for order in self._orders.values():
            order.stale[node] = None


class _Buckets:
    """Nodes by shape, in each by name."""

    def __init__(self) -> None:
        self.lists: dict[Shape, list[Entry]] = {}
        self._shape_of: dict[NodeRoom, Shape] = {}

    def put(self, node: NodeRoom, shape: Shape | None) -> None:
        """The node has this shape now; `None`: it takes no task at all."""
        before = self._shape_of.get(node)
        if before == shape:
            return
        entry = (node.name, node)
        if before is not None:
            entries = self.lists[before]
            del entries[bisect_left(entries, (node.name,))]
            if not entries:
                del self.lists[before]
            del self._shape_of[node]
        if shape is not None:
            entries = self.lists.setdefault(shape, [])
            entries.insert(bisect_left(entries, (node.name,)), entry)
            self._shape_of[node] = shape


class _SharedFirst:
    """For one need, the nodes with a device that it could share, best first. stale: nodes to be ranked anew."""

    def __init__(self, need: Need, *, spread: bool) -> None:
        self._need, self._spread = need, spread
        self._ranks: dict[NodeRoom, tuple[object, ...]] = {}
        self._order: list[tuple[tuple[object, ...], NodeRoom]] = []
        self.stale: dict[NodeRoom, None] = {}

    def best(self, suited: Mapping[NodeRoom, int]) -> NodeRoom | None:
        """The first of them, or none."""
        for node in self.stale:
            before = self._ranks.pop(node, None)
            if before is not None:
                del self._order[bisect_left(self._order, before, key=_rank)]
            key = sharing_rank(self._need, node, suited[node], spread=self._spread) if node in suited else None
            if key is not None:
                self._ranks[node] = key
                insort(self._order, (key, node), key=_rank)
        self.stale.clear()
        return self._order[0][1] if self._order else None


def _rank(entry: tuple[tuple[object, ...], NodeRoom]) -> tuple[object, ...]:
    return entry[0]


def _shape(node: NodeRoom, room: Room, suited: int) -> Shape | None:
    if room.slots <= 0:
        return None
    return (
        node.usable.bit_count(),
        room.devices.bit_count(),
        (room.devices & suited).bit_count(),
        max(0, room.cpu_milli).bit_length(),
        max(0, room.memory_bytes).bit_length(),
    )


def index_for(rooms: Rooms, kind: Kind) -> Index:
    """The index of this kind, up to date. Those asked for lately are kept."""
    index = rooms.indices.pop(kind, None)
    if index is None:
        index = Index(rooms, kind)
        if len(rooms.indices) >= INDICES_KEPT:
            del rooms.indices[next(iter(rooms.indices))]
    else:
        index.refresh()
    rooms.indices[kind] = index
    return index
