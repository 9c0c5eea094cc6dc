"""Deletes archived records that an exported folder contains: only verified, sealed, whole segments."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from bailiff.client.errors import CheckFailed, UsageError
from bailiff_bus.messages.seals import LogSealed
from bailiff_log.archive import connected, pick_pool

from .log_sources import from_file
from .segments import Closed, Segment, SegmentFolder
from .verify import verified

UNCHANGED = "nothing was removed from the archive"


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was pruned from an archive.

    Attributes:
        first_seq: The new first record.
        segments: Segments that were deleted, or will be.
        kept: Why the next segment is kept.
    """

    pool: str
    first_seq: int
    segments: list[Segment]
    kept: str


async def verified_folder(path: Path, trusted: Sequence[str]) -> SegmentFolder:
    """The verified folder.

    Raises:
        ClientError: The folder is incomplete or not sealed.
    """
    source = from_file(path)
    folder = source.folder
    if folder is None:
        raise UsageError(f"{path} is not a folder of segments", "create one: bailiff audit export FOLDER --segment N")
    if not any(isinstance(body, LogSealed) for body in folder.seals):
        raise UsageError(f"{path}: nothing in it is sealed", "retry after the auditor has sealed it")
    faults = "; ".join(folder.faults())
    if not faults:
        found = await verified(source, trusted)
        faults = "; ".join(filter(None, [found["broken"]["meaning"] if found["broken"] else "", found["seal_problem"]]))
    if faults:
        raise CheckFailed(f"{path}: {faults}", UNCHANGED)
    return folder


async def prune(address: str, folder: Path, older_than: timedelta, trusted: Sequence[str], dry_run: bool) -> Pruned:
    """Delete old records that the folder contains from the archive. Raises `ClientError` and `ArchiveError`."""
    kept = await verified_folder(folder, trusted)
    async with connected(address) as connection:
        row = await pick_pool(connection, kept.pool)
        first, deleted = row["first_seq"], list[Segment]()
        for each in kept.closed:
            segment = each.segment
            if segment.first_seq > first:
                text = f"records {first} to {segment.first_seq - 1} are not in the folder"
                return Pruned(kept.pool, first, deleted, text)
            if segment.last_seq < first:
                continue
            kept_because = await _why_kept(connection, row["id"], each, older_than)
            if kept_because:
                return Pruned(kept.pool, first, deleted, kept_because)
            if not dry_run:
                await _remove(connection, row["id"], first, each)
            deleted.append(segment)
            first = segment.last_seq + 1
        return Pruned(kept.pool, first, deleted, f"the folder ends before record {first}")


async def _why_kept(connection: Any, pool: int, closed: Closed, older_than: timedelta) -> str:
    last = closed.segment.last_seq
    row = await connection.fetchrow(
        """SELECT hash, time > now() - $3::interval AS young, (SELECT max(size) FROM seals WHERE pool = $1) AS sealed
           FROM records WHERE pool = $1 AND seq = $2""",
        pool,
        last,
        older_than,
    )
    if row is None:
        return f"the archive does not have record {last}"
    if row["hash"].hex() != closed.head.hash:
        text = f"record {last} of the archive is another than in {closed.segment.name}"
        raise CheckFailed(text, "nothing after it was deleted; see: bailiff audit verify")
    if (row["sealed"] or 0) <= last:
        return f"record {last} is not sealed in the archive"
    return f"record {last} is younger" if row["young"] else ""


async def _remove(connection: Any, pool: int, first: int, closed: Closed) -> None:
    last = closed.segment.last_seq
    async with connection.transaction():
        moved = await connection.execute(
            """UPDATE pools SET first_seq = $3, first_head = $4, first_peaks = $5, first_policy = coalesce(
                   (SELECT value FROM records WHERE pool = $1 AND type = 'PolicyApplied.v1' AND seq < $3
                    ORDER BY seq DESC LIMIT 1), first_policy)
               WHERE id = $1 AND first_seq = $2""",
            pool,
            first,
            last + 1,
            json.dumps(asdict(closed.head)),
            closed.peaks,
        )
        if moved != "UPDATE 1":
            raise CheckFailed("another prune of this archive is running")
        await connection.execute(
            'DELETE FROM orphans WHERE pool = $1 AND "offset" < (SELECT "offset" FROM records WHERE pool = $1 AND seq = $2)',
            pool,
            last,
        )
        await connection.execute("DELETE FROM records WHERE pool = $1 AND seq <= $2", pool, last)
        await connection.execute(
            "INSERT INTO prunings (pool, first_seq, last_seq, file, sha256) VALUES ($1, $2, $3, $4, $5)",
            pool,
            first,
            last,
            closed.segment.name,
            closed.segment.sha256,
        )
