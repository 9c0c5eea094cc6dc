"""The engine without the services: a snapshot that people write, made into a pool by the fold, and passes over it.

`snapshot` is what may be written, `layout` who stands where and what contradicts itself, `build` makes the pool,
`passes` decides as live does, `between` is what the world does from one pass to the next, `report` what came of it.
"""

from .layout import Contradiction, Fault
from .report import PlanReport, Round
from .run import ALL_VERBS, Planning, PlanVerb, run
from .snapshot import Snapshot, read_snapshot

__all__ = [
    "ALL_VERBS",
    "Contradiction",
    "Fault",
    "PlanReport",
    "PlanVerb",
    "Planning",
    "Round",
    "Snapshot",
    "read_snapshot",
    "run",
]
