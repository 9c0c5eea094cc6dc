"""A TCP proxy between one client and a broker that a test can block: no byte passes, and neither side is notified.

It simulates a failed switch: connections stay open, new ones can be opened, and no byte arrives until it is restored.
"""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from bailiff_devstack.kafka import EmbeddedKafka
from bailiff_devstack.ports import free_ports


class Wire:
    """Forwards bytes from port `at` to port `to`, both on loopback, in its own thread."""

    def __init__(self, at: int, to: int) -> None:
        self.bootstrap, self._at, self._to = f"127.0.0.1:{at}", at, to
        self._loop = asyncio.new_event_loop()
        self._whole = asyncio.Event()
        self._open = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), name="wire")

    def cut(self) -> None:
        """Block both directions."""
        self._loop.call_soon_threadsafe(self._whole.clear)

    def mend(self) -> None:
        """Unblock: buffered and later bytes pass."""
        self._loop.call_soon_threadsafe(self._whole.set)

    @contextlib.contextmanager
    def up(self) -> Iterator["Wire"]:
        """The proxy inside the context."""
        self._thread.start()
        self._open.wait()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()
            self._loop.close()

    async def _serve(self) -> None:
        self._whole.set()
        self._end = asyncio.Event()
        ends: set[asyncio.Task[None]] = set()

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            ends.add(task)
            task.add_done_callback(ends.discard)
            await self._carry(reader, writer)

        server = await asyncio.start_server(carry, "127.0.0.1", self._at)
        self._open.set()
        await self._end.wait()
        server.close()
        for task in tuple(ends):
            task.cancel()
        await asyncio.gather(*ends, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._whole.wait()
        with contextlib.closing(writer):
            try:
                there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._to)
            except OSError:
                return
            with contextlib.closing(there_writer):
                ways = [asyncio.ensure_future(self._one_way(*way)) for way in ((reader, there_writer), (there_reader, writer))]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)

    async def _one_way(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                await self._whole.wait()
                writer.write(data)
                await writer.drain()


def kafka_with_a_wire(folder: Path) -> tuple[EmbeddedKafka, Wire]:
    """A broker with a second listener: clients that connect through the wire get only the wire's address."""
    broker, side, controller, wire = free_ports(4)
    properties = {
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},WIRE://127.0.0.1:{side},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker},WIRE://127.0.0.1:{wire}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,WIRE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
    }
    return EmbeddedKafka(folder, port=broker, properties=properties), Wire(wire, side)
