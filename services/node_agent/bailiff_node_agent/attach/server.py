"""The address at which an agent accepts those to whom admission has granted an attachment."""

import asyncio
import hashlib
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bailiff_core.records.facts import AttachEnd
from bailiff_service.logs import logger
from bailiff_service.tunnel_tls import (
    HANDSHAKE_S,
    PORT_CLOSED,
    PORT_OPEN,
    TunnelIdentity,
    keep_alive,
    peer_fingerprint,
    server_context,
)

MAX_GRANTS, MAX_HANDSHAKES, MAX_OF_ADDRESS = 256, 32, 16
CHUNK = 64 * 1024

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Grant:
    """A client that is expected. certificate: the client's, DER. open: connects to what the client attaches to.

    started, ended: called when the client is connected, and at the end, with the reason; `ended` also without `started`.
    connections: how many the client may have at once; with more than one the grant ends when it has had none for `idle_s`.
    """

    certificate: bytes
    open: Callable[[], Awaitable[Streams]]
    started: Callable[[], object]
    ended: Callable[[AttachEnd], None]
    connections: int = 1
    idle_s: float = 60.0


@dataclass(slots=True)
class Expected:
    """A grant whose client may connect. timer: when it is over without a connection."""

    grant: Grant
    timer: asyncio.TimerHandle
    open: int = 0
    is_started: bool = False


class TaskGone(OSError):
    """What the grant is for does not run any more."""


class AttachServer:
    """Listens from the first grant on, with a certificate of its own for each run of the agent.

    listen: `HOST:PORT`, port 0 for any; None: attachments are not offered. advertised: the
    address that clients use, by default the same.
    """

    def __init__(self, listen: str | None, advertised: str | None = None) -> None:
        self._listen, self._advertised = listen, advertised
        self._identity = TunnelIdentity.new() if listen is not None else None
        self._socket: socket.socket | None = None
        self._starting = asyncio.Lock()
        self._expected: dict[str, Expected] = {}
        self._handshakes = Counter[str]()  # by the client's address
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
        self._expected[key] = Expected(grant, self._timer(key, valid_s))
        return address

    async def close(self) -> None:
        """End all connections."""
        for expected in self._expected.values():
            expected.timer.cancel()
        self._expected.clear()
        for tunnel in self._tunnels:
            tunnel.cancel()
        await asyncio.gather(*self._tunnels, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()

    async def _address(self) -> str:
        assert self._listen is not None
        async with self._starting:
            if self._socket is None:
                self._socket = await _listening(self._listen)
                self._spawn(self._accept(self._socket))
        if self._advertised is not None:
            return self._advertised
        host, port = self._socket.getsockname()[:2]
        if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
            host = socket.getfqdn()
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _timer(self, key: str, seconds: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, self._end, key, None)

    def _end(self, key: str, reason: AttachEnd | None) -> None:
        """reason: None: its time is over."""
        found = self._expected.pop(key, None)
        if found is not None:
            found.timer.cancel()
            found.grant.ended(reason or ("detached" if found.is_started else "expired"))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tunnels.add(task)
        task.add_done_callback(self._tunnels.discard)

    async def _accept(self, listener: socket.socket) -> None:
        """Without a grant nobody gets as far as a handshake; with one, only those who have its private key get further.

        One machine begins few at a time: it keeps no other client waiting.
        """
        while True:
            try:
                connection, (host, *_) = await asyncio.get_running_loop().sock_accept(listener)
            except OSError as error:  # no handles are left, say
                logger().warning("connections cannot be accepted", reason=str(error))
                await asyncio.sleep(1)
                continue
            many = self._handshakes.total() >= MAX_HANDSHAKES or self._handshakes[host] >= MAX_OF_ADDRESS
            if not self._expected or many:
                connection.close()
            else:
                self._handshakes[host] += 1
                self._spawn(self._welcome(connection, host))

    async def _welcome(self, connection: socket.socket, host: str) -> None:
        try:
            streams = await self._handshake(connection)
        finally:
            self._handshakes[host] -= 1
            self._handshakes += Counter()  # keeps no address that has none
        if streams is None:
            return
        key = peer_fingerprint(streams[1])
        found = self._expected.get(key)
        if found is None or found.open >= found.grant.connections:
            streams[1].transport.abort()
            return
        found.timer.cancel()
        try:
            if found.grant.connections == 1:
                del self._expected[key]
                await self._serve(found.grant, *streams)
            else:
                await self._serve_one_of_several(key, found, streams)
        finally:
            streams[1].close()

    async def _handshake(self, connection: socket.socket) -> Streams | None:
        """TLS with a client that has the private key of an expected certificate, or of one that it has issued itself."""
        assert self._identity is not None
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=CHUNK)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            keep_alive(connection)
            context = server_context(self._identity, [each.grant.certificate for each in self._expected.values()])
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=context, ssl_handshake_timeout=HANDSHAKE_S
            )
        except OSError as error:  # of `ssl`, too
            logger().info("a client could not attach", reason=str(error)[:200])
            connection.close()
            return None
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

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

    async def _serve_one_of_several(self, key: str, expected: Expected, client: Streams) -> None:
        """A connection that fails does not end the grant: the task may listen later."""
        expected.open += 1
        if not expected.is_started:
            expected.is_started = True
            expected.grant.started()
        try:
            task = await expected.grant.open()
            try:
                client[1].write(PORT_OPEN)
                await _relay(client, task)
            finally:
                task[1].close()
        except TaskGone:
            self._end(key, "task-ended")
        except OSError as error:
            logger().info("a port cannot be reached", reason=str(error)[:200])
            client[1].write(PORT_CLOSED)
        finally:
            expected.open -= 1
            if not expected.open and self._expected.get(key) is expected:
                expected.timer = self._timer(key, expected.grant.idle_s)


async def _listening(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    family, kind, _, _, where = (await loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM))[0]
    listener = socket.socket(family, kind)
    listener.setblocking(False)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(MAX_HANDSHAKES)
    except OSError:
        listener.close()
        raise
    return listener


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
