"""Replays the segments of a folder in several processes, each a range of the log.

Nothing vouches for the state at the beginning of a range but the records before it: each process verifies and folds the log
from its first record on, and replays its own range only. Snapshots from elsewhere are not needed and not trusted. The ranges
must follow each other without a gap.
"""

import asyncio
import multiprocessing
from collections.abc import AsyncGenerator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bailiff.client.errors import ClientError
from bailiff_bus.port import Message
from bailiff_log.chain_verifier import ChainVerifier

from .log_positions import Point
from .log_sources import from_file
from .object_path import AnyPath
from .replay import RETRY_FACTS, STARTED, EngineUsed, Replayed, replay, to_judge
from .segments import SegmentFolder

FOLD = 0.3
"""Cost of folding a record, of the cost of replaying it."""


@dataclass(frozen=True, slots=True)
class Range:
    """What one process replays. None: from the beginning, to the end."""

    first: int | None
    last: int | None


async def replay_in_parallel(folder: SegmentFolder, processes: int, store: Path | None) -> Replayed | None:
    """The result, as `replay` gives it. None where it has to be found in one go: no place to divide it, or a process was
    killed."""
    starts = await _starts(folder, processes)
    if not starts:
        return None
    ranges = [Range(first, None if end is None else end - 1) for first, end in pairwise([None, *starts, None])]
    context = multiprocessing.get_context("forkserver")
    try:
        with ProcessPoolExecutor(len(ranges), mp_context=context) as pool:
            futures = [pool.submit(_replay_one, folder.folder, folder.pool, each, store) for each in ranges]
            parts = [await asyncio.wrap_future(each) for each in futures]
    except (BrokenProcessPool, ClientError):
        return None
    if any(before["to_seq"] + 1 != after["from_seq"] for before, after in pairwise(parts) if before["ok"]):
        return None
    return _joined(parts)


def _replay_one(path: AnyPath, pool: str, part: Range, store: Path | None) -> Replayed:
    async def read() -> AsyncGenerator[Message, None]:
        async for message in from_file(path).messages:
            yield message

    return asyncio.run(replay(pool, read, store=store, from_=Point(seq=part.first), to=Point(seq=part.last)))


async def _starts(folder: SegmentFolder, processes: int) -> list[int]:
    """The first records of the ranges but the first: of cycles at which a replay can begin."""
    first, end = folder.segments[0].first_seq, folder.segments[-1].last_seq + 1
    found = list[int]()
    for share in _shares(processes):
        start = await _start_after(folder, first + int((end - first) * share))
        if start is not None and start not in found:
            found.append(start)
    return found


def _shares(processes: int) -> list[float]:
    """Where to divide the log, as shares of it, so that all processes take equally long: each folds what is before its range."""
    lengths = [1.0]
    for _ in range(processes - 1):  # a range is shorter by what folding the range before it takes
        lengths.append(lengths[-1] * (1 - FOLD))
    whole, at, found = sum(lengths), 0.0, list[float]()
    for length in lengths[:-1]:
        at += length / whole
        found.append(at)
    return found


async def _start_after(folder: SegmentFolder, seq: int) -> int | None:
    """The first cycle from this record on in which resources became free."""
    number = next((at for at, each in enumerate(folder.segments) if each.first_seq <= seq <= each.last_seq), None)
    if number is None:
        return None
    segment = SegmentFolder(folder.folder, slice(number, None), folder.manifest)
    verifier, cycle_start = ChainVerifier(folder.pool), -1
    verifier.resume(segment.start, "", -1, ())
    cycle_ended = False  # where a segment begins is not known to be the beginning of a cycle
    async for message in segment.messages():
        wire = verifier.verify(message)
        if wire is None:
            continue
        at, headers = verifier.head.next_seq - 1, dict(wire.headers)
        kind = headers.get("ce_type")
        if cycle_ended or kind == STARTED:
            cycle_start = at
        if kind in RETRY_FACTS and cycle_start >= seq:
            return cycle_start
        cycle_ended = headers.get("ce_cycleend") == b"true"
    return None


def _joined(parts: list[Replayed]) -> Replayed:
    """The result of ranges that follow each other: up to the first one with a difference."""
    wrong = next((at for at, each in enumerate(parts) if not each["ok"]), len(parts) - 1)
    parts = parts[: wrong + 1]
    first, last = parts[0], parts[-1]
    engines: dict[tuple[str, str], EngineUsed] = {}
    for each in (engine for part in parts for engine in part["engines"]):
        known = engines.get((each["engine"], each["digest"]))
        engines[each["engine"], each["digest"]] = (
            each if known is None else {**each, "from_seq": known["from_seq"], "cycles": known["cycles"] + each["cycles"]}
        )
    return {
        **last,
        "from_seq": first["from_seq"],
        "cycles": sum(each["cycles"] for each in parts),
        "cycles_replayed": sum(each["cycles_replayed"] for each in parts),
        "cycles_of_other_engines": sum(each["cycles_of_other_engines"] for each in parts),
        "decisions": sum(each["decisions"] for each in parts),
        "digests": sum(each["digests"] for each in parts),
        "proposals": sum(each["proposals"] for each in parts),
        "proposals_searched": sum(each["proposals_searched"] for each in parts),
        "proposals_not_reproduced": sum(each["proposals_not_reproduced"] for each in parts),
        "proposal_differences": [difference for each in parts for difference in each["proposal_differences"]],
        "engines": list(engines.values()),
        "to_judge": list(to_judge(engines.values())),
    }
