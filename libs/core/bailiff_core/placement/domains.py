"""Topology domains: the nodes with one value at a level of a topology, together with all coarser values."""

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bailiff_core.model.amounts import NOTHING, Amounts

from .need import Needs
from .parts import Rule
from .rooms import NodeRoom, Rooms

FINENESS = 10**9
Key = tuple[str, ...]


@dataclass(slots=True)
class Domain:
    """Its nodes by name, and what will be free on them once all that is leaving is gone. GPUs in thousandths."""

    key: Key
    nodes: list[NodeRoom] = field(default_factory=list)
    free: Amounts = NOTHING

    def fullness(self, asked: Amounts) -> int | None:
        """How full it would be of what is asked, at its scarcest resource; `None`: so much is not free."""
        most = 0
        for wanted, free in zip(asked, self.free, strict=True):
            if wanted > free:
                return None
            if wanted:
                most = max(most, int(wanted * FINENESS // free))
        return most


class Domains:
    """All domains of one topology's levels, kept up to date while rooms change. seen: changes looked at."""

    def __init__(self, rooms: Rooms, levels: tuple[str, ...]) -> None:
        self._rooms, self._levels = rooms, levels
        self._by_key: dict[Key, Domain] = {}
        self._counted: dict[NodeRoom, Amounts] = {}
        self.seen = len(rooms.changed)
        for node in rooms.by_name().values():
            self._count(node)

    def refresh(self) -> None:
        """Count the nodes anew that changed since the last time."""
        for node in dict.fromkeys(self._rooms.changed[self.seen :]):
            self._count(node)
        self.seen = len(self._rooms.changed)

    def at(self, level: int) -> list[Domain]:
        """The domains of one level."""
        return [domain for key, domain in self._by_key.items() if len(key) == level + 1]

    def _count(self, node: NodeRoom) -> None:
        before = self._counted.get(node)
        after = NOTHING if node.gone else _free(node)
        path = key_of(node.labels, self._levels)
        for depth in range(1, len(path) + 1):
            key = path[:depth]
            domain = self._by_key.setdefault(key, Domain(key))
            if before is None and not node.gone:
                insort(domain.nodes, node, key=lambda other: other.name)
            elif before is not None and node.gone:
                domain.nodes.remove(node)
            domain.free = domain.free.minus(before or NOTHING).plus(after)
            if not domain.nodes:
                del self._by_key[key]
        if node.gone:
            self._counted.pop(node, None)
        else:
            self._counted[node] = after


def key_of(labels: Mapping[str, str], levels: Sequence[str]) -> Key:
    """The node's values from the coarsest level on, up to the first that it lacks."""
    found = []
    for level in levels:
        if level not in labels:
            break
        found.append(labels[level])
    return tuple(found)


def domains_within(
    rooms: Rooms, rule: Rule, level: int, within: Sequence[NodeRoom] | None, standing: Iterable[int]
) -> list[Domain]:
    """The domains of a level in which the part may stand: inside these nodes, and where members of it are already."""
    if within is None:
        found = _kept(rooms, rule.levels).at(level)
    else:
        by_key: dict[Key, Domain] = {}
        for node in within:
            key = key_of(node.labels, rule.levels)[: level + 1]
            if len(key) == level + 1:
                domain = by_key.setdefault(key, Domain(key))
                domain.nodes.append(node)
                domain.free = domain.free.plus(_free(node))
        found = list(by_key.values())
    here = dict.fromkeys(key_of(rooms.labels.get(number, {}), rule.levels)[: level + 1] for number in standing)
    if here:
        found = [domain for domain in found if len(here) == 1 and domain.key in here]
    return found


def asked_for(wanted: Needs, rooms: Rooms) -> Amounts:
    """What so many tasks of each need take in all, at least: a share in bytes counts as of the largest device."""
    gpu = cpu = memory = 0
    for need, indices in wanted.items():
        count = len(indices)
        cpu += need.cpu_milli * count
        memory += need.memory_bytes * count
        if need.share_bytes:
            gpu += need.share_bytes * 1000 * 1000 * need.devices * count // rooms.largest_device()
        else:
            gpu += (need.share_milli or 1000) * need.devices * count
    return Amounts(gpu, cpu, memory)


def _kept(rooms: Rooms, levels: tuple[str, ...]) -> Domains:
    found = rooms.domains.get(levels)
    if found is None:
        found = rooms.domains[levels] = Domains(rooms, levels)
    else:
        found.refresh()
    return found


def _free(node: NodeRoom) -> Amounts:
    room = node.later
    parts = sum(-(-1000 * max(0, free) // node.units[number]) for number, free in room.shares.items())
    return Amounts(room.devices.bit_count() * 1000 + parts, max(0, room.cpu_milli), max(0, room.memory_bytes))
