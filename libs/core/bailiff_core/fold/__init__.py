"""How each record changes the state: one small function per record type, registered with `folds`.

The fold validates nothing and decides nothing: it applies what the log says, and stays able to read every record ever
written. Whatever a decision needs to know is computed from the state that these functions leave.
"""

from . import devices, elasticity, evictions, idle, jobs, log, nodes, operator_requests, preemptions, tasks  # noqa: F401  registers the folds
from .apply import apply, close_cycle, enact, fold

__all__ = ["apply", "close_cycle", "enact", "fold"]
