"""A port of this machine whose connections go to a port of a task."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bailiff.client.errors import ClientError
from bailiff_service.tunnel_tls import PortClosed, connect_port

from .grants import AgentGrant, request_grant, unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from bailiff.client.client import Client

    from .job_events import JobEvents

CHUNK = 64 * 1024
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class PortForward:
    """One grant serves all connections; another one is requested when it has ended.

    Attributes:
        notice: Called with lines for the person.
    """

    client: Client
    pool: str
    job: str
    task: int
    port: int
    events: JobEvents
    notice: Callable[[str], None]
    _grant: AgentGrant | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def check(self) -> None:
        """Request the first grant.

        Raises:
            ClientError: The grant was refused, or the port cannot be reached.
        """
        self._grant = await request_grant(self.client, self.events, self.pool, self.job, self.task, self.port)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a local program."""
        try:
            task = await self._open()
        except PortClosed:
            self.notice(f"{self.job} does not listen on 127.0.0.1:{self.port} of its node")
        except ClientError as problem:
            self.notice(problem.text)
        else:
            await _relay((reader, writer), task)
        finally:
            writer.close()

    async def _open(self) -> Streams:
        """Raises `PortClosed` or `ClientError`."""
        async with self._lock:
            if self._grant is not None:
                try:
                    return await self._connect(self._grant)
                except (OSError, TimeoutError):
                    self._grant = None  # it has ended, or the agent was restarted, or the job runs elsewhere now
            grant = self._grant = await request_grant(self.client, self.events, self.pool, self.job, self.task, self.port)
            try:
                return await self._connect(grant)
            except (OSError, TimeoutError) as error:
                raise unreachable(grant, error) from None

    async def _connect(self, grant: AgentGrant) -> Streams:
        return await connect_port(grant.address, grant.identity, grant.fingerprint)


async def _relay(local: Streams, task: Streams) -> None:
    """Pass bytes on until one side has ended."""
    ways = [asyncio.create_task(_pump(local[0], task[1])), asyncio.create_task(_pump(task[0], local[1]))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        task[1].close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(CHUNK):
        sink.write(data)
        await sink.drain()
