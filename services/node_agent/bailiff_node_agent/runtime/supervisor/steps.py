"""`steps`: eight 64-bit integers that job and node share in memory (docs/how-to/survive-preemption.md)."""

import contextlib
import os
from collections.abc import Iterator

from . import safe_open

STEP_WORDS = ("published", "noticed", "agreed", "proposed", "confirmed", "deadline", "pace", "format")
INITIAL_STEPS = (-1, 0, -1, -1, -1, 0, 0, 1)


def write_step(control_dir: str, name: str, value: int) -> None:
    """Written, not mapped: a job that truncates the file would crash a process that maps it. Only a file of one name is used."""
    with contextlib.suppress(OSError), _steps(control_dir, os.O_RDWR) as handle:
        if os.fstat(handle).st_nlink == 1:
            os.pwrite(handle, value.to_bytes(8, "little", signed=True), 8 * STEP_WORDS.index(name))


def read_steps(control_dir: str) -> dict[str, int]:
    """All eight words; the initial ones where the file is missing or was truncated."""
    try:
        with _steps(control_dir, os.O_RDONLY) as handle:
            data = os.pread(handle, 64, 0)
    except OSError:
        data = b""
    if len(data) < 64:
        return dict(zip(STEP_WORDS, INITIAL_STEPS, strict=True))
    return {name: int.from_bytes(data[8 * at : 8 * at + 8], "little", signed=True) for at, name in enumerate(STEP_WORDS)}


@contextlib.contextmanager
def _steps(control_dir: str, flags: int) -> Iterator[int]:
    handle = safe_open.open_file(control_dir, "steps", flags)
    try:
        yield handle
    finally:
        os.close(handle)
