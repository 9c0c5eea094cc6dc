"""A grant for a port: several connections to what the task itself listens on, and to nothing else on the machine."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.kits.waiting import PATIENCE_S

from bailiff_core.records.facts import AttachEnd
from bailiff_node_agent.attach import AttachServer
from bailiff_node_agent.attach.listeners import NobodyListens, connect_to_listener
from bailiff_node_agent.attach.server import Grant, Streams, TaskGone
from bailiff_service.tunnel_tls import PortClosed, TunnelIdentity, certificate_bytes, connect_port


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)
    writer.close()


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Of this process."""
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


async def test_only_the_tasks_own_processes_are_connected_to(port: int, stranger: subprocess.Popen[bytes]) -> None:
    reader, writer = await connect_to_listener(port, lambda: [stranger.pid, os.getpid()])
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    writer.close()
    with pytest.raises(NobodyListens, match="another task"):
        await connect_to_listener(port, lambda: [stranger.pid])


async def test_a_port_on_which_nobody_listens_is_not_reached() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(NobodyListens, match="nobody listens"):
            await connect_to_listener(bound.getsockname()[1], lambda: [os.getpid()])


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")])
async def test_whoever_listens_on_all_addresses_is_reached(family: socket.AddressFamily, address: str) -> None:
    with socket.create_server((address, 0), family=family, dualstack_ipv6=family == socket.AF_INET6) as server:
        _, writer = await connect_to_listener(server.getsockname()[1], lambda: [os.getpid()])
        writer.close()
        with pytest.raises(NobodyListens, match="another task"):
            await connect_to_listener(server.getsockname()[1], list)


class Granted:
    """A grant of two connections to the port, and what the agent reports about it."""

    def __init__(self, port: int, idle_s: float = 60) -> None:
        self.server, self.client = AttachServer("127.0.0.1:0"), TunnelIdentity.new()
        self.events, self.is_running = asyncio.Queue[AttachEnd | str](), True
        self._port, self._idle_s, self._address = port, idle_s, ""

    async def expect(self) -> None:
        grant = Grant(
            certificate_bytes(self.client.certificate),
            self._open,
            lambda: self.events.put_nowait("started"),
            self.events.put_nowait,
            connections=2,
            idle_s=self._idle_s,
        )
        self._address = await self.server.expect(grant, 60)

    async def _open(self) -> Streams:
        if not self.is_running:
            raise TaskGone("it has ended")
        return await connect_to_listener(self._port, lambda: [os.getpid()])

    async def connect(self) -> Streams:
        return await connect_port(self._address, self.client, self.server.fingerprint)

    async def is_refused(self) -> bool:
        try:
            _, writer = await self.connect()
        except OSError:
            return True
        writer.close()
        return False

    async def echoes(self, streams: Streams) -> bool:
        streams[1].write(b"hello")
        return await asyncio.wait_for(streams[0].read(5), PATIENCE_S) == b"hello"

    async def event(self) -> str:
        return await asyncio.wait_for(self.events.get(), PATIENCE_S)


@pytest.fixture
async def granted(port: int) -> AsyncIterator[Granted]:
    found = Granted(port)
    await found.expect()
    yield found
    await found.server.close()


async def test_a_port_takes_several_connections_of_one_client_up_to_its_limit(granted: Granted) -> None:
    first, second = await granted.connect(), await granted.connect()
    assert await granted.echoes(first)
    assert await granted.echoes(second)
    assert await granted.is_refused()
    first[1].close()
    while await granted.is_refused():  # until the agent has seen that the first is closed
        pass
    assert await granted.event() == "started"
    assert granted.events.empty()  # one attachment, whatever the number of connections
    second[1].close()


async def test_a_port_grant_ends_when_nobody_uses_it(port: int) -> None:
    granted = Granted(port, idle_s=0.01)
    await granted.expect()
    streams = await granted.connect()
    assert await granted.echoes(streams)
    streams[1].close()
    assert [await granted.event(), await granted.event()] == ["started", "detached"]
    await granted.server.close()


async def test_a_port_grant_ends_with_its_task_and_not_while_nobody_listens_yet(granted: Granted) -> None:
    listening, granted._port = granted._port, 1
    with pytest.raises(PortClosed):
        await granted.connect()
    assert await granted.event() == "started"
    granted._port = listening
    streams = await granted.connect()
    assert await granted.echoes(streams)
    granted.is_running = False
    assert await granted.is_refused()
    assert await granted.event() == "task-ended"
    streams[1].close()
