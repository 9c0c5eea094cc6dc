"""Eight words that job and node share in memory."""

import contextlib
import os
import stat
from collections.abc import Iterator

STEPS = ("published", "noticed", "agreed", "proposed", "confirmed", "deadline", "pace", "format")
FIRST_STEPS = (-1, 0, -1, -1, -1, 0, 0, 1)


def write_step(wall: str, name: str, value: int) -> None:
    """Not mapped: a job that cut the file short would end whoever maps it. One that is no file, or another file, is let be."""
    with contextlib.suppress(OSError), _steps(wall, os.O_RDWR) as handle:
        about = os.fstat(handle)
        if stat.S_ISREG(about.st_mode) and about.st_nlink == 1:
            os.pwrite(handle, value.to_bytes(8, "little", signed=True), 8 * STEPS.index(name))


def read_steps(wall: str) -> dict[str, int]:
    """All eight words, those of a file that is not there or was cut short as they were in the beginning."""
    try:
        with _steps(wall, os.O_RDONLY) as handle:
            data = os.pread(handle, 64, 0)
    except OSError:
        data = b""
    if len(data) < 64:
        return dict(zip(STEPS, FIRST_STEPS, strict=True))
    return {name: int.from_bytes(data[8 * at : 8 * at + 8], "little", signed=True) for at, name in enumerate(STEPS)}


@contextlib.contextmanager
def _steps(wall: str, how: int) -> Iterator[int]:
    handle = os.open(f"{wall}/steps", how | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield handle
    finally:
        os.close(handle)
