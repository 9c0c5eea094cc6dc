"""One node, one job, one project as the page has them. Nothing here depends on the wall clock: a row changes with a record.

What a row says comes from `bailiff.present`; here it is only brought into the page's shape. A job's place in the queue is
not in its row, but in the queue, which is sent beside the rows: one job less at its head would change all of them.
"""

from typing import Any

from bailiff.present.jobs import JobRow, job_row
from bailiff.present.nodes import Holder, NodeRow
from bailiff.present.times import moment
from bailiff.projects import ProjectRow
from bailiff_core.explain.freeing import when_back
from bailiff_core.model.places import bits
from bailiff_core.model.pool import Eviction, Job, Node, Pool
from bailiff_core.words import duration_text

from .memo import Memo

Row = dict[str, Any]


def node_cells(row: NodeRow) -> Row:
    """A node: its GPUs as [state, job, reserved for, all who share it, trouble]."""
    drain = row["drain"]
    return {
        "node": row["node"],
        "number": row["number"],
        "state": row["state"],
        "drain": drain["mode"] if drain is not None else None,
        "quarantined": row["gpus_quarantined"],
        "gpus": [
            [each["state"], each["job"], each["reserved_for"], each["shared_by"], each["trouble"] or None]
            for each in row["devices"]
        ],
        "model": ", ".join(row["gpu_models"]),
        "cpu_milli": row["cpu_milli"],
        "cpu_milli_free": row["cpu_milli_free"],
        "memory_bytes": row["memory_bytes"],
        "memory_bytes_free": row["memory_bytes_free"],
        "labels": row["labels"],
    }


def holders_of(node: Node, jobs: list[Job]) -> dict[tuple[int, int], list[Holder]]:
    """Who of these jobs stands on which of the node's devices, the job that came first being the first."""
    found: dict[tuple[int, int], list[Holder]] = {}
    for job in sorted(jobs, key=lambda job: (job.seq, job.id)):
        for task in job.tasks:
            if task.node == node.number and task.state != "released":
                for device in bits(task.devices):
                    found.setdefault((node.number, device), []).append((job, task))
    return found


def live_job(pool: Pool, job: Job, memo: Memo) -> Row:
    """A job that has not ended."""
    row = job_row(pool, job, pool.now)
    why = memo.why.get(job.id)
    steps = [task.step for task in job.tasks if task.step is not None]
    saved = [task.checkpoint_step for task in job.tasks if task.checkpoint_step is not None]
    waits = row["waiting_s"] is not None
    return {
        **_same(row),
        "class": row["priority_class"],
        "placed": row["placed_tasks"],
        "waiting_since": moment(max(job.submitted_at, job.last_eviction or 0)) if waits else None,
        "why": why.text if why is not None and waits else "",
        "why_seq": why.seq if why is not None and waits else None,
        "why_rule": why.rule if why is not None and waits else None,
        "user": job.user or memo.owners.get(job.id, ""),
        "step": max(steps) if steps else job.step,
        "checkpoint_step": max(saved) if saved else None,
        "checkpoint_at": moment(job.last_checkpoint),
        "eviction": _eviction(job, job.eviction) if job.eviction is not None else None,
        "back": _back(pool, job),
    }


SAME = (
    "job", "project", "priority", "preemptible", "state", "gpus", "gpus_text", "tasks", "min_tasks", "nodes", "reserved_nodes",
    "attempt", "evictions", "submitted_at", "started_at", "note",
)  # fmt: skip


def _same(row: JobRow) -> Row:
    whole: Row = dict(row)
    return {name: whole[name] for name in SAME}


def _eviction(job: Job, eviction: Eviction) -> Row:
    reached = [(at, stage) for task in job.tasks for stage, at in task.reached.items()]
    return {
        "for_job": eviction.for_job,
        "cause": eviction.cause,
        "stage": max(reached)[1] if reached else ("began" if eviction.begun_seq is not None else "decided"),
        "decided_seq": eviction.decided_seq,
        "began_at": moment(eviction.begun_at),
        "deadline": moment(eviction.begun_at + eviction.grace) if eviction.begun_at is not None else None,
    }


def _back(pool: Pool, job: Job) -> str | None:
    """When it is back, for who had to leave; what only a search could tell is left to `explain`."""
    leaves = job.phase == "evicting"
    if leaves and job.demand.on_eviction == "end":
        return "It does not come back: its owner said on_eviction: end."
    if job.promise or (job.phase == "reserved" and job.last_eviction is not None):
        return next((sentence.text for sentence in when_back(pool, job)), None)
    if leaves and job.eviction is not None and not job.cancelled:
        return f"It goes back to the queue, at its old place, within {duration_text(job.eviction.grace)} of being told."
    return None


def live_project(row: ProjectRow, below: list[str], memo: Memo) -> Row:
    """A project, with what evictions did to it and to those below it since the log began."""
    tallies = [memo.tallies[name] for name in below if name in memo.tallies]
    return {
        **row,
        "evictions_suffered": sum(each.suffered for each in tallies),
        "evictions_caused": sum(each.caused for each in tallies),
        "gpu_hours_lost": round(sum(each.lost_gpu_ms for each in tallies) / 3_600_000, 3),
    }
