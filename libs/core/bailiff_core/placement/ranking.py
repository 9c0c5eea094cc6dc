"""The nodes that take a task of one need, best first (semantics §3), kept in order while rooms change.

A pass over thousands of jobs asks for the same order again and again, and each placement changes one node: only nodes
that changed since the last look are ranked anew.
"""

from bisect import bisect_left, insort

from bailiff_core.model.pool import Room

from .need import Need
from .rooms import NodeRoom, Rooms, slots_for

Rank = tuple[bool, int, int, str, int]
Entry = tuple[NodeRoom, int, int]


class Ranking:
    """One need's nodes on `rooms`; `later`: on room to come, too. `places`: how many tasks they take in all."""

    def __init__(self, rooms: Rooms, need: Need, *, later: bool) -> None:
        self._changed, self._seen = rooms.changed, len(rooms.changed)
        self._need, self._later = need, later
        self._suited = dict(rooms.suited(need))
        self._found: dict[NodeRoom, tuple[Rank, Entry]] = {}
        self.places = 0
        for node in self._suited:
            self._look_at(node)
        self._order = sorted(self._found.values(), key=_rank_of)

    def refresh(self) -> None:
        """Rank the nodes anew that changed since the last time."""
        for node in dict.fromkeys(self._changed[self._seen :]):
            if node not in self._suited:
                continue
            before = self._found.pop(node, None)
            if before is not None:
                self.places -= before[1][2]
                del self._order[bisect_left(self._order, before[0], key=_rank_of)]
            self._look_at(node)
            if node in self._found:
                insort(self._order, self._found[node], key=_rank_of)
        self._seen = len(self._changed)

    def best_first(self) -> list[Entry]:
        """`(node, suited devices, tasks it takes)` of all nodes that take one."""
        return [entry for _, entry in self._order]

    def _look_at(self, node: NodeRoom) -> None:
        room, suited = node.later if self._later else node.now(), self._suited[node]
        count = slots_for(self._need, node, room, suited)
        if count:
            self._found[node] = (_rank(self._need, node, room), (node, suited, count))
            self.places += count


def ranking(rooms: Rooms, need: Need, *, later: bool) -> Ranking:
    """The ranking as the rooms are now."""
    kept = rooms.rankings.get((need, later))
    if kept is None:
        kept = rooms.rankings[need, later] = Ranking(rooms, need, later=later)
    kept.refresh()
    return kept


def _rank_of(found: tuple[Rank, Entry]) -> Rank:
    return found[0]


def _rank(need: Need, node: NodeRoom, room: Room) -> Rank:
    free, total = room.devices.bit_count(), node.usable.bit_count()
    broken_before = 0 < free < total
    broken_after = 0 < free - need.gpus < total
    return (
        not need.gpus and total > 0,  # tasks without GPUs leave nodes with GPUs to those that need them
        free,
        broken_after - broken_before,
        node.name,
        node.number,
    )
