"""Pools."""

from collections.abc import Sequence
from typing import TypedDict

from bailiff_core.model.policy import VERBS
from bailiff_core.model.pool import Pool

from .nodes import NodeRow, node_rows
from .times import moment


class PoolRow(TypedDict):
    """One pool in `bailiff pools` and `bailiff pool list`. verbs_off: what the policy switches off; scope: of preempt."""

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
    gpus_held: int
    gpus_reserved: int
    gpus_quarantined: int
    gpus_unhealthy: int
    jobs_running: int
    jobs_waiting: int
    jobs_leaving: int
    jobs_paused: int
    preempting: bool
    orphans: int
    verbs_off: list[str]
    scope: str
    projects: int


def pool_row(pool: Pool, now: int, orphans: int = 0, rows: Sequence[NodeRow] | None = None) -> PoolRow:
    """One pool's row. rows: of its nodes, where they are known."""
    rows = node_rows(pool) if rows is None else rows
    phases = [job.phase for job in pool.active_jobs()]
    return {
        "pool": pool.domain,
        "partition": pool.partition,
        "head_seq": pool.seq,
        "head_time": moment(pool.now),
        "head_age_s": max(0, now - pool.now) // 1_000_000,
        "epoch": pool.epoch,
        "engine": pool.engine,
        "policy_seq": pool.policy_revision,
        "nodes": len(rows),
        "nodes_ready": sum(row["state"] == "ready" for row in rows),
        "nodes_drained": sum(row["drain"] is not None for row in rows),
        "gpus": sum(row["gpus"] for row in rows),
        "gpus_free": sum(row["gpus_free"] for row in rows),
        "gpus_held": sum(row["gpus_held"] + row["gpus_leaving"] + row["gpus_shared"] for row in rows),
        "gpus_reserved": sum(row["gpus_reserved"] for row in rows),
        "gpus_quarantined": sum(row["gpus_quarantined"] for row in rows),
        "gpus_unhealthy": sum(row["gpus_unusable"] - row["gpus_quarantined"] for row in rows),
        "jobs_running": sum(phase in ("starting", "running") for phase in phases),
        "jobs_waiting": sum(name not in pool.active for name in pool.queue) + phases.count("reserved"),
        "jobs_leaving": phases.count("evicting"),
        "jobs_paused": sum(job.phase == "paused" for job in pool.jobs.values()),
        "preempting": pool.selection is not None or bool(pool.plans),
        "orphans": orphans,
        "verbs_off": verbs_off(pool),
        "scope": pool.rules.scope,
        "projects": len(pool.rules.projects),
    }


def verbs_off(pool: Pool) -> list[str]:
    """The verbs that the policy switches off; consolidate also where it may move no job."""
    rules = pool.rules.preemption
    return [verb for verb in VERBS if verb not in rules.verbs or (verb == "consolidate" and rules.most_moved == 0)]
