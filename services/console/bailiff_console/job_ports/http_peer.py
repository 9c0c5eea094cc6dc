"""One side of a proxied HTTP/1.1 connection: h11 on a stream."""

import asyncio
from typing import Any

import h11

CHUNK = 64 * 1024
MAX_HEAD = 64 * 1024


class HttpPeer:
    """role: `h11.SERVER` towards a browser, `h11.CLIENT` towards a job."""

    def __init__(
        self, role: type[h11.SERVER] | type[h11.CLIENT], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.http = h11.Connection(role, max_incomplete_event_size=MAX_HEAD)
        self.reader, self.writer = reader, writer

    async def next(self) -> Any:
        """The next event. Raises `h11.RemoteProtocolError`, `OSError`."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self.reader.read(CHUNK))
        return event

    async def send(self, event: Any) -> None:
        """Send, and wait while the other side is slow. Raises `h11.LocalProtocolError`, `OSError`."""
        data = self.http.send(event)
        if data:
            self.writer.write(data)
            await self.writer.drain()


async def pass_body(source: HttpPeer, sink: HttpPeer) -> None:
    """Pass on the body of a message, and its end."""
    while True:
        event = await source.next()
        if isinstance(event, h11.Data):
            await sink.send(h11.Data(data=event.data))
        elif isinstance(event, h11.EndOfMessage):
            await sink.send(h11.EndOfMessage())
            return
        else:
            raise ConnectionResetError("the connection ended within a message")


async def pass_bytes(browser: HttpPeer, job: HttpPeer) -> None:
    """Pass on all bytes after an upgrade, until one side ends."""
    ways = [asyncio.create_task(_pump(browser, job)), asyncio.create_task(_pump(job, browser))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _pump(source: HttpPeer, sink: HttpPeer) -> None:
    data = source.http.trailing_data[0]
    while True:
        if data:
            sink.writer.write(data)
            await sink.writer.drain()
        data = await source.reader.read(CHUNK)
        if not data:
            return
