"""The state of a pool, folded from its verified log.

Every service has its own projections. One may start from a local snapshot, which is used only if the log confirms its digest.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from bailiff_bus.lazy_logger import lazy_logger
from bailiff_bus.port import Bus, OffsetOutOfRange
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.fold import apply
from bailiff_core.fold.keys import log_keys
from bailiff_core.fold.snapshot import digest_of, from_snapshot, to_snapshot
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead
from bailiff_core.records.facts import StateDigest
from bailiff_core.records.wire import time_text

from .reader import AuditReader, Entry, OnEntries, Orphan

NEAR_END = 30_000  # offsets: a few state digests apart
COMPARE_INTERVAL_S = 5.0


class StateDiverged(Exception):
    """The folded state and the log's state digest differ: one of them is wrong, and no decision may use either."""


class SnapshotNotConfirmed(Exception):
    """The record after the snapshot is not its state digest."""


class ProjectionMetrics(Protocol):
    """The metrics that a projection updates."""

    def count_folded(self, pool: str, records: int, head_seq: int) -> None:
        """Count folded records; `head_seq` is the newest one."""

    def count_orphan(self, pool: str, offset: int) -> bool:
        """Count the orphan at this offset. Returns False if it was counted before."""

    def count_unwritten_snapshot(self, pool: str) -> None:
        """Count a snapshot that could not be written."""


