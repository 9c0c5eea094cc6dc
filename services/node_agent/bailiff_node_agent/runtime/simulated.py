"""The runtime of simulated tasks: what `simulated_tasks` does, behind the runtime port."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .plugin import NodeParts, RuntimePlugin
from .port import Capabilities, Exit, JobMessage, Launch, Running, Steps, TaskKey
from .simulated_tasks import SimulatedMachine


class SimulatedRuntime:
    """A new one on the same machine replaces the one before, as a restarted agent does.

    `outlives_agent` is not declared: outside of a test, simulated tasks end with the agent's process.
    """

    capabilities = Capabilities(host_resources=False, outlives_agent=False)

    def __init__(self, machine: SimulatedMachine) -> None:
        self._machine = machine
        self._exits: asyncio.Queue[Exit] = asyncio.Queue()
        self._with_messages: asyncio.Queue[TaskKey] = asyncio.Queue()
        machine.listen(self._exits.put_nowait, self._with_messages.put_nowait)

    async def adopt(self) -> list[Running | Exit]:
        return self._machine.states()

    async def start(self, launch: Launch) -> Running | Exit:
        return self._machine.start(launch)

    async def notice(self, key: TaskKey, payload: Mapping[str, Any], soft_us: int = 0, hard_us: int = 0) -> None:  # noqa: ARG002
        self._machine.notice(key, payload)

    async def deadlines(self, key: TaskKey, term_us: int, kill_us: int) -> None:
        """Nothing to do: only the agent enforces deadlines."""

    async def cancel_eviction(self, key: TaskKey) -> None:
        self._machine.cancel_eviction(key)

    def propose_step(self, key: TaskKey, step: int, *, agreed: bool) -> None:
        self._machine.propose_step(key, step, agreed=agreed)

    def steps(self, key: TaskKey) -> Steps:
        return self._machine.steps(key)

    def messages(self, key: TaskKey, after: int = 0) -> list[JobMessage]:
        task = self._machine.find(key)
        return task.messages[after:] if task is not None else []

    async def wait_message(self) -> TaskKey:
        return await self._with_messages.get()

    async def terminate(self, key: TaskKey, grace_s: float = 30.0) -> None:  # noqa: ARG002 - there are no leftovers
        self._machine.terminate(key)

    async def kill(self, key: TaskKey) -> None:
        self._machine.kill(key)

    def renew(self, until_us: int, grace_us: int) -> None:
        """Nothing to do: the tasks do not outlive the agent."""

    async def wait_exit(self) -> Exit:
        return await self._exits.get()

    def pids(self, key: TaskKey) -> tuple[int, ...]:
        task = self._machine.find(key)
        return () if task is None or task.exit else (task.pid,)

    def memory(self, key: TaskKey) -> int:  # noqa: ARG002 - a simulated task uses none
        return 0

    def log_path(self, key: TaskKey) -> Path | None:  # noqa: ARG002 - a simulated task prints nothing
        return None

    def terminal_path(self, key: TaskKey) -> Path | None:  # noqa: ARG002 - nor has it a terminal
        return None

    async def forget(self, key: TaskKey) -> None:
        self._machine.forget(key)

    async def close(self) -> None:
        self._machine.listen(None, None)


def _open(parts: NodeParts) -> SimulatedRuntime:
    return SimulatedRuntime(parts.machine)


PLUGIN = RuntimePlugin("simulated", _open)
