"""The lease of an agent: when it starts, and what an agent with an expired lease does not do."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.agent_kit import carry_out

from bailiff_bus.messages import EvictionStageReport, Fence, JobSpec, NodeInventory, StartTask, TaskAssignment, TaskStartedReport
from bailiff_bus.messages.commands import RecordRef
from bailiff_node_agent.agent import Agent
from bailiff_node_agent.agent_context import AgentContext
from bailiff_node_agent.devices import SimulatedInventory
from bailiff_node_agent.disk import EvictionStore, Fences, MemoryStorage, Reports, new_incarnation
from bailiff_node_agent.reporter import decode_report
from bailiff_node_agent.runtime import Capabilities, SimulatedMachine, TaskKey
from bailiff_node_agent.runtime.simulated import SimulatedRuntime
from bailiff_node_agent.settings import NodeDeclaration
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
    declared = NodeDeclaration(name="n1", pool="pool-a", gpus="2xH100-80GB")
    inventory, runtime = SimulatedInventory("2xH100-80GB", "n1", machine.identify), Runtime(machine)
    machine.attach_devices(inventory)
    clock_and_ids: ClockAndIds = replace(SYSTEM, boot=lambda: clock[0])
    parts = AgentContext(
        node=declared,
        inventory=inventory,
        runtimes={"simulated": runtime},
        storage=storage,
        fences=Fences(storage),
        reports=Reports(storage),
        evictions=EvictionStore(storage),
        incarnation=new_incarnation(storage, machine_id="m1"),
        folder=Path("/nowhere"),
    )
    agent = Agent(parts, clock_and_ids, Metrics(), lambda: None)
    await agent.adopt()
    return Node(agent, runtime, machine, clock)


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    node = await adopted()
    yield node
    for work in list(node.agent._background.running):
        work.cancel()


async def test_the_lease_counts_from_when_the_report_was_sent(node: Node) -> None:
    await node.fence()
    sent = node.clock[0]
    node.later(9 * SECOND)  # so long until it was acknowledged
    node.agent.renew(sent)
    assert node.runtime.reported_lease == (sent + LEASE, MARGIN // 2)
    before = node.incarnation
    node.later(SECOND + 1)
    node.agent.check_lease()
    assert node.incarnation != before


async def test_a_command_delayed_beyond_the_lease_is_void(node: Node) -> None:
    await node.fence()
    node.agent.renew(node.clock[0])
    await carry_out(node.agent, node.start("first", 10))
    assert node.runtime.pids(TaskKey("first", 1, "0"))
    waited = node.start("second", 11)
    node.later(LEASE + 1)
    await carry_out(node.agent, waited)
    assert not node.runtime.pids(TaskKey("second", 1, "0"))
    to_report = node.messages()[0]
    assert isinstance(to_report, NodeInventory)
    assert to_report.incarnation == node.incarnation != waited.incarnation
    assert [(task.job, task.state) for task in to_report.tasks] == [("first", "running")]
    assert not [report for report in node.messages() if isinstance(report, TaskStartedReport)]

    # It obeys commands to its new incarnation.
    node.agent.renew(node.clock[0])
    await node.fence()
    await carry_out(node.agent, node.start("third", 12))
    assert node.runtime.pids(TaskKey("third", 1, "0"))


async def test_an_agent_that_reaches_kafka_in_time_keeps_its_incarnation(node: Node) -> None:
    await node.fence()
    before = node.incarnation
    for _ in range(5):
        node.later(LEASE)
        node.agent.check_lease()
        node.agent.renew(node.clock[0])
    assert node.incarnation == before


async def test_a_lease_is_remembered_by_the_next_agent(node: Node) -> None:
    await node.fence()
    again = Agent(node.agent.context, SYSTEM, Metrics(), lambda: None)
    assert (again.lease.duration, again.lease.margin) == (LEASE, MARGIN)


async def test_a_fence_for_another_agent_of_the_node_ends_what_runs_here(node: Node) -> None:
    await node.fence("an earlier one")
    await node.fence()
    node.agent.renew(node.clock[0])
    await carry_out(node.agent, node.start("first", 10))
    assert not node.agent.context.evictions.running()
    await node.fence("a later one")
    [eviction] = node.agent.context.evictions.running()
    assert (eviction.key, eviction.kill_after_us) == (str(TaskKey("first", 1, "0")), 0)
    assert not [report for report in node.messages() if isinstance(report, EvictionStageReport)]


async def test_a_fence_for_an_earlier_incarnation_of_this_agent_says_that_the_log_was_truncated(node: Node) -> None:
    await node.fence()
    node.agent.renew(node.clock[0])
    earlier = node.incarnation
    node.later(LEASE + SECOND)
    node.agent.check_lease()  # it joins anew
    await node.fence()
    node.agent.renew(node.clock[0])
    await carry_out(node.agent, node.start("first", 10))
    before = len(node.messages())
    await node.fence(earlier)
    assert not node.agent.context.evictions.running()
    assert [type(report) for report in node.messages()[before:]] == [NodeInventory]
    await node.fence("of another agent")
    assert node.agent.context.evictions.running()


async def test_an_agent_whose_fence_was_lost_starts_nothing_and_announces_again(node: Node) -> None:
    await carry_out(node.agent, node.start("too-early", 10))
    assert not node.runtime.pids(TaskKey("too-early", 1, "0"))
    assert [type(report) for report in node.messages()] == [NodeInventory]  # its first one may still be answered

    node.later(2 * SECOND)
    await carry_out(node.agent, node.start("too-early", 10))
    await carry_out(node.agent, node.start("another", 11))
    assert [type(report) for report in node.messages()] == [NodeInventory, NodeInventory]

    await node.fence()
    await carry_out(node.agent, node.start("too-early", 10))
    assert node.runtime.pids(TaskKey("too-early", 1, "0"))
