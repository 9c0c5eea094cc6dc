"""Segments of a log as compressed files of N records each, with a manifest, for long-term storage.

A segment is a gzipped file of `log_files`. `manifest.json` has for each its records, its SHA-256, and chain head and Merkle tree
before it, so that a segment can be verified without earlier ones. It also has the seals and sealing keys. If the newest
segment does not end at a seal, `closing` is the Merkle path to the next seal.

The manifest is not trusted: it is checked against the files, and the files against the seals.
"""

import gzip
import hashlib
import io
import json
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bailiff.client.errors import ClientError, ExitCode
from bailiff.client.safe_write import put
from bailiff_bus.messages import CheckpointCosigned, LogSealed, SealingKey, SealsInvalidated
from bailiff_bus.port import Message
from bailiff_core.records import ChainHead
from bailiff_core.records.merkle import Frontier, consistency_path, leaf_hash
from bailiff_log.cosignatures import CosignatureBody
from bailiff_log.seals import ConsistencyProof, SealBody, valid_seals

from .chain_report import ChainVerifier, unbroken
from .cosignatures import newest_cosignatures
from .log_files import LogFile, about_line, message_line

MANIFEST = "manifest.json"
COMPRESSION = 6


Count = Annotated[int, Field(ge=0, lt=2**63)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Strict(BaseModel):
    """Part of a manifest, with strict types."""

    model_config = ConfigDict(strict=True, frozen=True)


class Segment(Strict):
    """One file. head, peaks: the chain and the Merkle tree before its first record; after: the hash of its last record."""

    name: Annotated[str, Field(pattern=r"^[^/\x00]+$")]
    first_seq: Count
    last_seq: Count
    messages: Count
    bytes: Count
    sha256: Digest
    head: ChainHead
    peaks: list[Digest]
    after: Digest

    @property
    def records(self) -> str:
        """Its records as text."""
        return f"records {self.first_seq} to {self.last_seq}"

    @property
    def tree(self) -> Frontier:
        """The Merkle tree before its first record. Raises `ValueError`."""
        return Frontier(self.head.next_seq, map(bytes.fromhex, self.peaks))


class ClosingPath(Strict):
    """A `ConsistencyProof` as JSON."""

    size: Count
    path: list[Digest]


class Manifest(Strict):
    """`manifest.json`. size: records of each segment. seals: as `seal_to` writes them. cosignatures: data of

    `CheckpointCosigned`.
    """

    bailiff_segments: Literal[1]
    pool: str
    partition: Count
    size: Annotated[int, Field(ge=1)]
    segments: list[Segment]
    seals: list[dict[str, Any]]
    cosignatures: list[dict[str, Any]] = []
    closing: ClosingPath | None = None


@dataclass(frozen=True, slots=True)
class Closed:
    """A segment that was read, with chain head and Merkle tree after it."""

    segment: Segment
    head: ChainHead
    peaks: bytes


class SegmentFolder:
    """A folder of segments, read in order. Raises `ClientError` with file and position for invalid content.

    closed: segments read so far that match the manifest. only: the numbers of the segments to read; all by default. following:
    the next one after these.
    """

    def __init__(self, folder: Path, only: slice = slice(None)) -> None:
        self.folder = folder
        manifest = _manifest(folder)
        if manifest is None or not manifest.segments:
            log = next(iter(sorted(folder.glob("log.jsonl*"))), None)
            advice = f"name the file in it: {log}" if log is not None else "create one: bailiff audit export FOLDER --segment N"
            raise ClientError(ExitCode.USAGE, f"{folder}: not a folder of segments: it has no {MANIFEST}", advice)
        self.pool, self.partition, self.segments = manifest.pool, manifest.partition, manifest.segments[only]
        self.following = next(iter(manifest.segments[only.stop :]), None) if only.stop is not None else None
        first, closing = self.segments[0], manifest.closing if self.following is None else None
        try:
            self.seals = [seal_from(each) for each in manifest.seals]
            self.cosignatures = [CheckpointCosigned.model_validate_json(json.dumps(each)) for each in manifest.cosignatures]
            self.start, self.tree = first.head, first.tree
        except (KeyError, TypeError, ValueError) as error:
            raise ClientError(ExitCode.USAGE, f"{folder / MANIFEST}: a part of it is missing or changed: {error!r}") from None
        self.closing = ConsistencyProof(closing.size, tuple(map(bytes.fromhex, closing.path))) if closing is not None else None
        self.closed: list[Closed] = []
        self._contradictions: list[str] = []

    async def messages(self) -> AsyncGenerator[Message, None]:
        """Every message of every file."""
        for segment in self.segments:
            count = 0
            async for message in LogFile(self.folder / segment.name).messages():
                count += 1
                yield message
            if count != segment.messages:
                self._contradictions.append(f"{segment.name} holds {count} messages, and its manifest says {segment.messages}")

    def on_record(self, head: ChainHead, tree: Frontier) -> None:
        """Compares chain head and Merkle tree with the manifest at the end of each segment. Called for each record."""
        at = len(self.closed)
        if at == len(self.segments) or head.next_seq != self.segments[at].last_seq + 1:
            return
        segment = self.segments[at]
        later = self.segments[at + 1] if at + 1 < len(self.segments) else self.following
        self.closed.append(Closed(segment, head, b"".join(tree.peaks)))
        if segment.after != head.hash:
            self._contradictions.append(f"{segment.name} ends with another record {segment.last_seq} than its manifest says")
        if later is not None and (later.head, later.peaks) != (head, [peak.hex() for peak in tree.peaks]):
            self._contradictions.append(f"the manifest contradicts the records before {later.name} about where it begins")

    def misstated(self) -> list[str]:
        """Contradictions between manifest and records, as sentences. Call after all messages were read."""
        lacking = [f"{each.name} does not hold {each.records}" for each in self.segments[len(self.closed) :]]
        return self._contradictions + lacking

    def faults(self) -> list[str]:
        """Missing or changed files, as sentences."""
        found = []
        if self.segments[0].first_seq != self.start.next_seq:
            found.append(f"the manifest names both {self.segments[0].first_seq} and {self.start.next_seq} as the first record")
        for before, segment in pairwise([*self.segments, self.following] if self.following is not None else self.segments):
            if segment.first_seq != before.last_seq + 1:
                found.append(f"records {before.last_seq + 1} to {segment.first_seq - 1} are in none of the files")
        for segment in self.segments:
            try:
                raw = (self.folder / segment.name).read_bytes()
            except FileNotFoundError:
                found.append(f"{segment.name}, which holds {segment.records}, is missing")
                continue
            except OSError as error:
                found.append(f"{segment.name}, which holds {segment.records}, cannot be read: {error.strerror}")
                continue
            if (len(raw), hashlib.sha256(raw).hexdigest()) != (segment.bytes, segment.sha256):
                found.append(f"{segment.name} ({segment.records}) is not the file that was written: its SHA-256 differs")
        return found


async def write_segments(
    folder: Path,
    size: int,
    start: ChainHead,
    tree: Frontier,
    partition: int,
    messages: AsyncIterable[Message],
    published: Sequence[SealBody],
    cosignatures: Sequence[CosignatureBody] = (),
) -> list[Segment]:
    """Writes each missing whole segment of `size` records; if there are seals, only sealed ones. Returns the new segments.

    start, tree: chain head and Merkle tree before the first message. published: seals and keys. Raises `ClientError` if the log
    does not continue the existing segments.
    """
    pool = start.pool
    manifest = _manifest(folder)
    known = manifest.segments if manifest is not None else []
    if manifest is not None and (manifest.pool, manifest.size) != (pool, size):
        text = f"{folder} has segments of {manifest.size} records of {manifest.pool}"
        raise ClientError(ExitCode.USAGE, text, "choose another folder")
    end = known[-1].last_seq + 1 if known else start.next_seq
    if start.next_seq % size or start.next_seq > end:
        text = f"the log is there from record {start.next_seq} on only, and the folder ends before record {end}"
        raise ClientError(ExitCode.USAGE, text, "use the folder with the earlier records, or a size that divides that seq")
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
            existing = _write(folder, pool, partition, lines, before, base.peaks, verifier.head)
            written.append(existing)
        elif existing.after != verifier.head.hash:
            text = f"{existing.name} ends with another record {verifier.head.next_seq - 1} than the log: one of them was changed"
            raise ClientError(ExitCode.FOUND_WRONG, text, "nothing was overwritten; see: bailiff audit verify")
        before, base, lines, later = verifier.head, tree.copy(), [], []
    if written or manifest is not None:
        segments = [*known, *written]
        covered = segments[-1].last_seq + 1 if segments else 0
        kept = [body for body in seals if isinstance(body, SealingKey) or body.size <= covered]
        above = next((body for body in seals if isinstance(body, LogSealed) and body.size > covered), None)
        closing = None
        if covered not in sizes and above is not None:
            closing = _closing(base, later, above)
            kept = [body for body in seals if isinstance(body, SealingKey) or body.size <= above.size]
        cosigned = newest_cosignatures(cosignatures, covered)
        _write_manifest(folder, pool, partition, size, segments, kept, cosigned, closing)
    return written


def _closing(base: Frontier, later: list[bytes], seal: LogSealed) -> ConsistencyProof:
    """The Merkle path from the end of the segments to the seal that covers them."""
    leaves = later[: seal.size - base.size]
    tree = base.copy()
    for leaf in leaves:
        tree.append(leaf)
    if tree.root().hex() != seal.root:
        text = f"the log's first {seal.size} records are not those that were sealed"
        raise ClientError(ExitCode.FOUND_WRONG, text, "see: bailiff audit verify")
    return ConsistencyProof(base.size, tuple(consistency_path(base.size, seal.size, base.followed_by(leaves))))


def seal_to(body: SealBody) -> dict[str, Any]:
    """A seal or a key as JSON."""
    return {"type": body.TYPE, "data": body.to_data()}


def seal_from(data: Any) -> SealBody:
    """The inverse of `seal_to`. Raises `ValueError`, `KeyError` or `TypeError` for anything else."""
    kinds: dict[str, type[SealBody]] = {each.TYPE: each for each in (LogSealed, SealingKey, SealsInvalidated)}
    return kinds[data["type"]].model_validate_json(json.dumps(data["data"]))


def _write(
    folder: Path, pool: str, partition: int, lines: list[str], before: ChainHead, peaks: list[bytes], after: ChainHead
) -> Segment:
    name = f"{pool}-{before.next_seq:012d}-{after.next_seq - 1:012d}.jsonl.gz"
    compressed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=compressed, compresslevel=COMPRESSION, mtime=0) as out:  # reproducible
        out.write(about_line(pool, partition).encode())
        out.writelines(line.encode() for line in lines)
    raw = compressed.getvalue()
    put(folder / name, raw)
    return Segment(
        name=name, first_seq=before.next_seq, last_seq=after.next_seq - 1, messages=len(lines), bytes=len(raw),
        sha256=hashlib.sha256(raw).hexdigest(), head=before, peaks=[each.hex() for each in peaks], after=after.hash,
    )  # fmt: skip


def _write_manifest(
    folder: Path, pool: str, partition: int, size: int, segments: list[Segment], seals: Sequence[LogSealed | SealingKey],
    cosignatures: Sequence[CheckpointCosigned], closing: ConsistencyProof | None,
) -> None:  # fmt: skip
    manifest = Manifest(
        bailiff_segments=1, pool=pool, partition=partition, size=size, segments=segments,
        seals=[seal_to(seal) for seal in seals], cosignatures=[each.to_data() for each in cosignatures],
        closing=ClosingPath(size=closing.size, path=[each.hex() for each in closing.path]) if closing is not None else None,
    )  # fmt: skip
    document = manifest.model_dump(exclude=None if closing is not None else {"closing"})
    put(folder / MANIFEST, (json.dumps(document, indent=1) + "\n").encode())


def _manifest(folder: Path) -> Manifest | None:
    path = folder / MANIFEST
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ClientError(ExitCode.USAGE, f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "as a whole"
        raise ClientError(ExitCode.USAGE, f"{path}: invalid manifest of segments: {where}: {first['msg']}") from None
