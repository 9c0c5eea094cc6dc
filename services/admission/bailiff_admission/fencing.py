"""Fences for nodes: an agent refuses commands of earlier epochs once it has received the fence."""

from bailiff_bus.messages.commands import Fence
from bailiff_core.model.state import PoolState


class Fencing:
    """Tracks the incarnations of each node, newest last."""

    def __init__(self) -> None:
        self._incarnations: dict[str, dict[str, None]] = {}

    def observe(self, node: str, incarnation: str) -> None:
        """Record a report of this incarnation of the node."""
        known = self._incarnations.setdefault(node, {})
        known.pop(incarnation, None)  # an earlier one that has joined again is the newest
        known[incarnation] = None

    def all(self, state: PoolState) -> list[Fence]:
        """Fences for all nodes whose agent is in the log."""
        return [fence for name in state.node_numbers if (fence := self.of(state, name)) is not None]

    def of(self, state: PoolState, name: str) -> Fence | None:
        """None for an agent that has rejoined since, possibly in lost records: the fence would make it drop its tasks."""
        node, incarnations = state.nodes[state.node_numbers[name]], self._incarnations.get(name)
        if incarnations and next(reversed(incarnations)) != node.incarnation:
            return None
        return Fence(
            node=name,
            incarnation=node.incarnation,
            sender="admission",
            sender_epoch=state.epoch,
            lease=state.rules.nodes.lease,
            lost_margin=state.rules.nodes.lost_margin,
            revoked_keys=tuple(state.revoked_keys),
            root_key_changes=tuple(state.root_key_changes),
            log_end=state.seq,
        )
