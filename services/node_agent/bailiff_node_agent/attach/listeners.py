"""Connections to a port of this machine on which a task listens, and nobody else."""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from bailiff_node_agent.runtime.host_processes import looking

from .server import CHUNK, Streams

LISTENING = "0A"
MAX_OPEN_FILES = 100_000
LOCAL = {"0100007F", "00000000"}
"""127.0.0.1 and 0.0.0.0, as the kernel writes them."""
LOCAL_6 = {"0" * 32, *(f"{'0' * 16}FFFF0000{address}" for address in LOCAL)}
"""`::`, which accepts IPv4, too, and IPv4 addresses written as IPv6."""


class NobodyListens(OSError):
    """No process listens there, or one that is not the task's."""


async def connect_to_listener(port: int, pids: Callable[[], Iterable[int]]) -> Streams:
    """A connection to the process with one of these pids that listens on 127.0.0.1:`port`. Raises `OSError`.

    Another job of this machine may listen there. The sockets that listen are the same before and after the connection is made,
    so it is with one of them.
    """
    before = await looking(_listening, port)
    if not before:
        raise NobodyListens(f"nobody listens on 127.0.0.1:{port}")
    if not await looking(lambda: _have_sockets(pids(), before)):
        raise NobodyListens(f"a process of another task listens on port {port}")
    streams = await asyncio.open_connection("127.0.0.1", port, limit=CHUNK)
    if await looking(_listening, port) != before:
        streams[1].transport.abort()
        raise NobodyListens(f"who listens on port {port} has changed")
    return streams


def _listening(port: int) -> set[int]:
    """The inodes of the sockets that accept connections to 127.0.0.1:`port`."""
    found = set()
    for file, addresses in (("/proc/net/tcp", LOCAL), ("/proc/net/tcp6", LOCAL_6)):
        try:
            lines = Path(file).read_text().splitlines()[1:]
        except FileNotFoundError:  # a machine without IPv6
            continue
        for line in lines:
            _, local, _, state, _, _, _, _, _, inode, *_ = line.split()
            address, _, at = local.partition(":")
            if state == LISTENING and address in addresses and int(at, 16) == port:
                found.add(int(inode))
    return found


def _have_sockets(pids: Iterable[int], wanted: set[int]) -> bool:
    """Whether these processes have all of these sockets among their first 100,000 open files."""
    missing, links = {f"socket:[{inode}]" for inode in wanted}, islice(_open_files(pids), MAX_OPEN_FILES)
    while missing and (link := next(links, None)) is not None:
        missing.discard(link)
    return not missing


def _open_files(pids: Iterable[int]) -> Iterator[str]:
    """What the open files of these processes are links to."""
    for pid in pids:
        with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as handles:  # exited, or not to be looked into
            for handle in handles:
                with suppress(OSError):  # closed meanwhile
                    yield os.readlink(handle.path)  # noqa: PTH115 - there may be a hundred thousand
