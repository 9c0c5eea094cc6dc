"""Connections to a port of this machine on which a task listens, and nobody else."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from .server import CHUNK, Streams

LISTENING = "0A"
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
    before = await asyncio.to_thread(_checked, port, pids)
    streams = await asyncio.open_connection("127.0.0.1", port, limit=CHUNK)
    if await asyncio.to_thread(_listening, port) != before:
        streams[1].transport.abort()
        raise NobodyListens(f"who listens on port {port} has changed")
    return streams


def _checked(port: int, pids: Callable[[], Iterable[int]]) -> set[int]:
    """The sockets that listen on this port, if all are the task's."""
    found = _listening(port)
    if not found:
        raise NobodyListens(f"nobody listens on 127.0.0.1:{port}")
    if not found <= _sockets_of(pids()):
        raise NobodyListens(f"a process of another task listens on port {port}")
    return found


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


def _sockets_of(pids: Iterable[int]) -> set[int]:
    """The inodes of all sockets of these processes."""
    found = set()
    for pid in pids:
        try:
            handles = list(Path(f"/proc/{pid}/fd").iterdir())
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # exited, or not to be looked into
            continue
        for handle in handles:
            try:
                target = str(handle.readlink())
            except OSError:  # closed meanwhile
                continue
            if target.startswith("socket:["):
                found.add(int(target[8:-1]))
    return found
