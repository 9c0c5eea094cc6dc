"""Indices over the state that are kept between decision cycles; all can be rebuilt from the state.

They are not part of the state's digest or snapshot. The fold records what it changed (`changed_*`); the code that updates
an index reads these sets and clears them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from .resource_vector import Amount


@dataclass(slots=True)
class Indices:
    """Indices of one pool's state.

    Attributes:
        touched: Jobs affected by the facts of this cycle.
        queued: The jobs in `PoolState.queue`, for look-up.
        retry_unschedulable: A gang that did not fit may fit now. Until then `unschedulable` has the reason by scheduling class.
        to_schedule: Queued jobs that allocate must try.
        backfill_blocked: Jobs that fit but would have delayed the head of the queue; `head_reservation` is the head's reservation
            at that time (`actions/allocate.py`).
        withheld: Jobs that fit in this cycle but might be evicted at once, by a job that requests preemption or that returns to
            the queue. They stay in `to_schedule` and request nothing.
        assumed_evicted: Backfilled jobs that the completion forecast treats as gone (`queue/backfill.py`).
        infeasible: By scheduling class, why a gang never fits these nodes; empty: it may fit.
        shrunk_quotas: `Usage.shrunk_quotas` when allocate last looked.
        changed_nodes: Nodes changed since `snapshot` was brought up to date.
        changed_jobs: Jobs changed since `snapshot` was brought up to date.
        changed_times: Changed since `timers` was brought up to date.
        changed_ends: Changed since `completion_order` was brought up to date.
        changed_budgets: Changed since `level_changes` was brought up to date.
        open_jobs: How many jobs have not ended (`fold/open_jobs.py`); None: not counted yet.
        left_for: By job, for which jobs it left (`Job.victims`), perhaps of none any more; None: not built yet.
        snapshot_bytes: By project, what the snapshots of its jobs hold (`model/snapshots.py`); None: not counted yet.
        forgotten: Number of entries deleted from the state's dicts since their last rebuild.
        snapshot: Built, as `node_resources`, `timers`, `completion_order`, `project_tree`, `budget_rows`, `level_changes`,
            `calendar` and `promises`, by the module that asks for it, which checks the type.
        actor: Actor of the record that was folded last.
        actor_verified: Whether the actor's name was verified.
        loss: The job of the newest `JobRequeued` or `JobShrunk`, its loss and GPUs by model (`model/work_lost`).
    """

    touched: dict[str, None] = field(default_factory=dict)
    retry_unschedulable: bool = True
    unschedulable: dict[str, str] = field(default_factory=dict)
    to_schedule: dict[str, None] = field(default_factory=dict)
    backfill_blocked: dict[str, None] = field(default_factory=dict)
    withheld: dict[str, None] = field(default_factory=dict)
    head_reservation: object | None = None
    assumed_evicted: dict[str, None] = field(default_factory=dict, compare=False, repr=False)
    infeasible: dict[str, str] = field(default_factory=dict, compare=False)
    shrunk_quotas: Mapping[str, tuple[Amount, ...]] = field(default_factory=dict, compare=False, repr=False)
    queued: dict[str, None] = field(default_factory=dict, compare=False, repr=False)
    changed_nodes: dict[int, None] = field(default_factory=dict, compare=False, repr=False)
    changed_jobs: dict[str, None] = field(default_factory=dict, compare=False, repr=False)
    changed_times: dict[str, None] = field(default_factory=dict, compare=False, repr=False)
    changed_ends: dict[str, None] = field(default_factory=dict, compare=False, repr=False)
    changed_budgets: dict[str, None] = field(default_factory=dict, compare=False, repr=False)
    open_jobs: Counter[str] | None = field(default=None, compare=False, repr=False)
    left_for: dict[str, dict[str, None]] | None = field(default=None, compare=False, repr=False)
    snapshot_bytes: Counter[str] | None = field(default=None, compare=False, repr=False)
    forgotten: int = field(default=0, compare=False, repr=False)
    snapshot: object | None = field(default=None, compare=False, repr=False)
    node_resources: object | None = field(default=None, compare=False, repr=False)
    timers: object | None = field(default=None, compare=False, repr=False)
    completion_order: object | None = field(default=None, compare=False, repr=False)
    project_tree: object | None = field(default=None, compare=False, repr=False)
    budget_rows: object | None = field(default=None, compare=False, repr=False)
    level_changes: object | None = field(default=None, compare=False, repr=False)
    calendar: object | None = field(default=None, compare=False, repr=False)
    promises: object | None = field(default=None, compare=False, repr=False)
    loss: tuple[str, tuple[int, int, int], dict[str, int]] | None = field(default=None, compare=False, repr=False)
    actor: str = field(default="", compare=False, repr=False)
    actor_verified: bool = field(default=False, compare=False, repr=False)
