"""What a job can leave or put in place of a file to make an agent fail: every kind of entry, deep, wide, sparse and linked."""

import fcntl
import os
import random
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DEEP = 3_000
NAMES = (b"%d", b"\xff\xfe%d", b"n" * 250 + b"%d", b"a\nb%d")
"""Plain, bad UTF-8, of 255 bytes, of several lines."""


def nest(folder: Path, depth: int = DEEP, content: bytes = b"") -> None:
    """So many folders within one another, a file in the deepest: no path reaches it."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    file = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=handle)
    os.write(file, content)
    os.close(file)
    os.close(handle)


def _socket(path: Path) -> None:
    """Its path may be too long for an address."""
    folder = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.join(b"/proc/self/fd", b"%d" % folder, os.fsencode(path.name)))  # noqa: PTH118
    finally:
        os.close(folder)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


KINDS: dict[str, Callable[[Path, Path], None]] = {
    "empty": lambda path, _: path.touch(),
    "fifo": lambda path, _: os.mkfifo(path),
    "socket": lambda path, _: _socket(path),
    "device": lambda path, _: os.mknod(path, 0o20600, os.makedev(1, 5)),
    "link to itself": lambda path, _: path.symlink_to(path.name),
    "link to a folder": lambda path, _: path.symlink_to(path.parent),
    "link out": lambda path, outside: path.symlink_to(outside / "precious"),
    "hard link": lambda path, outside: os.link(outside / "precious", path),
    "folder": lambda path, _: path.mkdir(),
    "sparse": lambda path, _: _sparse(path),
}
"""Each puts something in the place of a file. outside: a folder that is not the job's, with a file `precious`."""


def spoil(folder: Path, seed: int, outside: Path, count: int = 60) -> None:
    """A tree of everything that a job can make, drawn by the seed."""
    draw = random.Random(seed)
    folders = [folder]
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        path = draw.choice(folders) / os.fsdecode(draw.choice(NAMES) % number)
        kind = draw.choice([*KINDS, "folder", "closed"])
        with suppress(OSError):  # a path that has become too long; a device, which only root makes
            if kind in ("folder", "closed"):
                path.mkdir(mode=0o700)
                folders.append(path)
            else:
                KINDS[kind](path, outside)
            if kind == "closed":
                path.chmod(0)


@contextmanager
def leased(path: Path) -> Iterator[None]:
    """Whoever opens the file must wait until its lease is broken, 45 s, or be told so."""
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # whose default would end the holder
    handle = os.open(path, os.O_RDWR)
    fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    try:
        yield
    finally:
        os.close(handle)
        signal.signal(signal.SIGIO, before)


GET_FLAGS, SET_FLAGS, IMMUTABLE = 0x80086601, 0x40086602, 0x10


@contextmanager
def immutable(path: Path) -> Iterator[None]:
    """Nobody changes or removes it by any name, not even root. Raises `OSError` where this file system or user cannot do it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        (flags,) = struct.unpack("l", fcntl.ioctl(handle, GET_FLAGS, struct.pack("l", 0)))
        fcntl.ioctl(handle, SET_FLAGS, struct.pack("l", flags | IMMUTABLE))
        try:
            yield
        finally:
            fcntl.ioctl(handle, SET_FLAGS, struct.pack("l", flags))
    finally:
        os.close(handle)
