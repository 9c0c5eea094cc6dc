"""Segments of a log as compressed files of N records each, with a manifest, for long-term storage.

A segment is a gzipped file of `log_files`. `manifest.json` has for each its records, its SHA-256, and chain head and Merkle tree
before it, so that a segment can be verified without earlier ones. It also has the seals and sealing keys. If the newest
segment does not end at a seal, `closing` is the Merkle path to the next seal. The folder may be in object storage.

The manifest is not trusted: it is checked against the files, and the files against the seals.
"""

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bailiff.client.errors import ClientError, UsageError
from bailiff_bus.messages.seals import CheckpointCosigned, LogSealed, SealingKey, SealsInvalidated
from bailiff_bus.port import Message
from bailiff_core.records import ChainHead
from bailiff_core.records.merkle import Frontier
from bailiff_log.seals import ConsistencyProof, SealBody

from .log_files import HashedFile, LogFile
from .object_path import AnyPath

MANIFEST = "manifest.json"

Count = Annotated[int, Field(ge=0, lt=2**63)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Strict(BaseModel):
    """Part of a manifest, with strict types."""

    model_config = ConfigDict(strict=True, frozen=True)


class Segment(Strict):
    """One file.

    Attributes:
        head: The chain before its first record.
        peaks: The Merkle tree before its first record.
        after: The hash of its last record.
    """

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
    """The file `manifest.json`.

    Attributes:
        size: Number of records of each segment.
        seals: The seals as `seal_to` writes them.
        cosignatures: Data of the `CheckpointCosigned` messages.
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
    """A folder of segments, read in order.

    Attributes:
        closed: Segments read so far that match the manifest.
        only: The numbers of the segments to read; all by default.
        following: The next one after these.
        number: Number of the first one in the manifest.
        manifest: If it has been read already.

    Raises:
        ClientError: Its content is invalid; names file and position.
    """

    def __init__(self, folder: AnyPath, only: slice = slice(None), manifest: Manifest | None = None) -> None:
        self.folder = folder
        manifest = manifest or read_manifest(folder)
        if manifest is None or not manifest.segments:
            log = next(iter(sorted(folder.glob("log.jsonl*"))), None) if isinstance(folder, Path) else None
            advice = (
                f"name the file in it: {log}" if log is not None else f"create one: bailiff audit export {folder} --segment N"
            )
            raise UsageError(f"{folder}: not a folder of segments: it has no {MANIFEST}", advice)
        self.manifest, self.number = manifest, only.start or 0
        self.pool, self.partition, self.segments = manifest.pool, manifest.partition, manifest.segments[only]
        self.following = next(iter(manifest.segments[only.stop :]), None) if only.stop is not None else None
        first, closing = self.segments[0], manifest.closing if self.following is None else None
        try:
            self.start, self.tree = first.head, first.tree
        except ValueError as error:
            raise _unreadable(folder, error) from None
        self.closing = ConsistencyProof(closing.size, tuple(map(bytes.fromhex, closing.path))) if closing is not None else None
        self.closed: list[Closed] = []
        self._contradictions: list[str] = []
        self._faults: dict[str, str] = {}  # of files that were read, by name; empty: none

    @property
    def seals(self) -> list[SealBody]:
        """Seals and keys of the manifest."""
        try:
            return [seal_from(each) for each in self.manifest.seals]
        except (KeyError, TypeError, ValueError) as error:
            raise _unreadable(self.folder, error) from None

    @property
    def cosignatures(self) -> list[CheckpointCosigned]:
        """What witnesses published, as far as the manifest has it."""
        try:
            return [CheckpointCosigned.model_validate_json(json.dumps(each)) for each in self.manifest.cosignatures]
        except ValueError as error:
            raise _unreadable(self.folder, error) from None

    async def messages(self) -> AsyncGenerator[Message, None]:
        """Every message of every file. Each file is hashed as it is read."""
        for segment in self.segments:
            count, file = 0, LogFile(self.folder / segment.name)
            async for message in file.messages():
                count += 1
                yield message
            self._faults[segment.name] = _file_fault(segment, file.hashed)
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

    def gaps(self) -> list[str]:
        """Records that no file of the manifest holds, as sentences."""
        found = []
        if self.segments[0].first_seq != self.start.next_seq:
            found.append(f"the manifest names both {self.segments[0].first_seq} and {self.start.next_seq} as the first record")
        for before, segment in pairwise([*self.segments, self.following] if self.following is not None else self.segments):
            if segment.first_seq != before.last_seq + 1:
                found.append(f"records {before.last_seq + 1} to {segment.first_seq - 1} are in none of the files")
        return found

    def changed_files(self) -> list[str]:
        """Missing or changed files, as sentences. Those that `messages` has not read are read."""
        return [fault for segment in self.segments if (fault := self.file_fault(segment))]

    def file_fault(self, segment: Segment) -> str:
        """What is wrong with a file; empty: nothing. It is read, if `messages` has not."""
        if segment.name not in self._faults:
            self._faults[segment.name] = _file_fault(segment, _hashed(self.folder / segment.name))
        return self._faults[segment.name]

    def faults(self) -> list[str]:
        """Missing records, and missing or changed files, as sentences."""
        return self.gaps() + self.changed_files()


def _hashed(path: AnyPath) -> HashedFile | str:
    """The file, read to its end; or why it cannot be read."""
    try:
        with path.open("rb") as raw:
            file = HashedFile(raw)
            file.finish()
            return file
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _file_fault(segment: Segment, found: HashedFile | str | None) -> str:
    if isinstance(found, str):
        return f"{segment.name}, which holds {segment.records}, {found}"
    if found is None or (found.bytes, found.sha256) != (segment.bytes, segment.sha256):
        return f"{segment.name} ({segment.records}) is not the file that was written: its SHA-256 differs"
    return ""


def _unreadable(folder: AnyPath, error: Exception) -> ClientError:
    return UsageError(f"{folder / MANIFEST}: a part of it is missing or changed: {error!r}")


def seal_to(body: SealBody) -> dict[str, Any]:
    """A seal or a key as JSON."""
    return {"type": body.TYPE, "data": body.to_data()}


def seal_from(data: Any) -> SealBody:
    """The inverse of `seal_to`. Raises `ValueError`, `KeyError` or `TypeError` for anything else."""
    kinds: dict[str, type[SealBody]] = {each.TYPE: each for each in (LogSealed, SealingKey, SealsInvalidated)}
    return kinds[data["type"]].model_validate_json(json.dumps(data["data"]))


def read_manifest(folder: AnyPath) -> Manifest | None:
    """The manifest of a folder, None if there is none. Raises `ClientError`."""
    path = folder / MANIFEST
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "as a whole"
        raise UsageError(f"{path}: invalid manifest of segments: {where}: {first['msg']}") from None
