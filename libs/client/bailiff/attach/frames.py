"""Frames between a client and a task's terminal: a type, a length of four bytes (big-endian), and the content.

To the task: `I` input, `R` rows and columns. From it: `O` output, `S` how many bytes of output were left out because the client
was too slow. The other end is the task's supervisor (docs/how-to/interactive.md#the-protocol).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

HEADER, SIZE, COUNT = struct.Struct(">cI"), struct.Struct(">HH"), struct.Struct(">Q")
INPUT, RESIZE, OUTPUT, SKIPPED = b"I", b"R", b"O", b"S"
MAX_FRAME = 1 << 20


def frame(kind: bytes, content: bytes) -> bytes:
    return HEADER.pack(kind, len(content)) + content


def resize(rows: int, columns: int) -> bytes:
    """The frame for a new size of the window."""
    return frame(RESIZE, SIZE.pack(rows, columns))


async def next_frame(reader: asyncio.StreamReader) -> tuple[bytes, bytes] | None:
    """The next frame; None where the connection ends.

    Raises:
        ValueError: The frame is one that no supervisor sends.
    """
    import asyncio

    try:
        kind, length = HEADER.unpack(await reader.readexactly(HEADER.size))
        if length > MAX_FRAME:
            raise ValueError(f"a frame of {length} bytes")
        return kind, await reader.readexactly(length)
    except (asyncio.IncompleteReadError, OSError):
        return None
