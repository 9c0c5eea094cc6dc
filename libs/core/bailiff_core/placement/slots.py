"""How many tasks of one need all nodes take in the end, counted anew only where something changed."""

from .need import Need
from .rooms import Rooms, slots_for

NEEDS_KEPT = 16


class Slots:
    """of_node: tasks that each node takes once all that is leaving is gone. total: their sum. seen: changes looked at."""

    def __init__(self, rooms: Rooms, need: Need) -> None:
        self._rooms, self._need = rooms, need
        self.suited = dict(rooms.suited(need))
        self.of_node = {node: slots_for(need, node, node.later, mask) for node, mask in self.suited.items()}
        self.total = sum(self.of_node.values())
        self.seen = len(rooms.changed)

    def refresh(self) -> None:
        """Count the nodes anew that changed since the last time."""
        for node in dict.fromkeys(self._rooms.changed[self.seen :]):
            mask = self.suited.get(node)
            if mask is not None:
                count = slots_for(self._need, node, node.later, mask)
                self.total += count - self.of_node[node]
                self.of_node[node] = count
        self.seen = len(self._rooms.changed)


def slots_of(rooms: Rooms, need: Need) -> Slots:
    """The slots of this need, up to date. Those asked for lately are kept, until nodes come, go, or become others."""
    slots = rooms.slots.pop(need, None)
    if slots is None:
        slots = Slots(rooms, need)
        if len(rooms.slots) >= NEEDS_KEPT:
            del rooms.slots[next(iter(rooms.slots))]
    else:
        slots.refresh()
    rooms.slots[need] = slots
    return slots
