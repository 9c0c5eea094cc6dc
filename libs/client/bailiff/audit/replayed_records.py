"""Up to which record `bailiff audit replay` has replayed a log, kept in a file, so that the next one continues after it.

The file is compared with the log: the record in it must still have its hash, which all records before it lead to. What rests
on the file is that this reader has replayed those records before. They are verified and folded again.
"""

from pathlib import Path
from typing import Literal

from bailiff.client.errors import ClientError, ExitCode

from . import resume_file
from .replay import Replayed
from .segments import Count, Digest, Strict


class ReplayedRecords(Strict):
    """The file. seq, hash: the last record that was replayed."""

    bailiff_replayed: Literal[1] = 1
    pool: str
    seq: Count
    hash: Digest


def read(path: Path, pool: str) -> tuple[int, str] | None:
    """The last replayed record and its hash; None if nothing was replayed yet. Raises `ClientError` for another file or pool."""
    found = resume_file.read(path, ReplayedRecords, "replay")
    if found is None:
        return None
    if found.pool != pool:
        raise ClientError(ExitCode.USAGE, f"{path} is of {found.pool}, not of {pool}", "name a file of its own for each pool")
    return found.seq, found.hash


def write(path: Path, replayed: Replayed) -> None:
    """Notes the end of a replay that found no difference and left nothing out."""
    resume_file.write(path, ReplayedRecords(pool=replayed["pool"], seq=replayed["to_seq"], hash=replayed["to_hash"]))
