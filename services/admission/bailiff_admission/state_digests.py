"""Schedules state digests in the log, with their snapshots."""

from collections.abc import Callable

from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import StateDigest
from bailiff_log.snapshot_file import SnapshotDraft
from bailiff_service.clock_and_ids import ClockAndIds

MIN_INTERVAL = 60_000_000
SHARE = 20
"""Digests take at most this part of the writer's time: that of 100,000 jobs takes a second, in which nothing is decided."""


class StateDigests:
    """A digest is due after `every` records, or after a minute and a tenth of them; restarts fold from the last one.

    That of a large state is due later.
    """

    def __init__(self, every: int, clock_and_ids: ClockAndIds, draft: Callable[[], SnapshotDraft]) -> None:
        self._every, self._clock_and_ids, self._draft = every, clock_and_ids, draft
        self._last = self._at = self._took = 0
        self._pending: SnapshotDraft | None = None

    def begin(self, last: int, boot: int) -> None:
        """last: seq of the newest digest, from which records are counted."""
        self._last, self._at = last, boot

    def due(self, state: PoolState) -> StateDigest | None:
        """The digest to append now, if one is due."""
        since, now = state.seq - self._last, self._clock_and_ids.boot()
        if state.cycle_open or since * 10 < self._every:
            return None
        if now - self._at < (MIN_INTERVAL if since < self._every else SHARE * self._took):
            return None
        self._last, self._at = state.seq, now
        self._pending = self._draft()
        self._took = self._clock_and_ids.boot() - now
        return self._pending.fact()

    def appended(self) -> SnapshotDraft | None:
        """The snapshot of the digest in the last cycle; returned once."""
        found, self._pending = self._pending, None
        return found
