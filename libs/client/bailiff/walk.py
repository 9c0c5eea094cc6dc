"""Walk a log message by message: is the chain whole, what are the orphans, does deciding again give the same?"""

import json
from collections.abc import AsyncGenerator, AsyncIterable
from typing import TypedDict

from bailiff_bus.port import Message
from bailiff_bus.seals import SealedWalk
from bailiff_bus.walk import ORPHAN_MEANINGS, ORPHANS_SHOWN, BreakFound, OrphanFound, OrphanKind, Verification, Walk
from bailiff_core.records import ChainHead, decode
from bailiff_core.records.wire import UnreadableRecord, time_text
from bailiff_core.replay import Difference, Replay

__all__ = [
    "ORPHANS_SHOWN", "ORPHAN_MEANINGS", "BreakFound", "DifferenceFound", "OrphanFound", "OrphanKind", "Replayed",
    "Verification", "Walk", "before", "differing_fields", "replay", "verify",
]  # fmt: skip


async def verify(
    domain: str, messages: AsyncIterable[Message], seals: SealedWalk | None = None, start: ChainHead | None = None
) -> Verification:
    """Walk the whole log, and hold it against its seals. start: where it stands, if not at its beginning."""
    walk = Walk(domain)
    if start is not None:
        walk.resume(start, seals.chain.identity if seals is not None else "", -1, ())
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


# --- replay


class DifferenceFound(TypedDict):
    """Where deciding again gave something else, and the fields in which the two differ."""

    seq: int
    turn: int
    expected: str
    found: str
    fields: list[str]


class Replayed(TypedDict):
    """What `bailiff audit replay` found. `ok` is false where `difference` or `error` says why."""

    domain: str
    ok: bool
    records: int
    turns: int
    turns_decided_again: int
    turns_of_other_engines: int
    decisions: int
    digests: int
    orphans: int
    difference: DifferenceFound | None
    error: str


async def replay(domain: str, messages: AsyncIterable[Message]) -> Replayed:
    """Fold the log, decide every turn again, and compare byte for byte."""
    walk, again = Walk(domain), Replay()
    error = ""
    async for message in messages:
        wire = walk.judge(message)
        if wire is None:
            continue
        try:
            again.feed(decode(wire), wire)
        except UnreadableRecord as unreadable:
            error = str(unreadable)
        except Exception as failure:  # noqa: BLE001 - a log that was tampered with may fail anywhere in the fold
            error = f"#{walk.head.next_seq - 1}: {type(failure).__name__}: {failure}"
        if error or again.difference is not None:
            break
    broken = walk.verification()["broken"]
    if not error and broken is not None:
        error = f"the chain is broken at seq {broken['seq']} (offset {broken['offset']}): {broken['meaning']}"
    return {
        "domain": domain,
        "ok": again.difference is None and not error,
        "records": walk.head.next_seq,
        "turns": again.turns,
        "turns_decided_again": again.turns - again.skipped_turns,
        "turns_of_other_engines": again.skipped_turns,
        "decisions": again.decisions,
        "digests": again.digests,
        "orphans": sum(walk.kinds.values()),
        "difference": _difference(again.difference) if again.difference is not None else None,
        "error": error,
    }


def _difference(found: Difference) -> DifferenceFound:
    return {
        "seq": found.seq, "turn": found.turn, "expected": found.expected, "found": found.found,
        "fields": differing_fields(found.expected, found.found),
    }  # fmt: skip


def differing_fields(expected: str, found: str) -> list[str]:
    """`victims.0.job: train-7 was decided, deciding again gives train-8`, for two decisions of one type."""
    (kind, _, left), (other, _, right) = expected.partition(" "), found.partition(" ")
    try:
        pairs = [(json.loads(left), json.loads(right))] if kind == other else []
    except ValueError:
        pairs = []
    lines: list[str] = []
    for again, then in pairs:
        _compare("", again, then, lines)
    return lines[:10]


def _compare(path: str, again: object, then: object, lines: list[str]) -> None:
    if isinstance(again, dict) and isinstance(then, dict):
        for key in sorted({*again, *then}):
            _compare(f"{path}.{key}" if path else key, again.get(key), then.get(key), lines)
    elif isinstance(again, list) and isinstance(then, list) and len(again) == len(then):
        for index, (left, right) in enumerate(zip(again, then, strict=True)):
            _compare(f"{path}.{index}", left, right, lines)
    elif again != then:
        lines.append(f"{path}: {then!r} was decided, deciding again gives {again!r}")
