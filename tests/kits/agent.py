"""A node agent that tests give commands directly, without Kafka."""

from pathlib import Path
from typing import Any

from bailiff_bus.messages.commands import CommandBody, JobCommand
from bailiff_node_agent.agent import Agent
from bailiff_node_agent.agent_context import AgentContext
from bailiff_node_agent.disk import MemoryStorage, new_incarnation
from bailiff_node_agent.settings import NodeDeclaration
from bailiff_node_agent.snapshots import DiskImages


def context_on(storage: MemoryStorage, **parts: Any) -> AgentContext:
    """What an agent of the node n1 is given, on this disk. parts: its inventory and runtimes, and what is not as here."""
    given = {
        "node": NodeDeclaration(name="n1", pool="pool-a", gpus="2xH100-80GB"),
        "incarnation": new_incarnation(storage, machine_id="m1"),
        "folder": Path("/nowhere"),
    }
    given |= parts
    return AgentContext(storage=storage, **{"images": DiskImages(given["folder"] / "staging"), **given})


async def carry_out(agent: Agent, command: CommandBody) -> None:
    """Have the agent obey the command, and wait until the tasks that it starts have been started."""
    await agent.obey(command)
    if isinstance(command, JobCommand):
        await agent.launched(command.job)
