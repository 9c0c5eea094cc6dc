"""Rows of nodes, jobs and projects for the web page. They depend on records only, never on the wall clock.

Values come from `bailiff.render.serializers`. A job's queue position is not part of its row: the queue is sent separately,
because removing its head would change every row.
"""

from bailiff.render.serializers.jobs import CurrentJob, current_job
from bailiff.render.serializers.nodes import DeviceStateWord, Holder, NodeRow
from bailiff.render.serializers.projects import ProjectRow
from bailiff.render.serializers.times import moment
from bailiff_core.explain.unblockers import expected_return
from bailiff_core.humanize import duration_text
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.state import Job, Node, PoolState
from bailiff_core.views import NodeView, PendingReason

from .view_cache import ViewCache

Cell = tuple[DeviceStateWord, str | None, str | None, list[str], str | None]
"""A GPU: state, job it is allocated to, job it is reserved for, tasks that share it (`job/task`), fault."""


class LiveNode(NodeView):
    """A node. drain: its mode. devices: a cell for each GPU or MIG device.

    kinds: number, MIG profile and island of each device; null: GPUs without either, numbered from 0.
    """

    number: int
    drain: str | None
    devices: list[Cell]
    kinds: list[tuple[int, str | None, str | None]] | None
    cpu_milli_free: int
    memory_bytes_free: int
    labels: dict[str, str]


class LiveJob(CurrentJob, PendingReason):
    """A job that has not ended. pending_rule: the protection that excludes most candidates. restart_estimate: in a sentence."""

    pending_rule: str | None
    restart_estimate: str | None


class LiveProject(ProjectRow):
    """A project with totals of it and its descendants since the log began, as accounting counts `preemptions` and `lost`.

    evictions_caused: victims chosen for its jobs.
    """

    evictions_suffered: int
    evictions_caused: int
    gpu_hours_lost: float


def live_node(row: NodeRow) -> LiveNode:
    """The node as cells."""
    drain, devices = row["drain"], row["devices"]
    plain = all(each["number"] == at and not each["profile"] and not each["island"] for at, each in enumerate(devices))
    return {
        "node": row["node"],
        "number": row["number"],
        "state": row["state"],
        "drain": drain["mode"] if drain is not None else None,
        "gpus": row["gpus"],
        "gpu_models": row["gpu_models"],
        "machine_id": row["machine_id"],
        "devices": [
            (each["state"], each["job"], each["reserved_for"], each["shared_by"], each["fault"] or None) for each in devices
        ],
        "kinds": None if plain else [(each["number"], each["profile"] or None, each["island"] or None) for each in devices],
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


def live_job(state: PoolState, job: Job, view_cache: ViewCache) -> LiveJob:
    """Row of a job that has not ended."""
    current = current_job(state, job)
    pending = view_cache.pending.get(job.id) if current["pending_since"] is not None else None
    return {
        **current,
        "pending_reason": pending.text if pending is not None else None,
        "pending_reason_seq": pending.seq if pending is not None else None,
        "pending_reason_at": moment(pending.at) if pending is not None else None,
        "pending_rule": pending.rule if pending is not None else None,
        "restart_estimate": _restart_estimate(state, job),
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


def live_project(row: ProjectRow, below: list[str], view_cache: ViewCache) -> LiveProject:
    tallies = [view_cache.tallies[name] for name in below if name in view_cache.tallies]
    return {
        **row,
        "evictions_suffered": sum(each.preempted for each in tallies),
        "evictions_caused": sum(each.caused for each in tallies),
        "gpu_hours_lost": sum(each.work_lost_gpu_ms for each in tallies) / 3_600_000,
    }
