"""What an earlier `bailiff audit verify` has verified, kept in a file of the verifier, so that the next one continues from there.

The file is not trusted to say where the log stands. A segment is passed over only if its file still has the SHA-256 that was
verified,
and if the next one begins at a seal: the Merkle tree that the manifest states there must have the root that the sealing key
signed. So
later records are verified against the seals as always, whatever the file says; what rests on it is that this verifier has read
the
earlier records before.
"""

import json
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from bailiff.client import safe_write
from bailiff.client.errors import ClientError, ExitCode
from bailiff_log.seals import SealChain

from .segments import Digest, SegmentFolder, Strict


class VerifiedSegments(Strict):
    """The file. segments: SHA-256 by name. keys: the log's sealing keys, of which the first was trusted."""

    bailiff_verified: Literal[1] = 1
    pool: str
    identity: str
    keys: list[str]
    segments: dict[str, Digest]


def read(path: Path) -> VerifiedSegments | None:
    """None if nothing was verified yet. Raises `ClientError` for another file."""
    try:
        return VerifiedSegments.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ClientError(ExitCode.USAGE, f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        text = f"{path}: not a file of `bailiff audit verify --resume`: {error.errors()[0]['msg']}"
        raise ClientError(ExitCode.USAGE, text, "name another file, or remove it to verify everything") from None


def write(path: Path, folder: SegmentFolder, chain: SealChain) -> None:
    """Notes that all segments of the manifest are verified."""
    segments = {each.name: each.sha256 for each in folder.manifest.segments}
    found = VerifiedSegments(pool=folder.pool, identity=chain.identity, keys=chain.keys, segments=segments)
    safe_write.put(path, (json.dumps(found.model_dump(), indent=1) + "\n").encode())


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
