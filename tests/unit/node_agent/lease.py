"""A node whose agent holds a lease."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.kits.agent import carry_out, context_on

from bailiff_bus.messages.commands import Fence, RecordRef, StartTask, TaskAssignment
from bailiff_core.model.job_spec import JobSpec
from bailiff_devstack.simulated_node import SimulatedInventory, SimulatedMachine, SimulatedRuntime
from bailiff_node_agent.agent import Agent
from bailiff_node_agent.disk import MemoryStorage
from bailiff_node_agent.reporter import decode_report
from bailiff_node_agent.runtime import Capabilities
from bailiff_service.clock_and_ids import SYSTEM, ClockAndIds
from bailiff_service.metrics import Metrics

SECOND = 1_000_000
LEASE, MARGIN = 10 * SECOND, 6 * SECOND


class Runtime(SimulatedRuntime):
    """Records the leases that it gets."""

    capabilities = Capabilities()
    reported_lease: tuple[int, int] | None = None

    def renew(self, until_us: int, grace_us: int) -> None:
        self.reported_lease = until_us, grace_us


@dataclass
class Node:
    """An agent on a machine whose boot clock stands still unless it is set."""

    agent: Agent
    runtime: Runtime
    machine: SimulatedMachine
    clock: list[int]

    def later(self, by: int) -> None:
        self.clock[0] += by

    @property
    def incarnation(self) -> str:
        return self.agent.context.incarnation.incarnation

    def common(self, incarnation: str = "") -> dict[str, Any]:
        return {"node": "n1", "incarnation": incarnation or self.incarnation, "sender": "admission", "sender_epoch": 1}

    async def fence(self, incarnation: str = "") -> None:
        await carry_out(self.agent, Fence(**self.common(incarnation), lease=LEASE, lost_margin=MARGIN))

    def start(self, job: str, seq: int) -> StartTask:
        return StartTask.model_validate(
            {
                **self.common(),
                "ordered_by": RecordRef(epoch=1, seq=seq),
                "job": job,
                "attempt": 1,
                "spec": JobSpec(command="sleep 300", runtime="simulated"),
                "tasks": (TaskAssignment(task=0, devices=()),),
                "grace": SECOND,
                "node_rank": 0,
                "world_size": 1,
                "local_world_size": 1,
                "master_node": "n1",
            }
        )

    def messages(self) -> list[Any]:
        return [decode_report(report) for _, report in self.agent.context.reports.unsent()]


async def adopted() -> Node:
    """An agent that has adopted and announced what is there, which is nothing."""
    machine, storage, clock = SimulatedMachine(), MemoryStorage(), [1000 * SECOND]
    inventory, runtime = SimulatedInventory("2xH100-80GB", "n1", machine.identify), Runtime(machine)
    machine.attach_devices(inventory)
    clock_and_ids: ClockAndIds = replace(SYSTEM, boot=lambda: clock[0])
    parts = context_on(storage, inventory=inventory, runtimes={"simulated": runtime})
    agent = Agent(parts, clock_and_ids, Metrics(), lambda: None)
    await agent.adopt()
    return Node(agent, runtime, machine, clock)


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    node = await adopted()
    yield node
    for work in list(node.agent._background.running):
        work.cancel()
