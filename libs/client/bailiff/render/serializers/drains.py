"""The effect of a drain on the jobs of a node."""

from typing import TypedDict

from bailiff.client.drain_preview import drain_targets
from bailiff_core.lifecycle.operator_actions import affected_by_drain, drain_grace
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.state import Drain, Node, PoolState
from bailiff_core.model.work_lost import counted_gpu_milli, lost_gpu_ms

from .jobs import gpus_of_tasks


class AffectedRow(TypedDict):
    """The effect of a drain on one job.

    effect: `migrates`, `evicted`, `shrinks`, `reservation moves` or `already evicting`. to: the target nodes.
    """

    job: str
    priority_class: str
    priority: int
    effect: str
    to: list[str]
    tasks: str
    gpus: str
    grace_s: int
    lost_gpu_ms: int


def affected_rows(state: PoolState, node: Node, drain: Drain) -> list[AffectedRow]:
    """The effect of such a drain on each job of the node."""
    rows: list[AffectedRow] = []
    moves = drain_targets(state, node, drain)
    for each in affected_by_drain(state, node):
        job = each.job
        tasks = [task for task in job.tasks if each.whole or task.index in each.tasks]
        effect = "reservation moves" if each.reserved else "evicted" if each.whole else "shrinks"
        effect = "migrates" if job.id in moves else effect
        rows.append(
            {
                "job": job.id,
                "priority_class": job.class_name,
                "priority": job.priority,
                "effect": "already evicting" if job.eviction is not None and not each.reserved else effect,
                "to": moves.get(job.id, []),
                "tasks": ranges(each.tasks),
                "gpus": gpus_of_tasks(job.group(index) for index in each.tasks),
                "grace_s": drain_grace(state, job, drain) // 1_000_000,
                "lost_gpu_ms": 0 if each.reserved else lost_gpu_ms(state, job, counted_gpu_milli(state, job, tasks)),
            }
        )
    return rows
