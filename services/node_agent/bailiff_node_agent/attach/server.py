"""The address at which an agent accepts those to whom admission has granted an attachment."""

import asyncio
import hashlib
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from bailiff_core.records.facts import AttachEnd
from bailiff_service.logs import logger
from bailiff_service.tunnel_tls import HANDSHAKE_S, TunnelIdentity, peer_fingerprint, server_context

MAX_GRANTS, MAX_HANDSHAKES = 256, 32
CHUNK = 64 * 1024

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Grant:
    """One connection that is expected. certificate: the client's, DER. open: connects to what the client attaches to.

    started, ended: called when the client is connected, and at the end, with the reason; `ended` also without `started`.
    """

    certificate: bytes
    open: Callable[[], Awaitable[Streams]]
    started: Callable[[], object]
    ended: Callable[[AttachEnd], None]


class AttachServer:
    """Listens from the first grant on, with a certificate of its own for each run of the agent.

    listen: `HOST:PORT`, port 0 for any; None: attachments are not offered. advertised: the
    address that clients use, by default the same.
    """

    def __init__(self, listen: str | None, advertised: str | None = None) -> None:
        self._listen, self._advertised = listen, advertised
        self._identity = TunnelIdentity.new() if listen is not None else None
        self._server: asyncio.Server | None = None
        self._starting = asyncio.Lock()
        self._expected: dict[str, tuple[Grant, asyncio.TimerHandle]] = {}
        self._handshakes = 0
        self._tunnels: set[asyncio.Task[None]] = set()

    @property
    def is_offered(self) -> bool:
        """Whether this agent accepts attachments."""
        return self._listen is not None

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the agent's certificate."""
        assert self._identity is not None
        return self._identity.fingerprint

    async def expect(self, grant: Grant, valid_s: float) -> str:
        """Expect this client for so long; the address at which. Raises `OSError`: it cannot listen, or expects too many."""
        address = await self._address()
        key = hashlib.sha256(grant.certificate).hexdigest()
        if key in self._expected or len(self._expected) >= MAX_GRANTS:
            raise OSError("this certificate is expected already, or too many clients are")
        self._expected[key] = grant, asyncio.get_running_loop().call_later(valid_s, self._expire, key)
        return address

    async def close(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for _, timer in self._expected.values():
            timer.cancel()
        self._expected.clear()
        for tunnel in self._tunnels:
            tunnel.cancel()
        await asyncio.gather(*self._tunnels, return_exceptions=True)

    async def _address(self) -> str:
        assert self._listen is not None
        async with self._starting:
            if self._server is None:
                host, _, port = self._listen.rpartition(":")
                self._server = await asyncio.start_server(self._accept, host.strip("[]"), int(port), limit=CHUNK)
        if self._advertised is not None:
            return self._advertised
        host, port = self._server.sockets[0].getsockname()[:2]
        if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
            host = socket.getfqdn()
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _expire(self, key: str) -> None:
        found = self._expected.pop(key, None)
        if found is not None:
            found[0].ended("expired")

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Without a grant nobody gets as far as a handshake; with one, only those who have its private key get further."""
        if not self._expected or self._handshakes >= MAX_HANDSHAKES:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tunnels.add(task)
        grant = None
        try:
            grant = await self._identify(writer)
            if grant is not None:
                await self._serve(grant, reader, writer)
        finally:
            self._tunnels.discard(task)
            if grant is None:
                writer.transport.abort()
            else:
                writer.close()

    async def _identify(self, writer: asyncio.StreamWriter) -> Grant | None:
        """The grant of this client, which is used up."""
        assert self._identity is not None
        self._handshakes += 1
        try:
            context = server_context(self._identity, [each.certificate for each, _ in self._expected.values()])
            await asyncio.wait_for(writer.start_tls(context, ssl_handshake_timeout=HANDSHAKE_S), HANDSHAKE_S)
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            logger().info("a client could not attach", reason=str(error)[:200])
            return None
        finally:
            self._handshakes -= 1
        found = self._expected.pop(peer_fingerprint(writer), None)
        if found is None:
            return None
        found[1].cancel()
        return found[0]

    async def _serve(self, grant: Grant, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Where the agent ends meanwhile, the next one reports it."""
        try:
            inner_reader, inner_writer = await grant.open()
        except OSError as error:
            logger().info("an attachment failed", reason=str(error)[:200])
            grant.ended("failed")
            return
        grant.started()
        try:
            grant.ended(await _relay((reader, writer), (inner_reader, inner_writer)))
        finally:
            inner_writer.close()


async def _relay(client: Streams, task: Streams) -> AttachEnd:
    """Pass bytes on until one side has ended. Who reads slowly is waited for, so that little is kept in between."""
    up = asyncio.create_task(_pump(client[0], task[1]))
    down = asyncio.create_task(_pump(task[0], client[1]))
    try:
        done, _ = await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
        return "task-ended" if down in done and not down.result() else "detached"
    finally:
        for pump in (up, down):
            pump.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(up, down, return_exceptions=True)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> bool:
    """Until the source has ended. Whether it was the sink that failed."""
    while True:
        try:
            data = await source.read(CHUNK)
        except OSError:
            return False
        if not data:
            return False
        try:
            sink.write(data)
            await sink.drain()
        except OSError:
            return True
