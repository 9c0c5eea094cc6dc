"""Where a gang can stand: which nodes and devices, all its tasks together, or a sentence that says why not.

`Rooms` is a cheap copy of what is free, on which placements and evictions can be tried and taken back. `place_unit`
puts a whole unit on it. `to_shares` and `from_shares` translate to the compact form of the records.
"""

from .budget import Budget
from .ever import could_ever_fit
from .gang import GangPlace, NoFit, TaskPlace, place_unit
from .rooms import Rooms
from .shares import from_shares, to_shares

__all__ = [
    "Budget",
    "GangPlace",
    "NoFit",
    "Rooms",
    "TaskPlace",
    "could_ever_fit",
    "from_shares",
    "place_unit",
    "to_shares",
]
