"""The report of a verified log: chain, orphans, seals."""

from collections.abc import AsyncGenerator, AsyncIterable, Callable
from typing import TYPE_CHECKING

from bailiff.client.errors import CheckFailed
from bailiff_bus.port import Message
from bailiff_core.records import ChainHead, Record, Wire, decode
from bailiff_core.records.merkle import Frontier
from bailiff_core.records.wire import UnreadableRecord, time_text
from bailiff_log.chain_verifier import ChainVerifier, Verification
from bailiff_log.reader import Entry
from bailiff_log.seals import SealVerifier

if TYPE_CHECKING:
    from bailiff_log.request_verifier import RequestVerifier


async def verify(
    pool: str,
    messages: AsyncIterable[Message],
    seals: SealVerifier | None = None,
    start: ChainHead | None = None,
    on_record: Callable[[ChainHead, Frontier], None] | None = None,
    keep: Callable[[Wire, Record], None] | None = None,
    requests: "RequestVerifier | None" = None,
) -> Verification:
    """Verify the whole log against its seals.

    Args:
        start: The chain head before the first message, if it is not the beginning.
        on_record: Called with chain head and Merkle tree after each record; only with seals.
        keep: Called with each record, where the caller verifies who asked.
        requests: Verifies who asked; the caller judges the rejections that it leaves.
    """
    from bailiff_log.request_verifier import RequestVerifier  # imported here: other readers load no message models

    verifier = ChainVerifier(pool)
    requests = requests or RequestVerifier(pool, start.keys if start is not None else None)
    if start is not None:
        verifier.resume(start, seals.chain.identity if seals is not None else "", -1, ())
    async for message in messages:
        wire = verifier.verify(message)
        if wire is not None:
            if seals is not None:
                seals.add(verifier.head.hash)
                if on_record is not None:
                    on_record(verifier.head, seals.tree)
            try:
                record = decode(wire, verifier.laid)
            except UnreadableRecord as error:
                verifier.mark_unreadable(wire, message.offset, error)
                continue
            if keep is not None:
                keep(wire, record)
            else:
                requests.take(record)
    found = verifier.verification()
    found["requests"] = requests.result()
    found["ok"] = found["ok"] and not found["requests"]["fault_count"]
    if seals is not None:
        found["seal_problem"] = seals.finish()
        found["seals"], found["sealed"], found["seal_keys"] = len(seals.chain.seals), seals.verified, seals.chain.keys
        found["forked"] = [
            f"#{each.from_seq} to #{each.invalidated_size - 1} and possibly more sealed records are lost: accepted on "
            f"{time_text(each.invalidated_at)[:10]}, {each.reason or 'no reason given'}"
            for each in seals.chain.invalidations
        ]
        found["ok"] = found["ok"] and not found["seal_problem"]
    return found


async def before(seq: int, start: ChainHead, messages: AsyncIterable[Message]) -> AsyncGenerator[Message, None]:
    """The messages before the record `seq`.

    Args:
        start: The chain head before the first message.
    """
    verifier = ChainVerifier(start.pool)
    verifier.resume(start, "", -1, ())
    async for message in messages:
        if verifier.verify(message) is not None and verifier.head.next_seq > seq:
            return
        yield message


async def entries(verifier: ChainVerifier, messages: AsyncIterable[Message], advice: str) -> AsyncGenerator[Entry, None]:
    """Records of the log.

    Raises:
        ClientError: The chain is broken; with this advice.
    """
    async for message in messages:
        wire = verifier.verify(message)
        unbroken(verifier, advice)
        if wire is not None:
            yield Entry(decode(wire), wire, message.offset, message.time, verifier.head.hash)


def unbroken(verifier: ChainVerifier, advice: str) -> None:
    """Raises `ClientError` with this advice if the chain is broken."""
    if verifier.broken is not None:
        raise CheckFailed(f"the chain is broken at seq {verifier.broken['seq']}: {verifier.broken['meaning']}", advice)