class Projection:
    """The state of one pool, record by record. observe: called with every valid entry after it was folded.

    digest_seq: the newest state digest in the log, of any schema; 0 before the first one. unwritable: why the newest snapshot
    could not be written; None if it was, or if there is none.
    """

    def __init__(
        self,
        bus: Bus,
        pool: str,
        partition: int,
        metrics: ProjectionMetrics,
        *,
        snapshots: Path | None = None,
        observe: Callable[[Entry], None] | None = None,
    ) -> None:
        self.bus, self.pool, self.partition, self.metrics = bus, pool, partition, metrics
        self.observe = observe
        self.written_to = 0
        self.state = PoolState()
        self.reader = AuditReader(bus, pool, partition, on_orphan=self._orphan)
        self._snapshots = snapshots
        self._log = lazy_logger(pool=pool)
        self._restored = False
        self._restored_digest: str | None = None
        self._compared_at = float("-inf")
        self.digest_seq = 0
        self.unwritable: str | None = None

    @property
    def head(self) -> ChainHead:
        """The chain after the last record read."""
        return self.reader.head

    @property
    def offset(self) -> int:
        """The Kafka offset after all records read here or committed by the writer of this projection."""
        return max(self.reader.offset, self.written_to)

    async def open(self) -> None:
        """Load the local snapshot, if there is one; `catch_up` checks that the log confirms it."""
        restored = _read_snapshot(self._snapshot_file())
        if restored is not None:
            self.state, head, offset, self._restored_digest = restored
            self._restored = True
            self.reader = AuditReader(self.bus, self.pool, self.partition, head, offset, self._orphan)

    async def advance(self, wait: float) -> Sequence[Entry]:
        """Read and fold new records; waits up to `wait` seconds for the first. Raises `StateDiverged`."""
        entries = await self.reader.read(wait)
        await self.take(entries)
        return entries

    def wake(self) -> None:
        """A waiting `advance` returns at once; if none waits, the next one does not wait."""
        self.reader.wake()

    async def catch_up(self, take: OnEntries | None = None) -> None:
        """Advance to the end of the log as of this call. take: called instead of `take`, and calls it."""
        on_entries = take or self.take
        try:
            await self.reader.catch_up(on_entries)
            if self._restored_digest is not None:
                raise SnapshotNotConfirmed("the log ends before the snapshot's digest")
        except (SnapshotNotConfirmed, OffsetOutOfRange) as error:
            if isinstance(error, OffsetOutOfRange) and not self._restored:
                raise
            self._log.warning("the log does not confirm the local snapshot: folding from the start", reason=str(error))
            self._restored, self._restored_digest = False, None
            await self.reader.close()
            self.state = PoolState()
            self.reader = AuditReader(self.bus, self.pool, self.partition, on_orphan=self._orphan)
            await self.reader.catch_up(on_entries)

    async def take(self, entries: Sequence[Entry]) -> None:
        """Fold entries that continue the state."""
        for entry in entries:
            self._fold(entry)
        self.metrics.count_folded(self.pool, len(entries), self.state.seq)

    async def close(self) -> None:
        """Close the reader. Nothing that the projection holds refers to it afterwards, so its state is freed with it."""
        await self.reader.close()
        self.reader = AuditReader(self.bus, self.pool, self.partition, self.head, self.reader.offset)

    def _orphan(self, orphan: Orphan) -> None:
        if self._restored_digest is not None:
            raise SnapshotNotConfirmed(f"offset {orphan.offset} is an orphan, expected the snapshot's digest")
        if self.metrics.count_orphan(self.pool, orphan.offset):
            self._log.warning("orphan record skipped", offset=orphan.offset, reason=orphan.reason)

    def _fold(self, entry: Entry) -> None:
        data = entry.record.data
        if self._restored_digest is not None:
            if not self._confirms(entry):
                raise SnapshotNotConfirmed(f"#{entry.record.seq} is not the snapshot's state digest")
        elif isinstance(data, StateDigest) and data.schema_version == STATE_SCHEMA and self._should_compare(entry):
            self._compare(entry, data)
        if isinstance(data, StateDigest):
            self.digest_seq = entry.record.seq
        apply(self.state, entry.record)
        if self.observe is not None:
            self.observe(entry)

    def _should_compare(self, entry: Entry) -> bool:
        """Serialising a large state costs as much as thousands of records: far from the end it is done rarely.

        A diverged state is found at the next comparison.
        """
        now = asyncio.get_running_loop().time()
        if entry.offset + NEAR_END < self.reader.known_end and now - self._compared_at < COMPARE_INTERVAL_S:
            return False
        self._compared_at = now
        return True

    def _compare(self, entry: Entry, fact: StateDigest) -> None:
        state = to_snapshot(self.state)
        found = digest_of(state)
        if found != fact.digest:
            raise StateDiverged(f"{self.pool}#{entry.record.seq}: the log's state digest is {fact.digest}, folded {found}")
        self.save_snapshot(state, self.state.now, entry)

    def save_snapshot(self, state: bytes, now: int, digest: Entry) -> None:
        """Write a snapshot of this state, as of log time `now`; `digest` is the record that confirms it.

        Without it, as on a full disk, only the next start takes longer.
        """
        record = digest.record
        head = ChainHead(self.pool, record.seq, record.prev, record.epoch, time_text(now), keys=log_keys(self.state))
        self.digest_seq = record.seq
        try:
            _write_snapshot(self._snapshot_file(), state, head, digest.offset)
            self.unwritable = None
        except OSError as error:
            self.metrics.count_unwritten_snapshot(self.pool)
            if self.unwritable is None:
                self._log.warning(
                    "cannot write a snapshot; the next start folds more of the log",
                    file=str(self._snapshot_file()), reason=str(error),
                )  # fmt: skip
            self.unwritable = str(error)

    def _confirms(self, entry: Entry) -> bool:
        data, digest = entry.record.data, self._restored_digest
        self._restored_digest = None
        return isinstance(data, StateDigest) and data.schema_version == STATE_SCHEMA and data.digest == digest

    def _snapshot_file(self) -> Path | None:
        return self._snapshots / f"{self.pool}.snapshot" if self._snapshots is not None else None


def _write_snapshot(path: Path | None, state: bytes, head: ChainHead, offset: int) -> None:
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    header = json.dumps({"schema": STATE_SCHEMA, "head": asdict(head), "offset": offset}).encode()
    temporary = path.with_suffix(".new")
    try:
        temporary.write_bytes(header + b"\n" + state)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)  # it would take the space that others need
        raise


def _read_snapshot(path: Path | None) -> tuple[PoolState, ChainHead, int, str] | None:
    """The snapshot and its digest; None without one of the present schema. A damaged file is logged."""
    if path is None or not path.exists():
        return None
    try:
        header_line, _, state = path.read_bytes().partition(b"\n")
        header = json.loads(header_line)
        if header["schema"] != STATE_SCHEMA:
            return None
        return from_snapshot(state), ChainHead.from_data(header["head"]), header["offset"], digest_of(state)
    except (ValueError, KeyError, TypeError) as error:
        lazy_logger().warning(f"snapshot {path.name} is damaged, folding from the start: {error}")
        return None
