"""`bailiff plan`: runs scheduling cycles on a snapshot file, with the live rules and without services.

`parsing` reads amounts and times, `snapshot` is the file's schema, `snapshot_validation` finds its contradictions
(`snapshot_jobs` those of jobs, `snapshot_devices` those of placements), `build` creates the state, `cycles` decides, `advance`
simulates what happens between cycles, `report` and `report_builder` show the result, `run` combines them; `whatif` previews the
submission of one more job.
"""

from .report import PlanReport, Round
from .run import ALL_ACTIONS, PlanAction, Planning, run
from .snapshot import Snapshot, read_snapshot
from .snapshot_validation import InvalidSnapshot

__all__ = ["ALL_ACTIONS", "InvalidSnapshot", "PlanAction", "PlanReport", "Planning", "Round", "Snapshot", "read_snapshot", "run"]
