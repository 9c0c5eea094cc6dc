"""How each record changes the state: one small function per record type, registered with `folds`.

The fold neither validates nor decides: it applies the log and can read every record ever written. Decisions are computed
from the resulting state.
"""

from . import (  # noqa: F401  registers the folds
    attachments,
    budgets,
    calendar,
    dependencies,
    devices,
    elasticity,
    evictions,
    idle,
    job_specs,
    jobs,
    keys,
    log,
    nodes,
    operator_requests,
    preemptions,
    share_turns,
    tasks,
)
from .apply import apply, close_cycle, enact, fold

__all__ = ["apply", "close_cycle", "enact", "fold"]
