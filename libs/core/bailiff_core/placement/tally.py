"""Free GPUs of all nodes that suit one need, as an array that follows the rooms."""

import numpy as np

from .holdings import Ints
from .need import Need
from .rooms import Rooms


class Tally:
    """devices: suited GPUs of each node. free: those of them that are free or on their way to be.

    Positions are those of `Rooms.suited`.
    """

    def __init__(self, rooms: Rooms, need: Need) -> None:
        self.suited = rooms.suited(need)
        self.rows: Ints = np.fromiter((node.number for node, _ in self.suited), np.int64, len(self.suited))
        free = ((node.later.devices & devices).bit_count() for node, devices in self.suited)
        self.free: Ints = np.fromiter(free, np.int64, len(self.suited))
        self.devices: Ints = np.fromiter((devices.bit_count() for _, devices in self.suited), np.int64, len(self.suited))
        self.place_of = {node.number: place for place, (node, _) in enumerate(self.suited)}
        self.seen = len(rooms.changed)
        self._rooms = rooms

    def refresh(self) -> None:
        """Look at the nodes anew that changed since the last time."""
        for node in dict.fromkeys(self._rooms.changed[self.seen :]):
            place = self.place_of.get(node.number)
            if place is not None and self.suited[place][0] is node:
                self.free[place] = (node.later.devices & self.suited[place][1]).bit_count()
        self.seen = len(self._rooms.changed)


def tally_of(rooms: Rooms, need: Need) -> Tally:
    """The need's tally, up to date."""
    suited = rooms.suited(need)
    found = rooms.tallies.get(id(suited))
    if found is None or found.suited is not suited:
        found = rooms.tallies[id(suited)] = Tally(rooms, need)
    found.refresh()
    return found
