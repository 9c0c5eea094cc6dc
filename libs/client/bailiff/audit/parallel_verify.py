"""Verifies the segments of a folder side by side, one process for each core.

Each segment is verified from where the manifest says that it begins: chain, signatures, seals. Where it ends is compared with
where the manifest says that the next one begins, so that together they are as good as one after another. What needs all records
in their order is done here: who asked, and what witnesses cosigned.
"""

import asyncio
import multiprocessing
import os
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace

from bailiff.client.errors import ClientError
from bailiff_core.records import ChainHead, Record, Wire, decode
from bailiff_core.records.merkle import Frontier
from bailiff_log.chain_verifier import ORPHANS_SHOWN, Verification
from bailiff_log.request_verifier import RequestVerifier, concerns_requests
from bailiff_log.seals import SealChain, SealVerifier

from . import chain_report
from .cosignatures import CosignatureVerifier
from .object_path import AnyPath
from .segments import Manifest, SegmentFolder

WORTH_IT = 100_000
"""Records of a folder; with fewer, starting processes takes longer than they save."""


def processes_for(folder: SegmentFolder | None) -> int:
    """How many processes to verify this source with: one for each core, if it is a folder of many records."""
    many = folder is not None and folder.segments[-1].last_seq + 1 - folder.segments[0].first_seq >= WORTH_IT
    return len(os.sched_getaffinity(0)) if many else 1


@dataclass(frozen=True, slots=True)
class Part:
    """One verified segment.

    Attributes:
        positions: Chain head, size and peaks of the tree at the sizes that were asked for, and at its end.
        requests: The bytes of the records that say who asked, or with which keys.
        contradictions: Of the manifest, with the records or the file.
    """

    found: Verification
    positions: list[tuple[ChainHead, int, list[bytes]]]
    requests: list[Wire]
    contradictions: list[str]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.found["ok"] and not self.found["unexplained"] and not self.contradictions


async def verify_in_parallel(
    folder: SegmentFolder, chain: SealChain, cosigned: CosignatureVerifier, requests: RequestVerifier, processes: int
) -> Verification | None:
    """The result, as `chain_report.verify` gives it. None where it has to be found in one go: something is wrong, an orphan can
    only be judged by what is in an earlier segment, or a process was killed.
    """
    found: Verification | None = None
    try:
        async for part in _parts(folder, chain, cosigned.sizes, processes):
            if part is None or not part.is_sound:
                return None
            for head, size, peaks in part.positions:
                cosigned.add(head, Frontier(size, peaks))
            for wire in part.requests:
                requests.take(decode(wire))
            found = _joined(found, part.found) if found is not None else part.found
    except BrokenProcessPool:
        return None
    assert found is not None
    if not chain.seals:
        found["sealed"] = folder.tree.size
    return found


async def _parts(folder: SegmentFolder, chain: SealChain, sizes: frozenset[int], processes: int) -> AsyncGenerator[Part | None]:
    """In the order of the segments; no more than two for each process are kept.

    Each process gets manifest and seals once, when it starts.
    """
    context, job = multiprocessing.get_context("forkserver"), Job(folder.folder, folder.manifest, chain, sizes)
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(job,))
    waiting = deque[Future[Part | None]]()
    try:
        for number in range(folder.number, folder.number + len(folder.segments)):
            waiting.append(pool.submit(_verify_one, number))
            if len(waiting) == 2 * processes:
                yield await asyncio.wrap_future(waiting.popleft())
        while waiting:
            yield await asyncio.wrap_future(waiting.popleft())
    finally:  # the pool cancels what waits: whoever else does races with its thread, which would fail what is cancelled already
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class Job:
    """What the segments of a folder are verified against."""

    folder: AnyPath
    manifest: Manifest
    chain: SealChain
    sizes: frozenset[int]


_jobs: list[Job] = []  # of this process: one


def _begin(job: Job) -> None:
    _jobs[:] = [job]


def _verify_one(number: int) -> Part | None:
    """None where the file or its manifest cannot be read."""
    try:
        return asyncio.run(_verify(_jobs[0], number))
    except ClientError:
        return None


async def _verify(job: Job, number: int) -> Part:
    folder = SegmentFolder(job.folder, slice(number, number + 1), job.manifest)
    is_last = folder.following is None
    tree = folder.tree.copy()
    seals = SealVerifier(replace(job.chain), tree, folder.closing, require_sealed_end=is_last, continues=not is_last)
    positions, requests = list[tuple[ChainHead, int, list[bytes]]](), list[Wire]()
    end = folder.segments[0].last_seq + 1

    def on_record(head: ChainHead, tree: Frontier) -> None:
        folder.on_record(head, tree)
        if tree.size in job.sizes or tree.size == end:
            positions.append((head, tree.size, list(tree.peaks)))

    def keep(wire: Wire, record: Record) -> None:
        if concerns_requests(record):
            requests.append(wire)

    found = await chain_report.verify(folder.pool, folder.messages(), seals, folder.start, on_record, keep)
    return Part(found, positions, requests, folder.misstated() + folder.changed_files())


def _joined(one: Verification, next_one: Verification) -> Verification:
    """The result for two parts of a log that follow each other."""
    epochs = {each["epoch"]: dict(each) for each in one["epochs"]}
    for each in next_one["epochs"]:
        known = epochs.setdefault(each["epoch"], {**each, "records": 0})
        known["records"] += each["records"]
    kinds = {**one["orphans_by_kind"]}
    for kind, count in next_one["orphans_by_kind"].items():
        kinds[kind] = kinds.get(kind, 0) + count
    return {
        **next_one,
        "ok": one["ok"] and next_one["ok"],
        "records": one["records"] + next_one["records"],
        "first_seq": one["first_seq"],
        "identity": one["identity"] or next_one["identity"],
        "root_key": one["root_key"],
        "epochs": list(epochs.values()),
        "orphans": one["orphans"] + next_one["orphans"],
        "orphans_by_kind": dict(sorted(kinds.items())),
        "orphan_list": [*one["orphan_list"], *next_one["orphan_list"]][:ORPHANS_SHOWN],
        "unexplained": one["unexplained"] + next_one["unexplained"],
    }
