"""Rotation of task logs: the older part is moved to `<log>.1`, and its disk space is freed.

The task appends to a file that it holds open, so the file is neither renamed nor truncated: the older part is replaced by a
hole. Nothing that the task writes meanwhile is lost, and offsets in the log do not change.

The task may have made holes itself, and may change the file meanwhile: only what it has really written is copied.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .runtime.supervisor import safe_open

KEEP_SIZE, PUNCH_HOLE = 0x01, 0x02
BLOCK = 4096
AT_ONCE = 1 << 20


def rotate(log: Path, max_bytes: int) -> bool:
    """If the log takes more than `max_bytes` of disk, move its older half to `<log>.1`. Whether it was rotated.

    What is beyond twice `max_bytes` is dropped, the oldest first: neither file keeps more than `max_bytes`. False, too, where the
    file system has no holes (ext4, xfs, btrfs and tmpfs have) or no space for the copy, or where the log is no regular file.
    """
    try:
        handle = safe_open.open_file(str(log.parent), log.name, os.O_RDWR)
    except OSError:
        return False
    new = log.with_name(f"{log.name}.1.new")
    try:
        status = os.fstat(handle)
        if status.st_blocks * 512 <= max_bytes:
            return False
        written = sum(end - begin for begin, end in _written(handle, status.st_size))
        keep = min(written // 2, max_bytes)
        begin, end = _after(handle, status.st_size, written - keep - max_bytes), _after(handle, status.st_size, written - keep)
        end = end // BLOCK * BLOCK
        if end <= begin:
            return False
        new.unlink(missing_ok=True)
        _copy(handle, begin, end, new, max_bytes)
        new.replace(log.with_name(f"{log.name}.1"))
        return _punch(handle, end)
    except OSError:
        return False
    finally:
        os.close(handle)
        with suppress(OSError):
            new.unlink()


def first_data(handle: int, offset: int) -> int:
    """The first byte from `offset` on that was not rotated away; the end of the file where there is none."""
    try:
        return os.lseek(handle, offset, os.SEEK_DATA)
    except OSError:
        return max(offset, os.fstat(handle).st_size)


def _written(handle: int, size: int) -> Iterator[tuple[int, int]]:
    """Where each part that is no hole begins and ends: fewer than the file has blocks on disk."""
    end = 0
    while (begin := first_data(handle, end)) < size:
        end = min(size, os.lseek(handle, begin, os.SEEK_HOLE))
        yield begin, end


def _after(handle: int, size: int, count: int) -> int:
    """The position that has so many written bytes before it."""
    for begin, end in _written(handle, size):
        if count < end - begin:
            return begin + max(0, count)
        count -= end - begin
    return size


def _copy(handle: int, begin: int, end: int, new: Path, most: int) -> None:
    """Holes stay holes. most: bytes to copy; the task may fill holes meanwhile."""
    copy = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        for part, until in _written(handle, end):
            at = max(part, begin)
            os.lseek(copy, at - begin, os.SEEK_SET)
            while at < until and (moved := os.sendfile(copy, handle, at, min(AT_ONCE, until - at, most))):
                at, most = at + moved, most - moved
        os.truncate(copy, end - begin)
    finally:
        os.close(copy)


def _punch(handle: int, end: int) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return bool(libc.fallocate(handle, KEEP_SIZE | PUNCH_HOLE, 0, end) == 0)
