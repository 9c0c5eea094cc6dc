"""A node agent that tests give commands directly, without Kafka."""

from bailiff_bus.messages.commands import CommandBody, JobCommand
from bailiff_node_agent.agent import Agent


async def carry_out(agent: Agent, command: CommandBody) -> None:
    """Have the agent obey the command, and wait until the tasks that it starts have been started."""
    await agent.obey(command)
    if isinstance(command, JobCommand):
        await agent.launched(command.job)
