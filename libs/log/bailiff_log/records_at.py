"""Reads single records of the log again, by their places."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from bailiff_bus.port import Bus, Message, Reader
from bailiff_bus.topics import AUDIT
from bailiff_core.model.state import PoolState
from bailiff_core.records import Break, ChainHead, Wire, continues, decode, record_hash
from bailiff_core.records.decisions import PreemptionRequested
from bailiff_core.records.facts import ProposalReceived
from bailiff_core.records.wire import parse_headers

from .job_index import JobIndex, Place, place_of
from .reader import Entry

MERGE_GAP = 200  # offsets: reading across a gap of this size is cheaper than a seek
READ_S = 0.5
READ_TIMEOUT_S = 8.0
READ_PER_S = 5_000  # messages
ANSWERED = frozenset(kind.TYPE.encode() for kind in (PreemptionRequested, ProposalReceived))
"""What decisions about a job answer."""


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


async def messages_between(bus: Bus, partition: int, first: int, last: int) -> AsyncGenerator[Message, None]:
    """The messages at these offsets and between."""
    reader = await bus.reader([(AUDIT.name, partition, first)])
    try:
        async for message in _until(reader, last):
            yield message
    finally:
        await reader.close()


async def places_since(
    bus: Bus, partition: int, job: str, since: int, head: ChainHead, last: int, state: PoolState
) -> list[Place] | None:
    """The places of the records about a job, found by reading the log from its submission on; None: all of it is needed.

    The hash of the last record vouches for those before it.

    Args:
        since: Record of the submission.
        head: The chain after the last record, which was verified.
        last: Its offset.
        state: After it.

    Raises:
        TimeoutError: It takes too long.
    """
    index, at, name, number = JobIndex(), None, job.encode(), b"%d" % since
    async with (
        asyncio.timeout(READ_TIMEOUT_S + (last - since) / READ_PER_S),
        aclosing(messages_between(bus, partition, since, last)) as messages,  # an offset is at least its record's number
    ):
        async for message in messages:
            wire = Wire(message.headers, message.value)
            layout, values = parsed = parse_headers(wire)
            _, seq, prev, kind, epoch, *_ = layout.pick(values)
            if at is None and seq == number and epoch.isdigit():
                at = ChainHead(head.pool, since, prev.decode(errors="replace"), int(epoch))
            after = continues(at, wire, parsed=parsed) if at is not None else None
            if after is None or isinstance(after, Break):
                continue
            at = after
            if name in wire.value or kind in ANSWERED:
                index.take(Entry(decode(wire, parsed), wire, message.offset, message.time, at.hash), state)
    return index.of(job, state) if at is not None and at.hash == head.hash else None


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
