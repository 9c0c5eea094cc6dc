"""Reads records of the log again: those about a job, or a range from a snapshot on."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from bailiff_bus import topics
from bailiff_bus.port import Bus, BusUnavailable, OffsetOutOfRange
from bailiff_core.records import ChainHead, Wire
from bailiff_log.chain_verifier import ChainVerifier
from bailiff_log.job_index import Place
from bailiff_log.records_at import RecordChanged, records_at
from bailiff_service.problems import unavailable

READ_TIMEOUT_S = 8.0


async def job_records(bus: Bus, partition: int, places: Sequence[Place]) -> list[Wire]:
    """The records at these ascending places. Raises `ApiError` if Kafka does not return them."""
    try:
        return await records_at(bus, partition, places)
    except (TimeoutError, BusUnavailable, OffsetOutOfRange, RecordChanged) as error:
        raise unavailable(f"cannot read the log from Kafka: {error or 'timeout'}") from None


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
