"""Messages of nodes that admission does not read: each counts once, in the order in which its node has signed them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from bailiff_bus.envelope import Envelope
from bailiff_core.model.state import PoolState

from .message_signatures import check_node


@dataclass(slots=True)
class NodeMessages:
    """The newest time that each node of a pool has signed, and when its agent had announced itself by then, both µs.

    An agent whose clock was set back begins anew. Without it anybody could send a kept message again and again.
    """

    newest: dict[str, tuple[int, int]] = field(default_factory=dict)

    def check(self, envelope: Envelope, state: PoolState, node: str) -> None:
        """Raises `InvalidMessage` unless it is this node's next message. In a pool without a root key all are."""
        check_node(envelope, state, node)
        if not state.root_key:
            return
        announced = state.enrolled[node].announced
        time, before = self.newest.get(node, (0, 0))
        if envelope.time <= (time if announced == before else min(time, announced)):
            raise envelope.refused("replayed", f"{node} has sent newer messages: this one was stored before, or out of order")
        self.newest[node] = envelope.time, announced

    def to_data(self) -> list[tuple[str, int, int]]:
        """As JSON."""
        return [(node, *times) for node, times in sorted(self.newest.items())]

    @classmethod
    def from_data(cls, data: Iterable[tuple[str, int, int]]) -> Self:
        """What `to_data` serialized."""
        return cls({node: (time, announced) for node, time, announced in data})
