"""Writes a log as segments into a folder or object storage: whole, sealed segments; what is there is not changed.

A manifest is written after the files that it names. So whatever is cut off leaves a folder that verifies, and the same command
continues from there.
"""

import gzip
import hashlib
import io
import json
from collections.abc import AsyncIterable, Sequence

from bailiff.client.errors import CheckFailed, NotAsSealed, NotFound, UsageError
from bailiff_bus.messages.seals import CheckpointCosigned, LogSealed, SealingKey
from bailiff_bus.port import Message
from bailiff_core.humanize import count_text
from bailiff_core.records import ChainHead
from bailiff_core.records.merkle import Frontier, consistency_path, leaf_hash
from bailiff_log.chain_verifier import ChainVerifier
from bailiff_log.cosignatures import CosignatureBody
from bailiff_log.seals import ConsistencyProof, SealBody, valid_seals

from .chain_report import unbroken
from .cosignatures import newest_cosignatures
from .log_files import about_line, message_line
from .object_path import AnyPath, put
from .segments import MANIFEST, ClosingPath, Manifest, Segment, read_manifest, seal_to

COMPRESSION = 6


async def write_segments(
    folder: AnyPath,
    size: int,
    start: ChainHead,
    tree: Frontier,
    partition: int,
    messages: AsyncIterable[Message],
    published: Sequence[SealBody],
    cosignatures: Sequence[CosignatureBody] = (),
    end: ConsistencyProof | None = None,
) -> list[Segment]:
    """Writes each missing whole segment of `size` records; if there are seals, only sealed segments.

    Args:
        start: The chain head before the first message.
        tree: The Merkle tree before the first message.
        published: Seals and keys.
        end: Proof from the end of the messages to the next seal; None if they end at a seal.

    Returns:
        The new segments.

    Raises:
        ClientError: The log does not continue the existing segments; or there is none, and no segment is whole yet.
    """
    pool = start.pool
    manifest = read_manifest(folder)
    known = manifest.segments if manifest is not None else []
    if manifest is not None and (manifest.pool, manifest.size) != (pool, size):
        raise UsageError(f"{folder} has segments of {manifest.size} records of {manifest.pool}", "choose another folder")
    ends = known[-1].last_seq + 1 if known else start.next_seq
    if start.next_seq % size or start.next_seq > ends:
        text = f"the log is there from record {start.next_seq} on only, and the folder ends before record {ends}"
        raise UsageError(text, "use the folder with the earlier records, or a size that divides that seq")
    seals = valid_seals(published)
    sizes = [seal.size for seal in seals if isinstance(seal, LogSealed)]
    verifier, tree, base = ChainVerifier(pool), tree.copy(), tree
    verifier.resume(start, "", -1, ())
    before, lines, later, written = start, list[str](), list[bytes](), list[Segment]()
    by_first = {segment.first_seq: segment for segment in known}
    async for message in messages:
        wire = verifier.verify(message)
        unbroken(verifier, "nothing after the last whole segment was written; see: bailiff audit verify")
        lines.append(message_line(message))
        if wire is None:
            continue
        later.append(leaf_hash(bytes.fromhex(verifier.head.hash)))
        tree.append(later[-1])
        if verifier.head.next_seq % size:
            continue
        first = verifier.head.next_seq - size
        if sizes and verifier.head.next_seq > sizes[-1]:
            break
        existing = by_first.get(first)
        if existing is None:
            existing = write_segment(folder, pool, partition, lines, before, base.peaks, verifier.head)
            written.append(existing)
            if verifier.head.next_seq in sizes:
                cosigned = newest_cosignatures(cosignatures, verifier.head.next_seq)
                write_manifest(folder, pool, partition, size, [*known, *written], seals, cosigned)
        elif existing.after != verifier.head.hash:
            text = f"{existing.name} ends with another record {verifier.head.next_seq - 1} than the log: one of them was changed"
            raise CheckFailed(text, "nothing was overwritten; see: bailiff audit verify")
        before, base, lines, later = verifier.head, tree.copy(), [], []
    segments = [*known, *written]
    if not segments:
        has = "its newest seal covers" if sizes else "it has"
        reached = count_text(sizes[-1] if sizes else verifier.head.next_seq, "record")
        text = f"{pool} has no whole segment of {count_text(size, 'record')} yet: {has} {reached}; nothing was written"
        raise NotFound(text, "export it later, or with a smaller --segment N")
    covered = segments[-1].last_seq + 1
    above = next((body for body in seals if isinstance(body, LogSealed) and body.size > covered), None)
    closing = None
    if covered not in sizes and above is not None:
        closing = end if end is not None and end.size == covered else _closing(base, later, above)
    write_manifest(folder, pool, partition, size, segments, seals, newest_cosignatures(cosignatures, covered), closing)
    return written


def _closing(base: Frontier, later: list[bytes], seal: LogSealed) -> ConsistencyProof:
    """The Merkle path from the end of the segments to the seal that covers them."""
    leaves = later[: seal.size - base.size]
    tree = base.copy()
    for leaf in leaves:
        tree.append(leaf)
    if tree.root().hex() != seal.root:
        raise NotAsSealed(seal.size)
    return ConsistencyProof(base.size, tuple(consistency_path(base.size, seal.size, base.followed_by(leaves))))


def write_segment(
    folder: AnyPath, pool: str, partition: int, lines: list[str], before: ChainHead, peaks: list[bytes], after: ChainHead
) -> Segment:
    """Writes one segment.

    Args:
        lines: Its messages, as `message_line` writes them.
        before: The chain head before it.
        peaks: The Merkle tree before it.
    """
    name = f"{pool}-{before.next_seq:012d}-{after.next_seq - 1:012d}.jsonl.gz"
    compressed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=compressed, compresslevel=COMPRESSION, mtime=0) as out:  # reproducible
        out.write(about_line(pool, partition).encode())
        out.writelines(line.encode() for line in lines)
    raw = compressed.getvalue()
    put(folder / name, raw)
    return Segment(
        name=name,
        first_seq=before.next_seq,
        last_seq=after.next_seq - 1,
        messages=len(lines),
        bytes=len(raw),
        sha256=hashlib.sha256(raw).hexdigest(),
        head=before,
        peaks=[each.hex() for each in peaks],
        after=after.hash,
    )


def write_manifest(
    folder: AnyPath,
    pool: str,
    partition: int,
    size: int,
    segments: list[Segment],
    seals: Sequence[LogSealed | SealingKey],
    cosignatures: Sequence[CheckpointCosigned] = (),
    closing: ConsistencyProof | None = None,
) -> None:
    """Writes the manifest of these segments, with the seals that cover them.

    Args:
        closing: Proof from the end of the last segment to the next seal; None if it ends at a seal.
    """
    covered = segments[-1].last_seq + 1
    most = (
        covered if closing is None else next(each.size for each in seals if isinstance(each, LogSealed) and each.size > covered)
    )
    seals = [each for each in seals if isinstance(each, SealingKey) or each.size <= most]
    manifest = Manifest(
        bailiff_segments=1,
        pool=pool,
        partition=partition,
        size=size,
        segments=segments,
        seals=[seal_to(seal) for seal in seals],
        cosignatures=[each.to_data() for each in cosignatures],
        closing=ClosingPath(size=closing.size, path=[each.hex() for each in closing.path]) if closing is not None else None,
    )
    document = manifest.model_dump(exclude=None if closing is not None else {"closing"})
    put(folder / MANIFEST, (json.dumps(document, indent=1) + "\n").encode())
