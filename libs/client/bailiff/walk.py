"""Walk a log message by message: is the chain whole, and what are the orphans?"""

from collections.abc import AsyncGenerator, AsyncIterable

from bailiff_bus.port import Message
from bailiff_bus.seals import SealedWalk
from bailiff_bus.walk import ORPHAN_MEANINGS, ORPHANS_SHOWN, BreakFound, OrphanFound, OrphanKind, Verification, Walk
from bailiff_core.records import ChainHead, decode
from bailiff_core.records.wire import UnreadableRecord

__all__ = [
    "ORPHANS_SHOWN", "ORPHAN_MEANINGS", "BreakFound", "OrphanFound", "OrphanKind", "Verification", "Walk", "before", "verify",
]  # fmt: skip


async def verify(
    domain: str, messages: AsyncIterable[Message], seals: SealedWalk | None = None, start: ChainHead | None = None
) -> Verification:
    """Walk the whole log, and hold it against its seals. start: where it stands, if not at its beginning."""
    walk = Walk(domain)
    if start is not None and start.next_seq:
        walk.resume(start, "", -1, ())
    async for message in messages:
        wire = walk.judge(message)
        if wire is not None:
            if seals is not None:
                seals.add(walk.head.hash)
            try:
                decode(wire)
            except UnreadableRecord as error:
                walk.unreadable(wire, message.offset, error)
    found = walk.verification()
    if seals is not None:
        found["seal_problem"] = seals.finish()
        found["seals"], found["sealed"], found["seal_keys"] = len(seals.chain.seals), seals.sound, seals.chain.keys
        found["ok"] = found["ok"] and not found["seal_problem"]
    return found


async def before(seq: int, domain: str, messages: AsyncIterable[Message]) -> AsyncGenerator[Message, None]:
    """The messages up to the record `seq`, which is not among them."""
    walk = Walk(domain)
    async for message in messages:
        if walk.judge(message) is not None and walk.head.next_seq > seq:
            return
        yield message
