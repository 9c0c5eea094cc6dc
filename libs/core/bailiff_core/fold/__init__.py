"""How each record changes the pool: one small function per record type, registered with `folds`.

The fold believes what the log says. It checks nothing, decides nothing, and is kept able to read every record ever
written. Whatever a decision needs to know is computed from the state that these functions leave.
"""

from . import by_hand, devices, evictions, growth, idle, jobs, log, nodes, preemptions, tasks  # noqa: F401  registers the folds
from .apply import apply, close_turn, enact, fold

__all__ = ["apply", "close_turn", "enact", "fold"]
