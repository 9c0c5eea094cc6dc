"""Reads records of the log again: those at given offsets, or a range from a snapshot on."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from bailiff_bus import topics
from bailiff_bus.port import Bus, BusUnavailable, Message, OffsetOutOfRange, Reader
from bailiff_core.records import ChainHead, Wire
from bailiff_log.chain_verifier import ChainVerifier
from bailiff_service.problems import unavailable

MERGE_GAP = 200  # offsets: reading across a gap of this size is cheaper than a seek
READ_S = 0.5
READ_TIMEOUT_S = 8.0


async def messages_at(bus: Bus, partition: int, offsets: Sequence[int]) -> list[Message]:
    """The messages at these ascending offsets. Raises `ApiError` if Kafka does not return them."""
    wanted, found = dict.fromkeys(offsets), list[Message]()
    if not offsets:
        return found
    try:
        async with asyncio.timeout(READ_TIMEOUT_S + len(offsets) / 50):
            reader = await bus.reader([(topics.AUDIT.name, partition, offsets[0])])
            try:
                for first, last in _ranges(offsets):
                    reader.follow(topics.AUDIT.name, partition, first)
                    found += [each async for each in _until(reader, last) if each.offset in wanted]
            finally:
                await reader.close()
    except (TimeoutError, BusUnavailable, OffsetOutOfRange) as error:
        raise unavailable(f"cannot read the log from Kafka: {error or 'timeout'}") from None
    return found


async def wires_from(
    bus: Bus, pool: str, partition: int, head: ChainHead, offset: int, until: int
) -> AsyncGenerator[tuple[int, Wire], None]:
    """Records from `head` to record `until`, each with its seq; the chain is verified, payloads are not decoded."""
    verifier = ChainVerifier(pool)
    verifier.resume(head, "", offset - 1, ())
    reader = await bus.reader([(topics.AUDIT.name, partition, offset)])
    try:
        while verifier.head.next_seq <= until:
            async with asyncio.timeout(READ_TIMEOUT_S):
                messages = await reader.read(wait=READ_TIMEOUT_S)
            if not messages:
                raise unavailable("cannot read the log from Kafka: timeout")
            for message in messages:
                wire = verifier.verify(message)
                if wire is not None:
                    yield verifier.head.next_seq - 1, wire
                    if verifier.head.next_seq > until:
                        return
    except (TimeoutError, BusUnavailable, OffsetOutOfRange) as error:
        raise unavailable(f"cannot read the log from Kafka: {error or 'timeout'}") from None
    finally:
        await reader.close()


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
