"""Taking records out of the archive that an exported folder holds: closed stretches only, checked first, under a seal."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from bailiff_bus.archive import NotInArchive, connected, pick_domain
from bailiff_bus.messages import LogSealed

from .problem import ExitCode, Problem
from .sources import from_file
from .stretches import Closed, Stretch, StretchFolder
from .verifying import verified

UNCHANGED = "nothing was removed from the archive"


@dataclass(frozen=True, slots=True)
class Pruned:
    """first_seq: where the archive begins now. stretches: what went, or would go. kept: why the next one stays."""

    domain: str
    first_seq: int
    stretches: list[Stretch]
    kept: str


async def closed_stretches(path: Path, trusted: Sequence[str]) -> StretchFolder:
    """The folder, once it was found whole and under seals. Raises `Problem` for one that is not."""
    source = from_file(path)
    folder = source.folder
    if folder is None:
        raise Problem(ExitCode.USAGE, f"{path} is no folder of stretches", "made by: bailiff audit export FOLDER --stretch N")
    if not any(isinstance(body, LogSealed) for body in folder.seals):
        raise Problem(ExitCode.USAGE, f"{path}: none of it is under a seal", "export it once the auditor has sealed it")
    faults = "; ".join(folder.faults())
    if not faults:
        found = await verified(source, trusted)
        faults = "; ".join(filter(None, [found["broken"]["meaning"] if found["broken"] else "", found["seal_problem"]]))
    if faults:
        raise Problem(ExitCode.FOUND_WRONG, f"{path}: {faults}", UNCHANGED)
    return folder


async def prune(address: str, folder: Path, older_than: timedelta, trusted: Sequence[str], dry_run: bool) -> Pruned:
    """Remove from the archive what the folder holds and is older. Raises `Problem`."""
    kept = await closed_stretches(folder, trusted)
    try:
        async with connected(address) as connection:
            row = await pick_domain(connection, kept.domain)
            if "first_policy" not in row:
                raise NotInArchive("its tables are of an earlier release: start the auditor of this release once")
            first, gone = row["first_seq"], list[Stretch]()
            for each in kept.closed:
                stretch = each.stretch
                if stretch.first_seq > first:
                    text = f"records {first} to {stretch.first_seq - 1} are not in the folder"
                    return Pruned(kept.domain, first, gone, text)
                if stretch.last_seq < first:
                    continue
                stays = await _why_it_stays(connection, row["id"], each, older_than)
                if stays:
                    return Pruned(kept.domain, first, gone, stays)
                if not dry_run:
                    await _remove(connection, row["id"], first, each)
                gone.append(stretch)
                first = stretch.last_seq + 1
            return Pruned(kept.domain, first, gone, f"the folder ends before record {first}")
    except NotInArchive as error:
        raise Problem(ExitCode.UNREACHABLE, f"the archive: {error}") from None


async def _why_it_stays(connection: Any, domain: int, closed: Closed, older_than: timedelta) -> str:
    last = closed.stretch.last_seq
    row = await connection.fetchrow(
        """SELECT hash, time > now() - $3::interval AS young, (SELECT max(size) FROM seals WHERE domain = $1) AS sealed
           FROM records WHERE domain = $1 AND seq = $2""",
        domain, last, older_than,
    )  # fmt: skip
    if row is None:
        return f"the archive does not have record {last}"
    if row["hash"].hex() != closed.head.hash:
        text = f"record {last} of the archive is another than in {closed.stretch.name}"
        raise Problem(ExitCode.FOUND_WRONG, text, "nothing was removed from there on; bailiff audit verify tells which is right")
    if (row["sealed"] or 0) <= last:
        return f"record {last} is not under a seal that the archive has"
    return f"record {last} is younger" if row["young"] else ""


async def _remove(connection: Any, domain: int, first: int, closed: Closed) -> None:
    last = closed.stretch.last_seq
    async with connection.transaction():
        moved = await connection.execute(
            """UPDATE domains SET first_seq = $3, first_head = $4, first_peaks = $5, first_policy = coalesce(
                   (SELECT value FROM records WHERE domain = $1 AND type = 'PolicyApplied.v1' AND seq < $3
                    ORDER BY seq DESC LIMIT 1), first_policy)
               WHERE id = $1 AND first_seq = $2""",
            domain, first, last + 1, json.dumps(asdict(closed.head)), closed.peaks,
        )  # fmt: skip
        if moved != "UPDATE 1":
            raise Problem(ExitCode.FOUND_WRONG, "somebody else is pruning this archive")
        await connection.execute(
            'DELETE FROM orphans WHERE domain = $1 AND "offset" < (SELECT "offset" FROM records WHERE domain = $1 AND seq = $2)',
            domain, last,
        )  # fmt: skip
        await connection.execute("DELETE FROM records WHERE domain = $1 AND seq <= $2", domain, last)
        await connection.execute(
            "INSERT INTO prunings (domain, first_seq, last_seq, file, sha256) VALUES ($1, $2, $3, $4, $5)",
            domain, first, last, closed.stretch.name, closed.stretch.sha256,
        )  # fmt: skip
