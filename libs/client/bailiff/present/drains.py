"""What a drain of a node means for whom."""

from typing import TypedDict

from bailiff.draining import would_move
from bailiff_core.lifecycle.by_hand import affected_by_drain, drain_grace
from bailiff_core.model.loss import held_gpu_milli, lost_gpu_ms
from bailiff_core.model.places import ranges
from bailiff_core.model.pool import Drain, Node, Pool

from .jobs import gpus_of_tasks


class AffectedRow(TypedDict):
    """What a drain of a node means for one job. what: `moves`, `leaves`, `shrinks` or `promise goes elsewhere`; to: where to."""

    job: str
    priority_class: str
    priority: int
    what: str
    to: list[str]
    tasks: str
    gpus: str
    grace_s: int
    lost_gpu_ms: int


def affected_rows(pool: Pool, node: Node, drain: Drain) -> list[AffectedRow]:
    """What such a drain of the node means for whom."""
    rows: list[AffectedRow] = []
    moves = would_move(pool, node, drain)
    for each in affected_by_drain(pool, node):
        job = each.job
        tasks = [task for task in job.tasks if each.whole or task.index in each.tasks]
        what = "promise goes elsewhere" if each.promised else "leaves" if each.whole else "shrinks"
        what = "moves" if job.id in moves else what
        rows.append(
            {
                "job": job.id,
                "priority_class": job.class_name,
                "priority": job.priority,
                "what": "is leaving already" if job.eviction is not None and not each.promised else what,
                "to": moves.get(job.id, []),
                "tasks": ranges(each.tasks),
                "gpus": gpus_of_tasks(job.group(index) for index in each.tasks),
                "grace_s": drain_grace(pool, job, drain) // 1_000_000,
                "lost_gpu_ms": 0 if each.promised else lost_gpu_ms(pool, job, held_gpu_milli(pool, job, tasks)),
            }
        )
    return rows
