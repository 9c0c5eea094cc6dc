"""Who must go so that a unit can stand, and the proof that nobody cheaper would do.

`select_batch` answers the open requests of a selection, `select` one of them under one verb; `check_answer` looks an
answer over when it comes back, on a pool that may have moved on. All evictions are simulated together, the unit is
placed together, and whoever still fits is put back, before anything is decided.
"""

from .batch import enact, select_batch
from .check import Accepted, Stale, check_answer
from .select import Batch, select
from .spare import spared_by

__all__ = ["Accepted", "Batch", "Stale", "check_answer", "enact", "select", "select_batch", "spared_by"]
