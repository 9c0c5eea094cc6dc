"""Fences for nodes: commands of earlier epochs are dead once an agent has heard of this one."""

from bailiff_bus.messages import Fence
from bailiff_core.model.pool import Pool


class Fencing:
    """Remembers under which incarnations each node was heard, the newest last."""

    def __init__(self) -> None:
        self._incarnations: dict[str, dict[str, None]] = {}

    def heard(self, node: str, incarnation: str) -> None:
        """An agent speaks for this node."""
        self._incarnations.setdefault(node, {}).setdefault(incarnation)

    def all(self, pool: Pool) -> list[Fence]:
        """For each node whose agent the log knows."""
        return [fence for name in pool.node_numbers if (fence := self.of(pool, name)) is not None]

    def of(self, pool: Pool, name: str) -> Fence | None:
        """None for an agent that has joined anew since, perhaps in records that are lost: it would let go of its tasks."""
        node, heard = pool.nodes[pool.node_numbers[name]], self._incarnations.get(name)
        if heard and next(reversed(heard)) != node.incarnation:
            return None
        return Fence(
            node=name,
            incarnation=node.incarnation,
            sender="admission",
            sender_epoch=pool.epoch,
            lease=pool.rules.nodes.lease,
            lost_margin=pool.rules.nodes.lost_margin,
        )
