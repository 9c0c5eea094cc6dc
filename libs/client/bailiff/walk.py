"""Walk a log message by message: is the chain whole, and what are the orphans?"""

from collections.abc import AsyncGenerator, AsyncIterable, Callable

from bailiff_bus.log import Entry
from bailiff_bus.port import Message
from bailiff_bus.seals import SealedWalk
from bailiff_bus.walk import ORPHAN_MEANINGS, ORPHANS_SHOWN, BreakFound, OrphanFound, OrphanKind, Verification, Walk
from bailiff_core.records import ChainHead, decode
from bailiff_core.records.merkle import Frontier
from bailiff_core.records.wire import UnreadableRecord, time_text

from .problem import ExitCode, Problem

__all__ = [
    "ORPHANS_SHOWN", "ORPHAN_MEANINGS", "BreakFound", "OrphanFound", "OrphanKind", "Verification", "Walk",
    "before", "entries", "unbroken", "verify",
]  # fmt: skip


async def verify(
    domain: str,
    messages: AsyncIterable[Message],
    seals: SealedWalk | None = None,
    start: ChainHead | None = None,
    walked: Callable[[ChainHead, Frontier], None] | None = None,
) -> Verification:
    """Walk the whole log, and hold it against its seals. start: where it stands, if not at its beginning.

    walked: is told where chain and tree stand behind each record; only with seals.
    """
    walk = Walk(domain)
    if start is not None:
        walk.resume(start, seals.chain.identity if seals is not None else "", -1, ())
    async for message in messages:
        wire = walk.judge(message)
        if wire is not None:
            if seals is not None:
                seals.add(walk.head.hash)
                if walked is not None:
                    walked(walk.head, seals.tree)
            try:
                decode(wire)
            except UnreadableRecord as error:
                walk.unreadable(wire, message.offset, error)
    found = walk.verification()
    if seals is not None:
        found["seal_problem"] = seals.finish()
        found["seals"], found["sealed"], found["seal_keys"] = len(seals.chain.seals), seals.sound, seals.chain.keys
        found["set_aside"] = [
            f"#{each.from_seq} to #{each.lost - 1} and perhaps more, which were sealed, are lost: accepted on "
            f"{time_text(each.set_aside_at)[:10]}, {each.reason or 'no reason given'}"
            for each in seals.chain.aside
        ]
        found["ok"] = found["ok"] and not found["seal_problem"]
    return found


async def before(seq: int, start: ChainHead, messages: AsyncIterable[Message]) -> AsyncGenerator[Message, None]:
    """The messages up to the record `seq`, which is not among them. start: where the log stands before the first."""
    walk = Walk(start.domain)
    walk.resume(start, "", -1, ())
    async for message in messages:
        if walk.judge(message) is not None and walk.head.next_seq > seq:
            return
        yield message


async def entries(walk: Walk, messages: AsyncIterable[Message], advice: str) -> AsyncGenerator[Entry, None]:
    """The records of an unbroken log, as found. Raises `Problem` with this advice where it is broken."""
    async for message in messages:
        wire = walk.judge(message)
        unbroken(walk, advice)
        if wire is not None:
            yield Entry(decode(wire), wire, message.offset, message.time, walk.head.hash)


def unbroken(walk: Walk, advice: str) -> None:
    """Raise `Problem` with this advice where the log is broken."""
    if walk.broken is not None:
        text = f"the chain is broken at seq {walk.broken['seq']}: {walk.broken['meaning']}"
        raise Problem(ExitCode.FOUND_WRONG, text, advice)
