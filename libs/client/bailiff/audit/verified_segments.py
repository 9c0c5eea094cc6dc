"""What an earlier `bailiff audit verify` has verified, kept in a file of the verifier, so that the next one continues from there.

The file is not trusted to say where the log stands. A segment is passed over only if its file still has the SHA-256 that was
verified, and if the next one begins at a seal: the Merkle tree that the manifest states there must have the root that the
sealing key signed. So later records are verified against the seals as always, whatever the file says; what rests on it is that
this verifier has read the earlier records before.
"""

from pathlib import Path
from typing import Literal

from bailiff_log.seals import SealChain

from . import resume_file
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
    return resume_file.read(path, VerifiedSegments, "verify")


def write(path: Path, folder: SegmentFolder, chain: SealChain) -> None:
    """Notes that all segments of the manifest are verified."""
    segments = {each.name: each.sha256 for each in folder.manifest.segments}
    found = VerifiedSegments(pool=folder.pool, identity=chain.identity, keys=chain.keys, segments=segments)
    resume_file.write(path, found)


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
