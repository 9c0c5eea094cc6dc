"""The file of a state's snapshot: the state, then where it stands in the log and where each job stands in the file.

A state of a hundred thousand jobs is 200 MB of JSON: it is written and hashed in parts, and mapped into memory for reading.
"""

import hashlib
import json
import mmap
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from bailiff_bus.lazy_logger import lazy_logger
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.fold.snapshot import SnapshotIndex, from_changes, from_snapshot, removed_since, snapshot_parts
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead
from bailiff_core.records.facts import StateDigest

DIGITS = 16
TRAILER = 64 + DIGITS  # SHA-256 and length of what stands between the state and it
ABANDONED_S = 3600  # drafts of processes that were killed


class SnapshotDraft:
    """A state written beside its snapshot, until a record confirms it. Without a file, only its digest is computed.

    after: write only what has changed since this snapshot, which the state was read from.

    Attributes:
        digest: The state digest.
        now: Log time of the state, µs.
    """

    def __init__(self, path: Path | None, state: PoolState, after: "StoredSnapshot | None" = None) -> None:
        self.now = state.now
        self._after = {"after": [after.name, after.digest()], "removed": removed_since(state)} if after is not None else {}
        self._path = self._draft = path
        self._index = SnapshotIndex()
        self._file: BinaryIO | None = None
        self._error: OSError | None = None
        if path is not None:
            self._open(path)
        hashed = hashlib.sha256()
        for part in snapshot_parts(state, self._index, changes=after is not None):
            hashed.update(part)
            self._write(part)
        self.digest = hashed.hexdigest()

    def fact(self) -> StateDigest:
        """What the log is to say of it."""
        return StateDigest(schema_version=STATE_SCHEMA, digest=self.digest, index=self._index.digest())

    def confirmed_by(self, fact: StateDigest) -> bool:
        """Whether the log says the same of it. Older logs have no digest of the index."""
        return fact.digest == self.digest and fact.index in (None, self._index.digest())

    def keep(self, head: ChainHead, offset: int, beside: bytes | None = None) -> None:
        """Replace the snapshot.

        Args:
            head: The chain before the record that confirms it.
            offset: Of that record.
            beside: What its reader stores with the state.

        Raises:
            OSError: It cannot be written.
        """
        about: dict[str, Any] = {"schema": STATE_SCHEMA, "head": asdict(head), "offset": offset, "index": self._index.to_data()}
        if self._after:
            about |= self._after | {"digest": self.digest}
        if beside is not None:
            about["beside"] = [len(beside), hashlib.sha256(beside).hexdigest()]
        footer = json.dumps(about, separators=(",", ":")).encode()
        self._write((beside or b"") + footer + _trailer(footer))
        if self._file is not None and self._path is not None and self._draft is not None:
            try:
                self._file.close()
                self._draft.replace(self._path)
                self._file = None
            except OSError as error:
                self._failed(error)
        if self._error is not None:
            raise self._error

    def discard(self) -> None:
        """Remove what was written: it would take the space that others need."""
        if self._file is not None and self._draft is not None:
            with suppress(OSError):
                self._file.close()
            with suppress(OSError):
                self._draft.unlink(missing_ok=True)
            self._file = None

    def __del__(self) -> None:
        self.discard()  # of a writer that was fenced before the digest was a record

    def _open(self, path: Path) -> None:
        self._draft = path.with_name(f"{path.stem}.{os.getpid()}.new")  # commands of one user share a folder
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            for abandoned in path.parent.glob(f"{path.stem}.*.new"):
                if time.time() - abandoned.stat().st_mtime > ABANDONED_S:
                    abandoned.unlink(missing_ok=True)
            self._file = self._draft.open("wb")
        except OSError as error:
            self._failed(error)

    def _write(self, part: bytes) -> None:
        if self._file is not None:
            try:
                self._file.write(part)
            except OSError as error:
                self._failed(error)

    def _failed(self, error: OSError) -> None:
        self._error = error
        self.discard()


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A snapshot as it was stored.

    Attributes:
        head: The chain before the record that confirms it.
        offset: Of that record.
        digest: Computes the state digest, once, in a thread that began when the file was opened.
        beside: Reads what is stored with the state; raises `ValueError` if it is damaged. None: nothing is.
        name: Changes when the file is replaced.
        seq: The last record of the state without kept changes.
        index: Where its jobs and requests stand in the file.
        confirmed: The digest that the log confirmed when changes were kept; empty: it is still to confirm it.
    """

    state: PoolState
    head: ChainHead
    offset: int
    digest: Callable[[], str]
    beside: Callable[[], bytes] | None
    name: str
    seq: int
    index: SnapshotIndex
    confirmed: str = ""


def read_snapshot(path: Path | None, *, undecoded: bool = False) -> StoredSnapshot | None:
    """The snapshot; None without one of the present schema. A damaged file is logged.

    Args:
        undecoded: Jobs and request ids are decoded when they are asked for.
    """
    if path is None or not path.exists():
        return None
    try:
        data, about, name = _opened(path)
        if about["schema"] != STATE_SCHEMA:
            return None
        index = SnapshotIndex.from_data(about["index"])
        digest = _digest_of(data, index.size)
        state = from_snapshot(data, index)
        if not undecoded:
            state.jobs, state.requests = dict(state.jobs.items()), dict(state.requests.items())
        beside = partial(_beside, data, index.size, *about["beside"]) if "beside" in about else None
        head, offset = ChainHead.from_data(about["head"]), about["offset"]
        return StoredSnapshot(state, head, offset, digest, beside, name, state.seq, index)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        lazy_logger().warning(f"snapshot {path.name} is damaged, folding from the start: {error}")
        return None


def read_changes(path: Path, snapshot: StoredSnapshot, before: int | None = None) -> StoredSnapshot | None:
    """The state with the changes since the snapshot, whose own is of no use afterwards. None: the file has none of it.

    before: None, too, if the changes reach this record.

    Its head is the last record that was folded, and stands before `offset`.
    """
    if not path.exists():
        return None
    data, about, _ = _opened(path)
    head = ChainHead.from_data(about["head"])
    if about["schema"] != STATE_SCHEMA or about["after"][0] != snapshot.name or (before is not None and head.next_seq > before):
        return None
    index = SnapshotIndex.from_data(about["index"])
    if hashlib.sha256(data[: index.size]).hexdigest() != about["digest"]:
        raise ValueError("the changes since the snapshot are damaged")
    beside = partial(_beside, data, index.size, *about["beside"])
    state = from_changes(snapshot.state, data, index, about["removed"])
    name, seq, confirmed = snapshot.name, snapshot.seq, about["after"][1]
    return StoredSnapshot(state, head, about["offset"], snapshot.digest, beside, name, seq, index, confirmed)


def _opened(path: Path) -> tuple[mmap.mmap, dict[str, Any], str]:
    """The file, what its end says about it, and its name. Raises `ValueError` if its end is damaged."""
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    trailer = data[-TRAILER:]
    footer = data[-TRAILER - int(trailer[64:]) : -TRAILER]
    if _trailer(footer) != trailer:
        raise ValueError("its end is not what was written")
    return data, orjson.loads(footer), trailer.decode()


def _digest_of(data: mmap.mmap, size: int) -> Callable[[], str]:
    """Hashes the first `size` bytes, while the caller does something else."""
    found: list[str] = []

    def hash_all() -> None:
        with memoryview(data) as view, view[:size] as written:
            found.append(hashlib.sha256(written).hexdigest())

    thread = threading.Thread(target=hash_all, daemon=True)
    thread.start()

    def digest() -> str:
        thread.join()
        return found[0]

    return digest


def _beside(data: mmap.mmap, start: int, length: int, digest: str) -> bytes:
    found = data[start : start + length]
    if hashlib.sha256(found).hexdigest() != digest:
        raise ValueError("what is stored with the snapshot is damaged")
    return found


def _trailer(footer: bytes) -> bytes:
    return b"%b%0*d" % (hashlib.sha256(footer).hexdigest().encode(), DIGITS, len(footer))
