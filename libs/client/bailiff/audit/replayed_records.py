"""Up to which record `bailiff audit replay` has replayed a log, kept in a file, so that the next one continues after it.

The file is compared with the log: the record in it must still have its hash, which all records before it lead to. What rests
on the
file is that this reader has replayed those records before. They are verified and folded again.
"""

import json
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from bailiff.client import safe_write
from bailiff.client.errors import ClientError, ExitCode

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
    try:
        found = ReplayedRecords.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ClientError(ExitCode.USAGE, f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        text = f"{path}: not a file of `bailiff audit replay --resume`: {error.errors()[0]['msg']}"
        raise ClientError(ExitCode.USAGE, text, "name another file, or remove it to replay everything") from None
    if found.pool != pool:
        raise ClientError(ExitCode.USAGE, f"{path} is of {found.pool}, not of {pool}", "name a file of its own for each pool")
    return found.seq, found.hash


def write(path: Path, replayed: Replayed) -> None:
    """Notes the end of a replay that found no difference and left nothing out."""
    found = ReplayedRecords(pool=replayed["pool"], seq=replayed["to_seq"], hash=replayed["to_hash"])
    safe_write.put(path, (json.dumps(found.model_dump(), indent=1) + "\n").encode())
