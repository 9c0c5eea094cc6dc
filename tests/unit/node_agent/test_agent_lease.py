"""The lease of an agent: when it starts, and what an agent with an expired lease does not do."""

import pytest
from tests.kits.agent import carry_out
from tests.unit.node_agent.lease import LEASE, MARGIN, SECOND, Node

from bailiff_bus.messages.commands import Fence
from bailiff_bus.messages.reports import EvictionStageReport, NodeInventory, TaskStartedReport
from bailiff_node_agent.agent import Agent
from bailiff_node_agent.lease import DEFAULT_LEASE, DEFAULT_MARGIN
from bailiff_node_agent.runtime import TaskKey
from bailiff_service.clock_and_ids import SYSTEM
from bailiff_service.metrics import Metrics


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


async def test_a_fence_that_was_kept_and_is_sent_again_brings_no_earlier_lease_back(node: Node) -> None:
    """Its lease may be longer than the one that admission waits for."""
    kept = Fence(**node.common(), lease=100 * LEASE, lost_margin=MARGIN, log_end=5)
    newer = Fence(**node.common(), lease=LEASE, lost_margin=MARGIN, log_end=6)
    for fence in (kept, newer, kept):
        await carry_out(node.agent, fence)
    assert node.agent.lease.duration == LEASE
    await carry_out(node.agent, Fence(**node.common() | {"sender_epoch": 2}, lease=2 * LEASE, lost_margin=MARGIN, log_end=3))
    assert node.agent.lease.duration == 2 * LEASE, "another writer, whose log was cut"


@pytest.mark.parametrize("damaged", [b"ten minutes", b"-5 6", b"\xff\x00", b"1e9 1"])
async def test_an_agent_starts_although_its_stored_lease_is_damaged(node: Node, damaged: bytes) -> None:
    node.agent.context.storage.replace("lease", damaged)
    again = Agent(node.agent.context, SYSTEM, Metrics(), lambda: None)
    assert (again.lease.duration, again.lease.margin, again.lease.is_known) == (DEFAULT_LEASE, DEFAULT_MARGIN, False)


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
