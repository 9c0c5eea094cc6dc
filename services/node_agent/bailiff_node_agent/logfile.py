"""Logs of tasks that do not fill the disk: the old part of one is moved to `<log>.1`, and its place on the disk given back.

The task only ever appends to a file that it holds open, so the file is neither renamed nor cut: a hole is made where the
old part was. What the task writes meanwhile is not lost, and offsets in the log stay what they were.
"""

import ctypes
import os
from pathlib import Path

KEEP_SIZE, PUNCH_HOLE = 0x01, 0x02
BLOCK = 4096


def rotate(log: Path, largest: int) -> bool:
    """Once the log takes more than `largest` bytes of disk, move its older half away. Whether that was done.

    `False` as well where the file system makes no holes (ext4, xfs, btrfs and tmpfs do) or has no room for the copy.
    """
    try:
        with log.open("r+b") as file:
            status = os.fstat(file.fileno())
            if status.st_blocks * 512 <= largest:
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
    """The first byte from `offset` on that was not moved away; the file's end where there is none."""
    try:
        return os.lseek(handle, offset, os.SEEK_DATA)
    except OSError:
        return max(offset, os.fstat(handle).st_size)


def _punch(handle: int, end: int) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return bool(libc.fallocate(handle, KEEP_SIZE | PUNCH_HOLE, 0, end) == 0)
