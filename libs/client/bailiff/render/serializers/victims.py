"""Jobs that lose resources: to a preemption, a drain or another request."""

from collections.abc import Iterable

from bailiff_core.actions.migrate import drain_migrations
from bailiff_core.fold import enact
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.lifecycle.operator_actions import affected_by_drain, drain_grace
from bailiff_core.model.state import Drain, Job, Node, PoolState, Task
from bailiff_core.model.units import has_resources
from bailiff_core.model.work_lost import eviction_loss
from bailiff_core.records.decisions import MigrationDecided
from bailiff_core.views import Effect, VictimView, effect_on, nodes_of, victim_view

from .jobs import gpus_of_tasks


class AffectedView(VictimView):
    """The effect of a request on one job.

    Attributes:
        gpus_text: The GPUs as text, including GPU memory.
    """

    gpus_text: str
    grace_s: int


def affected(job: Job, tasks: Iterable[Task], view: VictimView, grace: int) -> AffectedView:
    """The effect on the job.

    Args:
        tasks: The tasks that it loses.
        grace: µs.
    """
    text = gpus_of_tasks(job.group(task.index) for task in tasks)
    return {**view, "gpus_text": text, "grace_s": grace // 1_000_000}


def affected_by(state: PoolState, node: Node, drain: Drain) -> list[AffectedView]:
    """The effect of such a drain on each job of the node."""
    found: list[AffectedView] = []
    moves = drain_targets(state, node, drain)
    for each in affected_by_drain(state, node):
        job = each.job
        placed = (*job.tasks, *job.reservation) if each.reserved else job.tasks
        tasks = [task for task in placed if each.whole or task.index in each.tasks]
        effect: Effect = "reservation moves" if each.reserved else effect_on(job, whole=each.whole)
        effect = "migrates" if job.id in moves else effect
        effect = "already evicting" if job.eviction is not None and not each.reserved else effect
        leaving = [] if each.reserved else [task for task in tasks if has_resources(task)]
        loss = eviction_loss(state, job, leaving, whole=each.whole, moved=job.id in moves)
        view = victim_view(state, job, tasks, loss, effect, moves.get(job.id, ()))
        found.append(affected(job, tasks, view, drain_grace(state, job, drain)))
    return found


def drain_targets(state: PoolState, node: Node, drain: Drain) -> dict[str, list[str]]:
    """The new nodes of each job's tasks. Jobs that are not in it would return to the queue, or may finish."""
    if state.cycle_open:
        return {}  # the log ends within a decision cycle, whose other decisions are not known yet
    copy = from_snapshot(to_snapshot(state))
    copy.nodes[node.number].drain = drain
    copy.draining[node.number] = None
    copy.indices.retry_unschedulable = True
    found: dict[str, list[str]] = {}
    for decision in drain_migrations(copy):
        enact(copy, decision)
        if isinstance(decision, MigrationDecided):
            found[decision.job] = nodes_of(copy, decision.placement)
    return found
