"""Who gets through to a task: the holder of a granted certificate, once and in time; and to which agent a client speaks."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.kits.waiting import PATIENCE_S

from bailiff_core.records.facts import AttachEnd
from bailiff_node_agent.attach import AttachServer
from bailiff_node_agent.attach.server import MAX_HANDSHAKES, Grant, Streams
from bailiff_service.tunnel_tls import TunnelIdentity, WrongPeer, certificate_bytes, connect_tunnel


class Echo:
    """A task that repeats what it is sent, and grants for it. events: what its agent reports."""

    def __init__(self, address: str, server: AttachServer) -> None:
        self.server, self.events, self._address = server, asyncio.Queue[AttachEnd | str](), address

    async def grant(self, client: TunnelIdentity, valid_s: float = 60) -> str:
        async def open_task() -> Streams:
            host, port = self._address.split(":")
            return await asyncio.open_connection(host, int(port))

        return await self.server.expect(
            Grant(
                certificate_bytes(client.certificate),
                open_task,
                lambda: self.events.put_nowait("started"),
                self.events.put_nowait,
            ),
            valid_s,
        )

    async def event(self) -> str:
        return await asyncio.wait_for(self.events.get(), PATIENCE_S)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        if data == b"end":
            break
        writer.write(data)
    writer.close()


@pytest.fixture
async def task() -> AsyncIterator[Echo]:
    job = await asyncio.start_server(_echo, "127.0.0.1", 0)
    server = AttachServer("127.0.0.1:0")
    yield Echo(f"127.0.0.1:{job.sockets[0].getsockname()[1]}", server)
    await server.close()
    job.close()


async def is_refused(address: str, client: TunnelIdentity, fingerprint: str) -> bool:
    try:
        reader, writer = await connect_tunnel(address, client, fingerprint)
        data = await asyncio.wait_for(reader.read(1), PATIENCE_S)
    except OSError:
        return True
    writer.close()
    return data == b""


async def test_a_machine_that_begins_handshakes_and_ends_none_keeps_no_client_waiting(task: Echo) -> None:
    client = TunnelIdentity.new()
    address = await task.grant(client)
    host, port = address.split(":")
    strangers = [await asyncio.open_connection(host, int(port), local_addr=("127.0.0.2", 0)) for _ in range(2 * MAX_HANDSHAKES)]
    try:
        # All that come before it have been welcomed, or not.
        assert await asyncio.wait_for(strangers[-1][0].read(1), PATIENCE_S) == b""
        reader, writer = await connect_tunnel(address, client, task.server.fingerprint)
        writer.write(b"hello")
        assert await asyncio.wait_for(reader.read(5), PATIENCE_S) == b"hello"
        writer.close()
    finally:
        for _, stranger in strangers:
            stranger.close()


async def test_the_holder_of_the_certificate_gets_through_once(task: Echo) -> None:
    client = TunnelIdentity.new()
    address = await task.grant(client)
    reader, writer = await connect_tunnel(address, client, task.server.fingerprint)
    writer.write(b"hello")
    assert await asyncio.wait_for(reader.readexactly(5), PATIENCE_S) == b"hello"
    assert await task.event() == "started"
    assert await is_refused(address, client, task.server.fingerprint)  # the grant is used up
    writer.close()
    assert await task.event() == "detached"


async def test_the_end_of_the_task_ends_the_connection(task: Echo) -> None:
    client = TunnelIdentity.new()
    reader, writer = await connect_tunnel(await task.grant(client), client, task.server.fingerprint)
    writer.write(b"end")
    assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
    assert [await task.event(), await task.event()] == ["started", "task-ended"]
    writer.close()


async def test_another_certificate_does_not_get_through_and_uses_nothing_up(task: Echo) -> None:
    client, stranger = TunnelIdentity.new(), TunnelIdentity.new()
    address = await task.grant(client)
    assert await is_refused(address, stranger, task.server.fingerprint)
    copied = TunnelIdentity(client.der, stranger.pem)  # who has read the certificate in the log has not its key
    assert await is_refused(address, copied, task.server.fingerprint)
    assert not await is_open_without_tls(address)
    _, writer = await connect_tunnel(address, client, task.server.fingerprint)
    assert await task.event() == "started"
    writer.close()


async def is_open_without_tls(address: str) -> bool:
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"hello\n" * 100)
    try:
        return b"hello" in await asyncio.wait_for(reader.read(), PATIENCE_S)
    except OSError:
        return False
    finally:
        writer.close()


async def test_a_grant_expires(task: Echo) -> None:
    client = TunnelIdentity.new()
    address = await task.grant(client, valid_s=0.01)
    assert await task.event() == "expired"
    assert await is_refused(address, client, task.server.fingerprint)


async def test_a_client_trusts_only_the_agent_that_the_log_names(task: Echo) -> None:
    client = TunnelIdentity.new()
    address = await task.grant(client)
    with pytest.raises(WrongPeer):
        await connect_tunnel(address, client, TunnelIdentity.new().fingerprint)


def test_a_certificate_that_is_none_is_refused() -> None:
    for text in ("A" * 400, TunnelIdentity.new().certificate[:-40] + "A" * 40):
        with pytest.raises(ValueError, match=r"certificate|asn1"):
            certificate_bytes(text)
