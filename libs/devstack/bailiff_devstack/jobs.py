"""Kills the tasks that a stopped node agent has left running, as a power failure would.

Supervisors outlive their agent, so stopping a whole system must stop them, too. The next agent finds no tasks and reports
that; their jobs are requeued, and none of them counts as failed.
"""

import asyncio
from pathlib import Path

from bailiff_node_agent.runtime import Exit
from bailiff_node_agent.runtime.process import ProcessRuntime, cgroups_of


def end_jobs(state: Path) -> int:
    """Kill every task below this state folder (the services' `BAILIFF_STATE_DIR`); how many were running."""
    return asyncio.run(_end_all([folder.parent for folder in state.glob("node-agent/*/*/tasks")]))


async def _end_all(nodes: list[Path]) -> int:
    ended = 0
    for folder in nodes:
        runtime = ProcessRuntime(folder, cgroups=cgroups_of(folder))
        for found in await runtime.adopt():
            if not isinstance(found, Exit):
                await runtime.kill(found.key)
                await runtime.wait_exit()
                ended += 1
            await runtime.forget(found.key)
        await runtime.close()
    return ended
