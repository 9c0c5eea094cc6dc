"""Serializers of pools: `bailiff pools`, `bailiff pool list`."""

from collections.abc import Sequence

from typing_extensions import TypedDict

from bailiff_core.model.policy import ACTIONS
from bailiff_core.model.state import PoolState
from bailiff_core.views import Gpus

from .nodes import NodeRow, node_rows
from .times import moment


class PoolRow(TypedDict):
    """One pool in `bailiff pools` and `bailiff pool list`.

    Attributes:
        disabled_actions: Actions that the policy disables.
        scope: Scope of `preempt`.
    """

    pool: str
    partition: int
    head_seq: int
    head_time: str | None
    head_age_s: int
    epoch: int
    engine: str
    policy_seq: int
    nodes: int
    nodes_ready: int
    nodes_drained: int
    gpus: Gpus
    gpus_free: Gpus
    gpus_allocated: Gpus
    gpus_reserved: Gpus
    gpus_quarantined: Gpus
    gpus_unhealthy: Gpus
    jobs_running: int
    jobs_pending: int
    jobs_evicting: int
    jobs_paused: int
    preempting: bool
    orphans: int
    disabled_actions: list[str]
    scope: str
    projects: int


def pool_row(state: PoolState, now: int, orphans: int = 0, rows: Sequence[NodeRow] | None = None) -> PoolRow:
    """The row of one pool.

    Args:
        now: µs UTC.
        rows: Rows of its nodes, if known.
    """
    rows = node_rows(state) if rows is None else rows
    phases = [job.phase for job in state.active_jobs()]

    def gpus(*names: str) -> float:
        return round(sum((row[name] for row in rows for name in names), start=0.0), 3)  # type: ignore[literal-required]

    return {
        "pool": state.pool,
        "partition": state.partition,
        "head_seq": state.seq,
        "head_time": moment(state.now),
        "head_age_s": max(0, now - state.now) // 1_000_000,
        "epoch": state.epoch,
        "engine": state.engine,
        "policy_seq": state.policy_revision,
        "nodes": len(rows),
        "nodes_ready": sum(row["state"] == "ready" for row in rows),
        "nodes_drained": sum(row["drain"] is not None for row in rows),
        "gpus": gpus("gpus"),
        "gpus_free": gpus("gpus_free"),
        "gpus_allocated": gpus("gpus_allocated", "gpus_releasing", "gpus_shared"),
        "gpus_reserved": gpus("gpus_reserved"),
        "gpus_quarantined": gpus("gpus_quarantined"),
        "gpus_unhealthy": round(gpus("gpus_unusable") - gpus("gpus_quarantined"), 3),
        "jobs_running": sum(phase in ("starting", "running") for phase in phases),
        "jobs_pending": sum(name not in state.active for name in state.queue) + phases.count("reserved"),
        "jobs_evicting": phases.count("evicting"),
        "jobs_paused": sum(job.phase == "paused" for job in state.jobs.values()),
        "preempting": state.selection is not None or bool(state.preemptions),
        "orphans": orphans,
        "disabled_actions": disabled_actions(state),
        "scope": state.rules.scope,
        "projects": len(state.rules.projects),
    }


def disabled_actions(state: PoolState) -> list[str]:
    """Actions disabled by the policy; consolidate also if max_migrations is 0."""
    rules = state.rules.preemption
    return [
        action for action in ACTIONS if action not in rules.actions or (action == "consolidate" and rules.max_migrations == 0)
    ]
