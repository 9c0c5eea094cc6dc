"""Records of the log read again: those at given places, or a stretch from one of the kept states on."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from bailiff_bus import topics
from bailiff_bus.port import Bus, BusUnavailable, Message, OffsetGone, Reader
from bailiff_bus.walk import Walk
from bailiff_console.problems import busy
from bailiff_core.records import ChainHead, Wire

NEAR = 200  # offsets: it costs less to read over these than to go there anew
READ_S = 0.5
SILENT_S = 8.0


async def messages_at(bus: Bus, partition: int, offsets: Sequence[int]) -> list[Message]:
    """The messages at these offsets, which are in order. Raises `Refused` where Kafka does not give them."""
    wanted, found = dict.fromkeys(offsets), list[Message]()
    if not offsets:
        return found
    try:
        async with asyncio.timeout(SILENT_S + len(offsets) / 50):
            reader = await bus.reader([(topics.AUDIT.name, partition, offsets[0])])
            try:
                for first, last in _stretches(offsets):
                    reader.follow(topics.AUDIT.name, partition, first)
                    found += [each async for each in _until(reader, last) if each.offset in wanted]
            finally:
                await reader.close()
    except (TimeoutError, BusUnavailable, OffsetGone) as error:
        raise busy(f"Kafka does not give the log's records: {error or 'no answer in time'}") from None
    return found


async def wires_from(
    bus: Bus, domain: str, partition: int, head: ChainHead, offset: int, until: int
) -> AsyncGenerator[tuple[int, Wire], None]:
    """The records from here to the record `until`, each with its seq, checked to continue the chain and not decoded."""
    judge = Walk(domain)
    judge.resume(head, "", offset - 1, ())
    reader = await bus.reader([(topics.AUDIT.name, partition, offset)])
    try:
        while judge.head.next_seq <= until:
            async with asyncio.timeout(SILENT_S):
                messages = await reader.read(wait=SILENT_S)
            if not messages:
                raise busy("Kafka does not give the log's records")
            for message in messages:
                wire = judge.judge(message)
                if wire is not None:
                    yield judge.head.next_seq - 1, wire
                    if judge.head.next_seq > until:
                        return
    except (TimeoutError, BusUnavailable, OffsetGone) as error:
        raise busy(f"Kafka does not give the log's records: {error or 'no answer in time'}") from None
    finally:
        await reader.close()


async def _until(reader: Reader, last: int) -> AsyncGenerator[Message, None]:
    while True:
        for message in await reader.read(wait=READ_S):
            yield message
            if message.offset >= last:
                return


def _stretches(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """First and last of each group that lies close together."""
    groups = [(offsets[0], offsets[0])]
    for offset in offsets[1:]:
        first, last = groups[-1]
        if offset - last <= NEAR:
            groups[-1] = (first, offset)
        else:
            groups.append((offset, offset))
    return groups
