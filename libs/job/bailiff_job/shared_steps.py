"""`steps` of the control directory: eight numbers in memory that a rank shares with its node.

Reading one takes tens of nanoseconds and no system call, so it may be done in the innermost loop.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

STEP, NOTICE, AGREED, PROPOSED, CONFIRMED, SOFT_DEADLINE, PACE, FORMAT = range(8)
WORDS, WORD_BYTES = 8, 8
KNOWN_FORMAT = 1
NONE = -1


def map_words(path: Path, words: int) -> memoryview:
    """The file as 64-bit integers in shared memory.

    Raises:
        OSError: It cannot be opened.
        ValueError: It is too short.
    """
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return memoryview(mmap.mmap(handle, words * WORD_BYTES)).cast("q")
    finally:
        os.close(handle)


def detached_steps() -> memoryview:
    """Steps of a process without a node: no notice ever appears."""
    steps = memoryview(bytearray(WORDS * WORD_BYTES)).cast("q")
    clear(steps)
    steps[FORMAT] = KNOWN_FORMAT
    return steps


def clear(steps: memoryview) -> None:
    """The initial values: no step done, no notice."""
    steps[STEP] = steps[AGREED] = steps[PROPOSED] = steps[CONFIRMED] = NONE
    steps[NOTICE] = steps[SOFT_DEADLINE] = steps[PACE] = 0


def open_steps(control: Path) -> memoryview | None:
    """The task's steps; None where the node has none, or in a format that this release does not support."""
    try:
        steps = map_words(control / "steps", WORDS)
    except (OSError, ValueError):
        return None
    return steps if steps[FORMAT] == KNOWN_FORMAT else None
