"""Nodes that a selector names: those of the cluster now, and those that are added later. One that is deleted keeps its agent."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from pydantic import ValidationError

from bailiff_service.logs import logger

from .agent import Agent
from .runtime.kubernetes.cluster_view import ClusterView
from .settings import NodeDeclaration


class Discovery:
    """declared: all nodes of this process; those with a selector are looked for."""

    def __init__(self, cluster: ClusterView, declared: Sequence[NodeDeclaration]) -> None:
        self._cluster, self._declared = cluster, declared
        self._known = {node.name for each in declared for node in each.each()}

    def new(self) -> Iterator[NodeDeclaration]:
        """Nodes that were not known before, each once."""
        for declared in self._declared:
            for name in self._cluster.selected(declared.selector) if declared.selector is not None else ():
                if name in self._known:
                    continue
                self._known.add(name)
                try:
                    yield NodeDeclaration.model_validate({**declared.model_dump(), "name": name, "selector": None})
                except ValidationError:
                    logger().error("a node is left out: its name is not one that Bailiff can use", node=name)

    async def run(self, add: Callable[[NodeDeclaration], Awaitable[Agent]]) -> None:
        """Add agents for new nodes, and run them, without end."""
        async with asyncio.TaskGroup() as agents:
            while True:
                for node in [*self.new()]:
                    agents.create_task((await add(node)).run())
                await self._cluster.wait_node()
