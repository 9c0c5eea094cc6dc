"""What an agent does with grants that arrive again, late, or for a task that it does not run."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.kits.waiting import PATIENCE_S
from tests.unit.node_agent.stages import World

from bailiff_bus.messages.commands import AttachTask, Fence
from bailiff_bus.messages.reports import AttachEndedReport, AttachReadyReport, AttachStartedReport
from bailiff_devstack.simulated_node import SimulatedRuntime
from bailiff_node_agent.attach import AttachServer
from bailiff_node_agent.attach.server import Grant
from bailiff_node_agent.runtime import TaskKey
from bailiff_service.tunnel_tls import TunnelIdentity, connect_port


class Server(AttachServer):
    """Remembers which certificates it was to expect, also when it does not expect them any more."""

    def __init__(self, listen: str | None) -> None:
        super().__init__(listen)
        self.asked: list[bytes] = []

    async def expect(self, grant: Grant, valid_s: float) -> str:
        self.asked.append(grant.certificate)
        return await super().expect(grant, valid_s)


@asynccontextmanager
async def running(server: AttachServer) -> AsyncIterator[World]:
    """An agent with this server, and a task that runs."""
    found = World(server)
    await found.agent_starts()
    incarnation = found.agent.context.incarnation.incarnation
    await found.agent.obey(Fence(node="n1", incarnation=incarnation, sender="admission", sender_epoch=1))
    await found.starts()
    yield found
    await server.close()
    await found.agent_dies()


@pytest.fixture
async def server() -> Server:
    return Server("127.0.0.1:0")


@pytest.fixture
async def world(server: Server) -> AsyncIterator[World]:
    async with running(server) as found:
        yield found


def grant(world: World, client: TunnelIdentity, seq: int, port: int | None = 8888, **changed: Any) -> AttachTask:
    fields = {**world.common(seq), **changed}
    certificate = client.certificate
    return AttachTask(sender="admission", **fields, task=0, client_certificate=certificate, valid_for=60_000_000, port=port)


async def test_a_grant_that_is_sent_again_has_no_effect_nor_has_an_older_one(world: World) -> None:
    client = TunnelIdentity.new()
    for command in (grant(world, client, 7), grant(world, client, 7), grant(world, TunnelIdentity.new(), 6)):
        await world.agent.obey(command)
    assert [report.grant for report in world.of(AttachReadyReport)] == [7]
    assert world.of(AttachEndedReport) == []


async def test_a_replayed_grant_that_was_used_lets_nobody_in_again(
    world: World, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(10))
        writer.close()

    job = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = job.sockets[0].getsockname()[1]

    def pids(_: SimulatedRuntime, __: TaskKey) -> Iterable[int]:
        return [os.getpid()]

    monkeypatch.setattr(SimulatedRuntime, "pids", pids)
    client = TunnelIdentity.new()
    command = grant(world, client, 7, port)
    await world.agent.obey(command)
    (ready,) = world.of(AttachReadyReport)
    reader, writer = await connect_port(ready.address, client, ready.fingerprint)
    writer.write(b"hello")
    assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b"hello"
    writer.close()
    assert [report.grant for report in world.of(AttachStartedReport)] == [7]
    await world.agent.obey(command)
    assert len(world.of(AttachReadyReport)) == len(server.asked) == 1
    job.close()


async def test_why_nobody_can_attach_is_reported(world: World) -> None:
    client = TunnelIdentity.new()
    await world.agent.obey(grant(world, client, 7, port=None))
    await world.agent.obey(grant(world, client, 8, attempt=2))
    await world.agent.obey(grant(world, client, 9, port=None, shell=True))
    reasons = [(report.grant, report.reason) for report in world.of(AttachEndedReport)]
    assert reasons == [(7, "no-terminal"), (8, "not-running"), (9, "no-shell")]
    async with running(AttachServer(None)) as other:
        await other.agent.obey(grant(other, client, 7))
        assert [report.reason for report in other.of(AttachEndedReport)] == ["not-offered"]
