"""Reads single records of the log again, by their places."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from bailiff_bus.port import Bus, Message, Reader
from bailiff_bus.topics import AUDIT
from bailiff_core.records import Wire, record_hash

from .job_index import Place, place_of

MERGE_GAP = 200  # offsets: reading across a gap of this size is cheaper than a seek
READ_S = 0.5
READ_TIMEOUT_S = 8.0


class RecordChanged(Exception):
    """A record is not the one that was read before: the log was altered or replaced."""


async def records_at(bus: Bus, partition: int, places: Sequence[Place]) -> list[Wire]:
    """The records at these ascending places. Raises `TimeoutError`, and `RecordChanged`."""
    wanted, found = dict(places), list[Wire]()
    if not places:
        return found
    async with asyncio.timeout(READ_TIMEOUT_S + len(places) / 50):
        reader = await bus.reader([(AUDIT.name, partition, places[0].offset)])
        try:
            for first, last in _ranges([place.offset for place in places]):
                reader.follow(AUDIT.name, partition, first)
                async for message in _until(reader, last):
                    if message.offset in wanted:
                        found.append(_checked(message, wanted[message.offset]))
        finally:
            await reader.close()
    return found


def _checked(message: Message, hash_: int) -> Wire:
    wire = Wire(message.headers, message.value)
    if place_of(message.offset, record_hash(wire)).hash != hash_:
        raise RecordChanged(f"the record at offset {message.offset} is not the one that was verified")
    return wire


async def _until(reader: Reader, last: int) -> AsyncGenerator[Message, None]:
    while True:
        for message in await reader.read(wait=READ_S):
            yield message
            if message.offset >= last:
                return


def _ranges(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """First and last offset of each group of nearby offsets."""
    groups = [(offsets[0], offsets[0])]
    for offset in offsets[1:]:
        first, last = groups[-1]
        if offset - last <= MERGE_GAP:
            groups[-1] = (first, offset)
        else:
            groups.append((offset, offset))
    return groups
