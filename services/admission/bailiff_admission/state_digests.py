"""Schedules state digests in the log, with their snapshots."""

from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.fold.snapshot import digest_of, to_snapshot
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import StateDigest
from bailiff_service.clock_and_ids import ClockAndIds

MIN_INTERVAL = 60_000_000


class StateDigests:
    """A digest is due after `every` records, or after a minute and a tenth of them; restarts fold from the last one."""

    def __init__(self, every: int, clock_and_ids: ClockAndIds) -> None:
        self._every, self._clock_and_ids = every, clock_and_ids
        self._last = self._at = 0
        self._pending: tuple[bytes, int] | None = None

    def begin(self, last: int, boot: int) -> None:
        """last: seq of the newest digest, from which records are counted."""
        self._last, self._at = last, boot

    def due(self, state: PoolState) -> StateDigest | None:
        """The digest to append now, if one is due."""
        since = state.seq - self._last
        if state.cycle_open or since * 10 < self._every:
            return None
        if since < self._every and self._clock_and_ids.boot() - self._at < MIN_INTERVAL:
            return None
        self._last, self._at = state.seq, self._clock_and_ids.boot()
        snapshot = to_snapshot(state)
        self._pending = (snapshot, state.now)
        return StateDigest(schema_version=STATE_SCHEMA, digest=digest_of(snapshot))

    def appended(self) -> tuple[bytes, int] | None:
        """Snapshot and log time of the digest in the last cycle; returned once."""
        found, self._pending = self._pending, None
        return found
