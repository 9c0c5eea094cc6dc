"""Rotation of task logs: the older part is moved to `<log>.1`, and its disk space is freed.

The task appends to a file that it holds open, so the file is neither renamed nor truncated: the older part is replaced by a
hole. Nothing that the task writes meanwhile is lost, and offsets in the log do not change.
"""

import ctypes
import os
from pathlib import Path

KEEP_SIZE, PUNCH_HOLE = 0x01, 0x02
BLOCK = 4096


def rotate(log: Path, max_bytes: int) -> bool:
    """If the log takes more than `max_bytes` of disk, move its older half to `<log>.1`. Whether it was rotated.

    False, too, where the file system has no holes (ext4, xfs, btrfs and tmpfs have) or no space for the copy.
    """
    try:
        with log.open("r+b") as file:
            status = os.fstat(file.fileno())
            if status.st_blocks * 512 <= max_bytes:
                return False
            begin = first_data(file.fileno(), 0)
            end = (begin + (status.st_size - begin) // 2) // BLOCK * BLOCK
            if end <= begin:
                return False
            new = log.with_name(f"{log.name}.1.new")
            with new.open("wb") as old:
                os.fchmod(old.fileno(), 0o600)
                at = begin
                while at < end:
                    at += os.sendfile(old.fileno(), file.fileno(), at, min(1 << 20, end - at))
            new.replace(log.with_name(f"{log.name}.1"))
            return _punch(file.fileno(), end)
    except OSError:
        return False


def first_data(handle: int, offset: int) -> int:
    """The first byte from `offset` on that was not rotated away; the end of the file where there is none."""
    try:
        return os.lseek(handle, offset, os.SEEK_DATA)
    except OSError:
        return max(offset, os.fstat(handle).st_size)


def _punch(handle: int, end: int) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return bool(libc.fallocate(handle, KEEP_SIZE | PUNCH_HOLE, 0, end) == 0)
