"""The runtime of simulated tasks: what `tasks` does, behind the runtime port."""

import asyncio
from collections.abc import Mapping
from typing import Any

from bailiff_node_agent.runtime import (
    Capabilities,
    Dumped,
    Exit,
    Image,
    JobMessage,
    Launch,
    Restored,
    Running,
    Runtime,
    Steps,
    TaskKey,
)

from .tasks import SimulatedMachine


class SimulatedRuntime(Runtime):
    """A new one on the same machine replaces the one before, as a restarted agent does.

    `outlives_agent` is not declared: outside of a test, simulated tasks end with the agent's process, and only the agent enforces
    deadlines. A simulated task uses no memory, prints nothing, and has no terminal.
    """

    capabilities = Capabilities(host_resources=False, outlives_agent=False, simulated=True, saves=True)

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

    async def save(self, key: TaskKey, image: Image, request: str, *, goes_on: bool = False) -> Dumped:  # noqa: ARG002 - its manifest says all
        return await self._machine.save(key, request, goes_on=goes_on)

    async def freeze(self, key: TaskKey) -> None:
        self._machine.freeze(key)

    async def go_on(self, key: TaskKey, *, anew: bool) -> None:
        self._machine.go_on(key, anew=anew)

    async def thaw(self, key: TaskKey) -> None:
        self._machine.thaw(key)

    async def restored(self, key: TaskKey) -> Restored | None:
        return self._machine.restored(key)

    async def wait_exit(self) -> Exit:
        return await self._exits.get()

    def pids(self, key: TaskKey) -> tuple[int, ...]:
        task = self._machine.find(key)
        return () if task is None or task.exit else (task.pid,)

    async def forget(self, key: TaskKey) -> None:
        self._machine.forget(key)

    async def close(self) -> None:
        self._machine.listen(None, None)
