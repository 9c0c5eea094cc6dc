"""The agents' link to Kafka, in virtual time: commands sent during an outage are read after it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.kits.memory_bus import MemoryCluster
from tests.unit.bus.virtual_time import in_virtual_time
from tests.unit.node_agent.lease import Node, adopted

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.messages.commands import CommandBody, Fence
from bailiff_node_agent.link import Link
from bailiff_node_agent.runtime import Launch, TaskKey
from bailiff_service.clock_and_ids import SYSTEM

LONG = 60.0


class Place:
    """A cluster with one agent linked to it."""

    def __init__(self, node: Node) -> None:
        self.node, self.sent = node, 0
        self.cluster = MemoryCluster(lambda: 0)
        self.cluster.create_topics(1)
        self.link = Link(self.cluster.client("agent"), SYSTEM, 2.0)
        self.link.add(node.agent)

    @contextlib.asynccontextmanager
    async def linked(self) -> AsyncIterator[None]:
        """While the link works."""
        work = asyncio.ensure_future(self.link.run())
        await asyncio.sleep(1.0)
        try:
            yield
        finally:
            work.cancel()
            await asyncio.gather(work, *self.node.agent._background.running, return_exceptions=True)

    def send(self, command: CommandBody) -> None:
        """Store this command."""
        self.sent += 1
        headers, value = wrap(command, source="/bailiff", id=str(self.sent), pool="pool-a", time_us=0)
        self.cluster.store(topics.NODE_COMMANDS.name, 0, b"pool-a", headers, value)

    def runs(self, job: str) -> bool:
        return bool(self.node.runtime.pids(TaskKey(job, 1, "0")))


@in_virtual_time
async def test_commands_of_an_outage_are_read_after_it_and_those_before_the_agent_are_not() -> None:
    place = Place(await adopted())
    fence = Fence(**place.node.common(), lease=int(1e12), lost_margin=int(1e12))
    place.send(fence)
    place.send(place.node.start("before", 9))
    async with place.linked():
        assert not place.runs("before")
        place.send(fence)
        place.send(place.node.start("first", 10))
        await asyncio.sleep(1.0)
        assert place.runs("first")
        place.cluster.begin_outage()
        await asyncio.sleep(LONG)
        place.send(place.node.start("meanwhile", 11))
        place.cluster.end_outage()
        await asyncio.sleep(LONG)
        assert place.runs("meanwhile")
        assert not place.runs("before")


@pytest.mark.parametrize("connected", [True, False])
@in_virtual_time
async def test_all_commands_of_a_topic_made_anew_are_read(connected: bool) -> None:
    """Also where it soon holds more than the link had read of the one before it."""
    place = Place(await adopted())
    fence = Fence(**place.node.common(), lease=int(1e12), lost_margin=int(1e12))
    async with place.linked():
        for number in range(3):
            place.send(fence)
            place.send(place.node.start(f"before-{number}", 10 + number))
        await asyncio.sleep(1.0)
        assert place.runs("before-2")
        if not connected:
            place.cluster.begin_outage()
            await asyncio.sleep(LONG)
        place.cluster.delete_topic(topics.NODE_COMMANDS.name)
        place.cluster.create_topics(1)
        for number in range(9):
            place.send(place.node.start(f"after-{number}", 20 + number))
        place.cluster.end_outage()
        await asyncio.sleep(LONG)
        assert all(place.runs(f"after-{number}") for number in range(9))


@in_virtual_time
async def test_a_start_that_has_begun_is_finished_although_the_connection_is_lost_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that was started, and that nobody watches, would never be seen to exit."""
    place = Place(await adopted())
    start_one = place.node.runtime.start

    async def slowly(launch: Launch) -> Any:
        await asyncio.sleep(LONG)
        return await start_one(launch)

    monkeypatch.setattr(place.node.runtime, "start", slowly)
    async with place.linked():
        place.send(Fence(**place.node.common(), lease=int(1e12), lost_margin=int(1e12)))
        place.send(place.node.start("slow", 10))
        await asyncio.sleep(1.0)
        place.cluster.begin_outage()
        await asyncio.sleep(LONG / 2)
        assert place.link.waiting_for is not None, "it has noticed the outage"
        place.cluster.end_outage()
        place.send(place.node.start("next", 11))
        await asyncio.sleep(3 * LONG)
        assert place.runs("slow")
        assert place.runs("next")
