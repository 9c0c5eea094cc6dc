"""A TCP connection to the API server that a test can cut."""

import asyncio
import contextlib
from pathlib import Path
from typing import Self

import yaml
from tests.kits.kubernetes_cluster import Cluster


class Line:
    """A TCP proxy to the API server that can be cut: open connections break, and new ones are refused until it is restored."""

    def __init__(self, port: int) -> None:
        self.target, self.is_cut = port, False
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        self.is_cut = True
        for writer in self._open:
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        self._open |= {writer, far_writer}
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(_carry(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    sink.transport.abort()


def port_of(cluster: Cluster) -> int:
    """The port of the API server."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    return int(config["clusters"][0]["cluster"]["server"].rpartition(":")[2])


def through(line: Line, kubeconfig: Path, copy: Path) -> Path:
    """A copy of a kubeconfig that leads through the line."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{line.port}"
    copy.write_text(yaml.safe_dump(config))
    return copy
