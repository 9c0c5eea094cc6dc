"""Kills the tasks that a stopped node agent has left running, as a power failure would.

Supervisors outlive their agent, so stopping a whole system must stop them, too. The next agent finds no tasks and reports
that; their jobs are requeued, and none of them counts as failed.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

from bailiff_node_agent.runtime import Exit
from bailiff_node_agent.runtime.process import ProcessRuntime, cgroups_of
from bailiff_node_agent.runtime.supervised import SupervisedRuntime


def end_jobs(state: Path) -> int:
    """Kill every task below this state folder (the services' `BAILIFF_STATE_DIR`); how many were running."""
    return asyncio.run(_end_all(_runtimes(state)))


def _runtimes(state: Path) -> Iterator[SupervisedRuntime]:
    """Those of all nodes that have started tasks as processes or containers."""
    for tasks in sorted(state.glob("node-agent/*/*/tasks")):
        yield ProcessRuntime(tasks.parent, cgroups=cgroups_of(tasks.parent))
    for tasks in sorted(state.glob("node-agent/*/*/docker/tasks")):
        from bailiff_node_agent.runtime.docker import ENGINE, DockerRuntime  # imported here: its client is optional

        yield DockerRuntime(tasks.parent, engine=os.environ.get("BAILIFF_DOCKER_ENGINE", ENGINE))


async def _end_all(runtimes: Iterator[SupervisedRuntime]) -> int:
    ended = 0
    for runtime in runtimes:
        for found in await runtime.adopt():
            if not isinstance(found, Exit):
                await runtime.kill(found.key)
                await runtime.wait_exit()
                ended += 1
            await runtime.forget(found.key)
        await runtime.close()
    return ended
