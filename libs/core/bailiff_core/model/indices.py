"""Indices over the state that are kept between decision cycles; all can be rebuilt from the state.

They are not part of the state's digest or snapshot. The fold records what it changed (`changed_*`); the code that updates
an index reads these sets and clears them.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Indices:
    """Indices of one pool's state.

    touched: jobs affected by the facts of this cycle. queued: the jobs in `PoolState.queue`, for look-up.
    retry_unschedulable: a gang that did not fit may fit now. Until then `unschedulable` has the reason by
    scheduling class. to_schedule: queued jobs that allocate must try. backfill_blocked: jobs that fit but
    would have delayed the head of the queue. withheld: jobs that in this cycle fit but might be evicted at once, by a job that
    requests preemption or that returns to the queue; they stay in to_schedule and request nothing.
    head_reservation: the head's reservation at that time (`actions/allocate.py`).
    assumed_evicted: backfilled jobs that the completion forecast takes as gone (`queue/backfill.py`).
    infeasible: by scheduling class, why a gang never fits these nodes; empty: it may fit.
    changed_nodes, changed_jobs: changed since `snapshot` was last brought up to date; changed_times: since `timers` was;
    changed_ends: since `completion_order` was. forgotten: entries deleted from the state's dicts since their last rebuild.
    actor: that of the record that was folded last; actor_verified: whether that is known.
    snapshot, node_resources, timers, completion_order, project_tree: built by the modules of these names, which check the type.
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
    queued: dict[str, None] = field(default_factory=dict, compare=False, repr=False)
    changed_nodes: dict[int, None] = field(default_factory=dict, compare=False, repr=False)
    changed_jobs: dict[str, None] = field(default_factory=dict, compare=False, repr=False)
    changed_times: dict[str, None] = field(default_factory=dict, compare=False, repr=False)
    changed_ends: dict[str, None] = field(default_factory=dict, compare=False, repr=False)
    forgotten: int = field(default=0, compare=False, repr=False)
    snapshot: object | None = field(default=None, compare=False, repr=False)
    node_resources: object | None = field(default=None, compare=False, repr=False)
    timers: object | None = field(default=None, compare=False, repr=False)
    completion_order: object | None = field(default=None, compare=False, repr=False)
    project_tree: object | None = field(default=None, compare=False, repr=False)
    actor: str = field(default="", compare=False, repr=False)
    actor_verified: bool = field(default=False, compare=False, repr=False)
