"""Rows of nodes, jobs and projects for the web page. They depend on records only, never on the wall clock.

Values come from `bailiff.render.serializers`. A job's queue position is not part of its row: the queue is sent separately,
because removing its head would change every row.
"""

from typing import Any

from bailiff.client.projects import ProjectRow
from bailiff.render.serializers.jobs import JobRow, job_row
from bailiff.render.serializers.nodes import Holder, NodeRow
from bailiff.render.serializers.times import moment
from bailiff_core.explain.unblockers import expected_return
from bailiff_core.humanize import duration_text
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.state import Eviction, Job, Node, PoolState

from .view_cache import ViewCache

Row = dict[str, Any]


def node_cells(row: NodeRow) -> Row:
    """A node. gpus: [state, job, reserved for, sharing tasks, fault] each.

    kinds: [number, MIG profile, island] each, or null where none has a profile or an island.
    """
    drain, devices = row["drain"], row["devices"]
    plain = all(each["number"] == at and not each["profile"] and not each["island"] for at, each in enumerate(devices))
    return {
        "node": row["node"],
        "number": row["number"],
        "state": row["state"],
        "drain": drain["mode"] if drain is not None else None,
        "quarantined": row["gpus_quarantined"],
        "gpus": [
            [each["state"], each["job"], each["reserved_for"], each["shared_by"], each["fault"] or None] for each in devices
        ],
        "kinds": None if plain else [[each["number"], each["profile"] or None, each["island"] or None] for each in devices],
        "model": ", ".join(row["gpu_models"]),
        "cpu_milli": row["cpu_milli"],
        "cpu_milli_free": row["cpu_milli_free"],
        "memory_bytes": row["memory_bytes"],
        "memory_bytes_free": row["memory_bytes_free"],
        "labels": row["labels"],
    }


def holders_of(node: Node, jobs: list[Job]) -> dict[tuple[int, int], list[Holder]]:
    """Tasks of these jobs by device of the node, oldest job first."""
    found: dict[tuple[int, int], list[Holder]] = {}
    for job in sorted(jobs, key=lambda job: (job.seq, job.id)):
        for task in job.tasks:
            if task.node == node.number and task.state != "released":
                for device in bits(task.devices):
                    found.setdefault((node.number, device), []).append((job, task))
    return found


def live_job(state: PoolState, job: Job, view_cache: ViewCache) -> Row:
    """Row of a job that has not ended."""
    row = job_row(state, job, state.now)
    pending = view_cache.pending.get(job.id)
    steps = [task.step for task in job.tasks if task.step is not None]
    checkpoints = [task.checkpoint_step for task in job.tasks if task.checkpoint_step is not None]
    is_pending = row["pending_s"] is not None
    return {
        **_copied_fields(row),
        "priority_class": row["priority_class"],
        "placed_tasks": row["placed_tasks"],
        "pending_since": moment(max(job.submitted_at, job.last_eviction or 0)) if is_pending else None,
        "pending_reason": pending.text if pending is not None and is_pending else "",
        "pending_reason_at": moment(pending.at) if pending is not None and is_pending else None,
        "pending_reason_seq": pending.seq if pending is not None and is_pending else None,
        "pending_rule": pending.rule if pending is not None and is_pending else None,
        "user": job.user or view_cache.owners.get(job.id, ""),
        "user_verified": job.user_verified,
        "step": max(steps) if steps else job.step,
        "checkpoint_step": max(checkpoints) if checkpoints else None,
        "checkpoint_at": moment(job.last_checkpoint),
        "eviction": _eviction(job, job.eviction) if job.eviction is not None else None,
        "restart_estimate": _restart_estimate(state, job),
    }


COPIED_FIELDS = (
    "job", "project", "priority", "preemptible", "state", "gpus", "gpus_text", "tasks", "min_tasks", "nodes", "reserved_nodes",
    "attempt", "evictions", "submitted_at", "started_at", "note",
)  # fmt: skip


def _copied_fields(row: JobRow) -> Row:
    fields: Row = dict(row)
    return {name: fields[name] for name in COPIED_FIELDS}


def _eviction(job: Job, eviction: Eviction) -> Row:
    reached = [(at, stage) for task in job.tasks for stage, at in task.stage_times.items()]
    return {
        "for_job": eviction.for_job,
        "cause": eviction.cause,
        "stage": max(reached)[1] if reached else ("started" if eviction.started_seq is not None else "decided"),
        "decided_seq": eviction.decided_seq,
        "started_at": moment(eviction.started_at),
        "deadline": moment(eviction.started_at + eviction.grace) if eviction.started_at is not None else None,
    }


def _restart_estimate(state: PoolState, job: Job) -> str | None:
    """When an evicted job restarts; estimates that need a search are left to `explain`."""
    evicting = job.phase == "evicting"
    if evicting and job.demand.on_eviction == "end":
        return "It is not requeued: it was submitted with on_eviction: end."
    if job.reservation or (job.phase == "reserved" and job.last_eviction is not None):
        return next((sentence.text for sentence in expected_return(state, job)), None)
    if evicting and job.eviction is not None and not job.cancelled:
        return f"It is requeued at its previous position at most {duration_text(job.eviction.grace)} after the eviction notice."
    return None


def live_project(row: ProjectRow, below: list[str], view_cache: ViewCache) -> Row:
    """Row of a project, with eviction totals of it and its descendants since the log began."""
    tallies = [view_cache.tallies[name] for name in below if name in view_cache.tallies]
    return {
        **row,
        "evictions_suffered": sum(each.suffered for each in tallies),
        "evictions_caused": sum(each.caused for each in tallies),
        "gpu_hours_lost": round(sum(each.lost_gpu_ms for each in tallies) / 3_600_000, 3),
    }
