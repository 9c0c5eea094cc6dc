"""The state of a pool, folded from its verified log.

Every service has its own projections. One may start from a local snapshot, which is used only if the log confirms its digest.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from bailiff_bus.lazy_logger import lazy_logger
from bailiff_bus.port import Bus, OffsetOutOfRange
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.fold import apply
from bailiff_core.fold.keys import log_keys
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead
from bailiff_core.records.facts import StateDigest
from bailiff_core.records.wire import time_text

from .job_index import JobIndex, no_places
from .reader import AuditReader, Entry, OnEntries, Orphan
from .snapshot_file import SnapshotDraft, StoredSnapshot, read_changes, read_snapshot

NEAR_END = 12_000  # offsets: beyond the distance between two state digests
KEPT_FROM = 1_000  # records: folding fewer again costs less than keeping what they changed
RENEWED_AFTER = 10_000  # records, as far apart as state digests of a busy log
COMPARE_SHARE = 50
"""A reader compares for at most this part of its time, besides near the end of what is there: a large state takes a second, in
which nothing else is done. All readers get a new digest at once."""


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

    undecoded: jobs of the local snapshot are decoded when they are asked for. job_index: stored with it.

    digest_seq: the newest state digest in the log, of any schema; 0 before the first one. snapshot_seq: the one that confirms the
    newest snapshot on this disk; -1 without one. unwritable: why the newest snapshot could not be written; None if it was, or if
    there is none.
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
        undecoded: bool = False,
        job_index: JobIndex | None = None,
    ) -> None:
        self.bus, self.pool, self.partition, self.metrics = bus, pool, partition, metrics
        self.observe, self.job_index = observe, job_index
        self.written_to = 0
        self.state = PoolState()
        self.reader = AuditReader(bus, pool, partition, on_orphan=self._orphan)
        self._snapshots, self._undecoded = snapshots, undecoded
        self._log = lazy_logger(pool=pool)
        self._restored = False
        self._restored_digest: Callable[[], str] | None = None
        self._snapshot: StoredSnapshot | None = None
        self._offered: Path | None = None
        self._kept_seq = -1
        self._compared_at, self._comparing_took = float("-inf"), 0.0
        self.digest_seq = 0
        self.snapshot_seq = -1
        self.unwritable: str | None = None

    @property
    def head(self) -> ChainHead:
        """The chain after the last record read."""
        return self.reader.head

    @property
    def offset(self) -> int:
        """The Kafka offset after all records read here or committed by the writer of this projection."""
        return max(self.reader.offset, self.written_to)

    async def open(self, before: int | None = None) -> None:
        """Load the local snapshot, if there is one; `catch_up` checks that the log confirms it.

        before: leave out the changes that another reader kept with it, if they reach this record.
        """
        stored = read_snapshot(self._snapshot_file(), undecoded=self._undecoded)
        if stored is None or (self.job_index is not None and not self._undecoded and stored.beside is None):
            return
        self.snapshot_seq = stored.seq + 1
        if self.job_index is not None:
            self.job_index.restore_later(stored.beside or no_places)
        self._begin(self._with_changes(stored, before) if self._undecoded else stored)

    def open_offered(self, file: Path, offered: StoredSnapshot) -> None:
        """Begin at a snapshot that somebody else has made and `check_offered` has passed.

        `catch_up` uses it only if the log has the digests of all that it says, and nothing after them that does not continue it.
        Then the file becomes the local snapshot.
        """
        self._offered = file
        if self.job_index is not None:
            self.job_index.restore_later(no_places)
        self._begin(offered)

    def _begin(self, stored: StoredSnapshot) -> None:
        if self._undecoded:
            self._snapshot = stored
        self.state, self._restored = stored.state, True
        self._restored_digest = None if stored.confirmed else stored.digest
        self.reader = AuditReader(self.bus, self.pool, self.partition, stored.head, stored.offset, self._orphan)
        self.reader.head_offset = stored.offset - 1 if stored.confirmed else None
        self._kept_seq = self.state.seq

    def _with_changes(self, stored: StoredSnapshot, before: int | None) -> StoredSnapshot:
        """The snapshot with the changes since, if some were kept."""
        path = self._changes_file()
        try:
            later = read_changes(path, stored, before) if path is not None else None
            if later is None:
                return stored
            if self.job_index is not None and later.beside is not None:
                self.job_index.restore_later(stored.beside or no_places, later.beside())
            return later
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._log.warning("the changes since the snapshot are damaged", reason=str(error))
            return stored

    def keep_changes(self) -> None:
        """Keep what was folded since the snapshot, so that the next reader on this machine reads only what is new then."""
        path, snapshot, at = self._changes_file(), self._snapshot, self.reader.head_offset
        if path is None or snapshot is None or at is None or self.state.seq - self._kept_seq < KEPT_FROM or self.state.cycle_open:
            return
        draft = SnapshotDraft(path, self.state, snapshot)
        try:
            draft.keep(self.head, at + 1, self.job_index.changes() if self.job_index is not None else b"")
            self._kept_seq = self.state.seq
        except OSError as error:
            self._log.warning("cannot keep the changes since the snapshot", file=str(path), reason=str(error))

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
        on_entries, changed = take or self.take, self._snapshot is not None and self._snapshot.confirmed
        try:
            if changed and self._restored:
                await self.reader.verify_head()
            await self.reader.catch_up(on_entries)
            if self._restored_digest is not None:
                raise SnapshotNotConfirmed("the log ends before the snapshot's digest")
            if changed and self._snapshot is not None and self._snapshot.digest() != changed:
                raise SnapshotNotConfirmed("the snapshot is not the one that the log has confirmed")
            if self._snapshot is not None:
                self._snapshot = replace(self._snapshot, confirmed="")
            self._keep_offered()
        except (SnapshotNotConfirmed, OffsetOutOfRange, StateDiverged) as error:
            if not (isinstance(error, SnapshotNotConfirmed) or (changed if isinstance(error, StateDiverged) else self._restored)):
                raise
            which = "local" if self._offered is None else "downloaded"
            self._log.warning(f"the log does not confirm the {which} snapshot: folding from the start", reason=str(error))
            if self._offered is not None:
                with suppress(OSError):
                    self._offered.unlink(missing_ok=True)
            self._restored, self._restored_digest, self._snapshot, self._offered = False, None, None, None
            await self.reader.close()
            self.state = PoolState()
            if self.job_index is not None:
                self.job_index.clear()
            self.reader = AuditReader(self.bus, self.pool, self.partition, on_orphan=self._orphan)
            await self.reader.catch_up(on_entries)

    def _keep_offered(self) -> None:
        """What the log has confirmed is as good as this machine's own, unless there is a newer one by now."""
        offered, self._offered = self._offered, None
        path = self._snapshot_file()
        if offered is None or path is None or self._snapshot is None:
            return
        try:
            offered.replace(path)
        except OSError as error:
            self._log.warning("cannot keep the downloaded snapshot", file=str(path), reason=str(error))

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
        if self._offered is not None:  # so the log goes on from another record: the snapshot may be of a fork
            raise SnapshotNotConfirmed(f"offset {orphan.offset} does not continue it")
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
        if self.job_index is not None:
            self.job_index.take(entry, self.state)
        if self.observe is not None:
            self.observe(entry)

    def _should_compare(self, entry: Entry) -> bool:
        """Serialising a large state costs as much as thousands of records: only near the end of what is there it is always done,
        and by readers that keep the changes since their snapshot only once these are many.

        A diverged state is found at the next comparison.
        """
        if self._snapshot is not None and entry.record.seq - self._snapshot.seq < RENEWED_AFTER:
            return False
        at, end = entry.offset, self.reader.known_end
        if at < end <= at + NEAR_END:
            return True
        return asyncio.get_running_loop().time() - self._compared_at >= COMPARE_SHARE * self._comparing_took

    def _compare(self, entry: Entry, fact: StateDigest) -> None:
        now = asyncio.get_running_loop().time
        began = now()
        draft = self.draft_snapshot()
        if not draft.confirmed_by(fact):
            draft.discard()
            raise StateDiverged(f"{self.pool}#{entry.record.seq}: the log's state digest is {fact.digest}, folded {draft.digest}")
        self.save_snapshot(draft, entry)
        self._compared_at, self._comparing_took = began, now() - began

    def draft_snapshot(self) -> SnapshotDraft:
        """The present state, written beside the snapshot; `save_snapshot` replaces the snapshot by it."""
        return SnapshotDraft(self._snapshot_file(), self.state)

    def save_snapshot(self, draft: SnapshotDraft, digest: Entry) -> None:
        """Replace the snapshot; `digest` is the record that confirms it.

        Where that fails, as on a full disk, only the next start takes longer.
        """
        record = digest.record
        head = ChainHead(self.pool, record.seq, record.prev, record.epoch, time_text(draft.now), keys=log_keys(self.state))
        self.digest_seq = record.seq
        self._snapshot = None  # what is read on is no longer of the snapshot that is there
        try:
            draft.keep(head, digest.offset, self._stored_beside())
            self.unwritable, self.snapshot_seq = None, record.seq
        except OSError as error:
            self.metrics.count_unwritten_snapshot(self.pool)
            if self.unwritable is None:
                self._log.warning(
                    "cannot write a snapshot; the next start folds more of the log",
                    file=str(self._snapshot_file()),
                    reason=str(error),
                )
            self.unwritable = str(error)

    def _stored_beside(self) -> bytes | None:
        try:
            return self.job_index.to_bytes(self.state) if self.job_index is not None else None
        except ValueError as error:  # the next start folds the whole log
            self._log.warning(str(error))
            return None

    def _confirms(self, entry: Entry) -> bool:
        data, digest = entry.record.data, self._restored_digest
        self._restored_digest = None
        if not isinstance(data, StateDigest) or data.schema_version != STATE_SCHEMA or digest is None or data.digest != digest():
            return False
        return self._offered is None or (self._snapshot is not None and data.index == self._snapshot.index.digest())

    def _snapshot_file(self) -> Path | None:
        return self._snapshots / f"{self.pool}.snapshot" if self._snapshots is not None else None

    def _changes_file(self) -> Path | None:
        return self._snapshots / f"{self.pool}.changes" if self._snapshots is not None and self._undecoded else None
