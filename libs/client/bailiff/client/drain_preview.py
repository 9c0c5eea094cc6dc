"""Where jobs would go if a node were emptied: decided on a copy of the state, by the rules that will decide it."""

from bailiff_core.actions.migrate import drain_migrations
from bailiff_core.fold import enact
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.model.state import Drain, Node, PoolState
from bailiff_core.records.decisions import MigrationDecided


def would_move(state: PoolState, node: Node, drain: Drain) -> dict[str, list[str]]:
    """The nodes on which a place would be kept, by job; who is not named would wait in the queue, or finish first."""
    if state.cycle_open:
        return {}  # the log ends within a turn at this moment: nothing is known of its end
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
