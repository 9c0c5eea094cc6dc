"""Serializers of pools: `bailiff pools`, `bailiff pool list`."""

from collections.abc import Sequence
from typing import TypedDict

from bailiff_core.model.policy import ACTIONS
from bailiff_core.model.state import PoolState

from .nodes import NodeRow, node_rows
from .times import moment


class PoolRow(TypedDict):
    """One pool in `bailiff pools` and `bailiff pool list`. disabled_actions: by the policy; scope: of preempt."""

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
    gpus: int
    gpus_free: int
    gpus_allocated: int
    gpus_reserved: int
    gpus_quarantined: int
    gpus_unhealthy: int
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
    """The row of one pool. now: µs UTC. rows: of its nodes, if known."""
    rows = node_rows(state) if rows is None else rows
    phases = [job.phase for job in state.active_jobs()]
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
        "gpus": sum(row["gpus"] for row in rows),
        "gpus_free": sum(row["gpus_free"] for row in rows),
        "gpus_allocated": sum(row["gpus_allocated"] + row["gpus_releasing"] + row["gpus_shared"] for row in rows),
        "gpus_reserved": sum(row["gpus_reserved"] for row in rows),
        "gpus_quarantined": sum(row["gpus_quarantined"] for row in rows),
        "gpus_unhealthy": sum(row["gpus_unusable"] - row["gpus_quarantined"] for row in rows),
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
