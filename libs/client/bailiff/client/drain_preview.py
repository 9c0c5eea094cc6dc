"""Preview of a drain: where the jobs of a node would migrate, decided by the scheduler's rules on a copy of the state."""

from bailiff_core.actions.migrate import drain_migrations
from bailiff_core.fold import enact
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.model.state import Drain, Node, PoolState
from bailiff_core.records.decisions import MigrationDecided


def drain_targets(state: PoolState, node: Node, drain: Drain) -> dict[str, list[str]]:
    """Target nodes by job. Jobs that are not in it would return to the queue, or may finish."""
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
            found[decision.job] = list(dict.fromkeys(copy.nodes[share.node].name for share in decision.placement))
    return found
