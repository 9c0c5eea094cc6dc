"""The files of `bailiff audit verify --resume` and `replay --resume`: how far a log was verified or replayed before.

Neither file is trusted to say where the log stands. Verification passes a segment over only if its file still has the SHA-256
that was verified, and if the next one begins at a seal: the Merkle tree that the manifest states there must have the root that
the sealing key signed. So later records are verified against the seals as always, whatever the file says. Replay compares the
record in its file with the log, which all records before it lead to; they are verified and folded again. What rests on a file
is that this reader has read the earlier records before.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import ValidationError

from bailiff.client import safe_write
from bailiff.client.errors import UsageError
from bailiff_log.seals import SealChain

from .segments import Count, Digest, SegmentFolder, Strict

if TYPE_CHECKING:
    from .replay import Replayed


class VerifiedSegments(Strict):
    """The file of `verify`.

    Attributes:
        segments: SHA-256 by name.
        keys: The log's sealing keys, of which the first was trusted.
        root: The root key that was pinned.
    """

    bailiff_verified: Literal[1] = 1
    pool: str
    identity: str
    keys: list[str]
    segments: dict[str, Digest]
    root: str = ""


class ReplayedRecords(Strict):
    """The file of `replay`.

    Attributes:
        seq: The last record that was replayed.
        hash: Its hash.
    """

    bailiff_replayed: Literal[1] = 1
    pool: str
    seq: Count
    hash: Digest


Content = TypeVar("Content", VerifiedSegments, ReplayedRecords)


def read(path: Path, content: type[Content]) -> Content | None:
    """None where there is no file.

    Raises:
        ClientError: The file is another one.
    """
    command = "verify" if content is VerifiedSegments else "replay"
    try:
        return content.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        text = f"{path}: not a file of `bailiff audit {command} --resume`: {error.errors()[0]['msg']}"
        raise UsageError(text, f"name another file, or remove it to {command} everything") from None


def last_replayed(path: Path, pool: str) -> tuple[int, str] | None:
    """The last replayed record and its hash; None if nothing was replayed yet.

    Raises:
        ClientError: The file is another one, or of another pool.
    """
    found = read(path, ReplayedRecords)
    if found is not None and found.pool != pool:
        raise UsageError(f"{path} is of {found.pool}, not of {pool}", "name a file of its own for each pool")
    return (found.seq, found.hash) if found is not None else None


def note_replayed(path: Path, replayed: "Replayed") -> None:
    """Notes the end of a replay that found no difference and left nothing out."""
    _write(path, ReplayedRecords(pool=replayed["pool"], seq=replayed["to_seq"], hash=replayed["to_hash"]))


def note_verified(path: Path, folder: SegmentFolder, chain: SealChain, root: str = "") -> None:
    """Notes that all segments of the manifest are verified, with this root key."""
    segments = {each.name: each.sha256 for each in folder.manifest.segments}
    noted = VerifiedSegments(pool=folder.pool, identity=chain.identity, keys=chain.keys, segments=segments, root=root)
    _write(path, noted)


def _write(path: Path, content: Strict) -> None:
    safe_write.put(path, (json.dumps(content.model_dump(), indent=1) + "\n").encode())


def first_to_verify(folder: SegmentFolder, chain: SealChain, earlier: VerifiedSegments | None) -> int:
    """Number of the first segment to verify: 0, or one that begins at a seal and follows unchanged, verified ones.

    The last segment is always verified.
    """
    if earlier is None or (earlier.pool, earlier.identity) != (folder.pool, chain.identity):
        return 0
    if earlier.keys != chain.keys[: len(earlier.keys)]:
        return 0
    roots = {each.size: each.root for each in chain.seals}
    found = 0
    for number, (segment, following) in enumerate(zip(folder.segments, folder.segments[1:], strict=False), 1):
        if earlier.segments.get(segment.name) != segment.sha256 or folder.file_fault(segment):
            break
        try:
            at_seal = following.tree.root().hex() == roots.get(following.first_seq)
        except ValueError:
            break  # verification names what is wrong with the manifest
        if at_seal and following.head.next_seq == following.first_seq == segment.last_seq + 1:
            found = number
    return found
