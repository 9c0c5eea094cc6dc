"""Ends the jobs that a stopped node agent has left running, as a power cut would: without a trace on the node.

Supervisors outlive their agent on purpose, so whoever takes a whole system down has to end them. The next agent finds
nothing, says so, and the jobs are queued again; none of them counts as failed.
"""

import asyncio
from pathlib import Path

from bailiff_node_agent.runtime import Exit, ProcessRuntime


def end_jobs(state: Path) -> int:
    """End every task below this state folder (the services' `BAILIFF_STATE_DIR`); how many still ran."""
    return asyncio.run(_end_all([folder.parent for folder in state.glob("node-agent/*/*/tasks")]))


async def _end_all(nodes: list[Path]) -> int:
    ended = 0
    for folder in nodes:
        runtime = ProcessRuntime(folder)
        for found in await runtime.adopt():
            if not isinstance(found, Exit):
                await runtime.kill(found.key)
                await runtime.wait_exit()
                ended += 1
            await runtime.forget(found.key)
        await runtime.close()
    return ended
