"""Where jobs would go if a node were emptied: decided on a copy of the state, by the rules that will decide it."""

from bailiff_core.fold import enact
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.model.pool import Drain, Node, Pool
from bailiff_core.records.decisions import MigrationDecided
from bailiff_core.verbs.migrate import moves_off_drained


def would_move(pool: Pool, node: Node, drain: Drain) -> dict[str, list[str]]:
    """The nodes on which a place would be kept, by job; who is not named would wait in the queue, or finish first."""
    if pool.turn_open:
        return {}  # the log ends within a turn at this moment: nothing is known of its end
    copy = from_snapshot(to_snapshot(pool))
    copy.nodes[node.number].drain = drain
    copy.drained[node.number] = None
    copy.room_grew = True
    found: dict[str, list[str]] = {}
    for decision in moves_off_drained(copy):
        enact(copy, decision)
        if isinstance(decision, MigrationDecided):
            found[decision.job] = list(dict.fromkeys(copy.nodes[share.node].name for share in decision.placement))
    return found
