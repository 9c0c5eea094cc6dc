"""A domain as one reader sees it: its log followed, verified and folded into a pool.

Every service has views of its own and decides from nobody else's. A view may start from a local snapshot, which
counts only if the log itself confirms its digest.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.fold import apply
from bailiff_core.fold.snapshot import digest_of, from_snapshot, to_snapshot
from bailiff_core.model.pool import Pool
from bailiff_core.records import ChainHead
from bailiff_core.records.facts import StateDigest
from bailiff_core.records.wire import time_text
from bailiff_core.scene import make_ready

from .garbage import state_stays
from .log import AuditReader, Entry, Orphan
from .logs import logger
from .metrics import Metrics
from .port import Bus, OffsetGone

NEAR_THE_END = 30_000  # offsets: a few digests of the log as admission writes them
LOOK_AFTER_S = 5.0


class StateDiverged(Exception):
    """This fold and the log's state digest differ: one of them is wrong, and nothing may be decided from either."""


class SnapshotNotConfirmed(Exception):
    """The record behind the snapshot is not the digest of it."""


class DomainView:
    """The state of one domain, record by record. `observe` is called with every valid entry, after it was folded.

    digest_seq: the newest state digest of the log, whichever schema it is of; 0 before the first one.
    """

    def __init__(
        self,
        bus: Bus,
        domain: str,
        partition: int,
        metrics: Metrics,
        *,
        snapshots: Path | None = None,
        observe: Callable[[Entry], None] | None = None,
    ) -> None:
        self.bus, self.domain, self.partition, self.metrics = bus, domain, partition, metrics
        self.observe = observe
        self.written_to = 0
        self.pool = Pool()
        self.reader = AuditReader(bus, domain, partition, on_orphan=self._orphan)
        self._snapshots = snapshots
        self._log = logger(domain=domain)
        self._restored = False
        self._restored_digest: str | None = None
        self._compared_at = float("-inf")
        self.digest_seq = 0

    @property
    def head(self) -> ChainHead:
        """Where the log stands for this view."""
        return self.reader.head

    @property
    def offset(self) -> int:
        """The Kafka offset behind all that was read here, or written by the writer that works on this view."""
        return max(self.reader.offset, self.written_to)

    async def open(self) -> None:
        """Start from the newest local snapshot if there is one that the log confirms, else from the beginning."""
        restored = _read_snapshot(self._snapshot_file())
        if restored is not None:
            self.pool, head, offset, self._restored_digest = restored
            self._restored = True
            self.reader = AuditReader(self.bus, self.domain, self.partition, head, offset, self._orphan)

    async def advance(self, wait: float) -> Sequence[Entry]:
        """Read and fold what is there; waits up to `wait` seconds for something. Raises `StateDiverged`."""
        entries = await self.reader.read(wait)
        await self.take(entries)
        return entries

    async def catch_up(self) -> None:
        """Advance until the end of the log as it was when this was called."""
        try:
            await self.reader.catch_up(self.take)
            if self._restored_digest is not None:
                raise SnapshotNotConfirmed("the log ends where the snapshot's digest was")
        except (SnapshotNotConfirmed, OffsetGone) as doubt:
            if isinstance(doubt, OffsetGone) and not self._restored:
                raise
            self._log.warning("the log does not confirm the local snapshot: folding from the start", why=str(doubt))
            self._restored, self._restored_digest = False, None
            await self.reader.close()
            self.pool = Pool()
            self.reader = AuditReader(self.bus, self.domain, self.partition, on_orphan=self._orphan)
            await self.reader.catch_up(self.take)

    async def take(self, entries: Sequence[Entry]) -> None:
        """Fold entries that follow the state."""
        for entry in entries:
            self._fold(entry)
        self.metrics.records_folded.labels(self.domain).inc(len(entries))
        self.metrics.log_head.labels(self.domain).set(self.pool.seq)

    def ready_to_decide(self) -> None:
        """Build what decisions keep up to date: the first is not to wait for it. It stays, as the state does."""
        make_ready(self.pool)
        state_stays()

    async def close(self) -> None:
        """Let go of the reader."""
        await self.reader.close()

    def _orphan(self, orphan: Orphan) -> None:
        if self._restored_digest is not None:
            raise SnapshotNotConfirmed(f"something else stands at offset {orphan.offset}, where the snapshot's digest was")
        if self.metrics.count_orphan(self.domain, orphan.offset):
            self._log.warning("a record that does not continue the log was skipped", offset=orphan.offset, why=orphan.reason)

    def _fold(self, entry: Entry) -> None:
        data = entry.record.data
        if self._restored_digest is not None:
            if not self._confirms(entry):
                raise SnapshotNotConfirmed(f"#{entry.record.seq} is not the digest of the snapshot")
        elif isinstance(data, StateDigest) and data.schema_version == STATE_SCHEMA and self._is_to_be_compared(entry):
            self._compare(entry, data)
        if isinstance(data, StateDigest):
            self.digest_seq = entry.record.seq
        apply(self.pool, entry.record)
        if self.observe is not None:
            self.observe(entry)

    def _is_to_be_compared(self, entry: Entry) -> bool:
        """To write a large state costs as much as thousands of records: far from the end that is done now and then only.

        A fold that went wrong before shows at the next comparison.
        """
        now = asyncio.get_running_loop().time()
        if entry.offset + NEAR_THE_END < self.reader.known_end and now - self._compared_at < LOOK_AFTER_S:
            return False
        self._compared_at = now
        return True

    def _compare(self, entry: Entry, fact: StateDigest) -> None:
        state = to_snapshot(self.pool)
        found = digest_of(state)
        if found != fact.digest:
            raise StateDiverged(f"{self.domain}#{entry.record.seq}: the log's state digest is {fact.digest}, folded {found}")
        self.keep(state, self.pool.now, entry)

    def keep(self, state: bytes, now: int, digest: Entry) -> None:
        """Write a snapshot: this state, as of log time `now`, is the one that the record `digest` confirms."""
        record = digest.record
        head = ChainHead(self.domain, record.seq, record.prev, record.epoch, time_text(now))
        _write_snapshot(self._snapshot_file(), state, head, digest.offset)
        self.digest_seq = record.seq

    def _confirms(self, entry: Entry) -> bool:
        data, digest = entry.record.data, self._restored_digest
        self._restored_digest = None
        return isinstance(data, StateDigest) and data.schema_version == STATE_SCHEMA and data.digest == digest

    def _snapshot_file(self) -> Path | None:
        return self._snapshots / f"{self.domain}.snapshot" if self._snapshots is not None else None


def _write_snapshot(path: Path | None, state: bytes, head: ChainHead, offset: int) -> None:
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    about = json.dumps({"schema": STATE_SCHEMA, "head": asdict(head), "offset": offset}).encode()
    unfinished = path.with_suffix(".new")
    unfinished.write_bytes(about + b"\n" + state)
    unfinished.replace(path)


def _read_snapshot(path: Path | None) -> tuple[Pool, ChainHead, int, str] | None:
    """With the digest of the state. None where there is none of the present schema; a damaged one is reported, too."""
    if path is None or not path.exists():
        return None
    try:
        about_line, _, state = path.read_bytes().partition(b"\n")
        about = json.loads(about_line)
        if about["schema"] != STATE_SCHEMA:
            return None
        return from_snapshot(state), ChainHead(**about["head"]), about["offset"], digest_of(state)
    except (ValueError, KeyError, TypeError) as error:
        logger().warning(f"snapshot {path.name} is damaged, folding from the start: {error}")
        return None
