"""What this writer remembers of each agent. Agents say which incarnation they are, so each is known by its node as well."""

from typing import Generic, TypeVar

from bailiff_core.model.state import PoolState

Value = TypeVar("Value")
MAX_OF_NODE = 16


class AgentValues(Generic[Value]):
    """A value of each agent. Of one node's, the one that has joined and the newest others: a node may invent any number.

    Rebuilt after a restart.
    """

    def __init__(self) -> None:
        self._of: dict[str, dict[str, Value]] = {}

    def get(self, node: str, incarnation: str) -> Value | None:
        """The agent's; None if there is none."""
        return self._of.get(node, {}).get(incarnation)

    def put(self, state: PoolState, node: str, incarnation: str, value: Value) -> None:
        """The agent has this value now."""
        agents, number = self._of.setdefault(node, {}), state.node_numbers.get(node)
        agents.pop(incarnation, None)
        agents[incarnation] = value
        if len(agents) > MAX_OF_NODE:
            joined = None if number is None else state.nodes[number].incarnation
            del agents[next(each for each in agents if each != joined)]
