"""The eight numbers that a rank and its node both see: the file `steps` of the control directory, mapped into memory.

Reading one costs tens of nanoseconds and no system call, so it may stand in the innermost loop.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

STEP, NOTICE, AGREED, PROPOSED, CONFIRMED, SOFT_DEADLINE, RATE_MILLI, FORMAT = range(8)
WORDS, WORD_BYTES = 8, 8
KNOWN_FORMAT = 1
NONE = -1


def map_words(path: Path, words: int) -> memoryview:
    """The file as that many 64-bit integers, shared with everybody who maps it. Raises OSError or ValueError (too short)."""
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return memoryview(mmap.mmap(handle, words * WORD_BYTES)).cast("q")
    finally:
        os.close(handle)


def quiet_board() -> memoryview:
    """A board on which nobody will ever write a notice: outside Bailiff."""
    board = memoryview(bytearray(WORDS * WORD_BYTES)).cast("q")
    clear(board)
    board[FORMAT] = KNOWN_FORMAT
    return board


def clear(board: memoryview) -> None:
    """As a rank finds it that has said nothing yet, without a notice."""
    board[STEP] = board[AGREED] = board[PROPOSED] = board[CONFIRMED] = NONE
    board[NOTICE] = board[SOFT_DEADLINE] = board[RATE_MILLI] = 0


def open_board(control: Path) -> memoryview | None:
    """The task's board, or None where the node has none or one of a form that this release does not know."""
    try:
        board = map_words(control / "steps", WORDS)
    except (OSError, ValueError):
        return None
    return board if board[FORMAT] == KNOWN_FORMAT else None
