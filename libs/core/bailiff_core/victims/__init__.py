"""Who must go so that a gang can stand, and the proof that nobody cheaper would do.

`select_batch` answers the open requests of a selection; `check_answer` looks an answer over when it comes back, on a
pool that may have moved on. All evictions are simulated together, the gang is placed together, and whoever still fits
is put back, before anything is decided.
"""

from .batch import select_batch
from .check import Accepted, Stale, check_answer
from .objective import price
from .select import select_victims
from .spare import spared_by

__all__ = ["Accepted", "Stale", "check_answer", "price", "select_batch", "select_victims", "spared_by"]
