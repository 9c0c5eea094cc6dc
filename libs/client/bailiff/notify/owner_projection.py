"""Projection of a pool's log for `bailiff notify`: the state, and the owner of every job.

Both are stored on disk at each state digest, so that a restart continues from there. A stored projection is used only if the
log confirms it and no hook has pending events from before it; else the log is read from its start.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from bailiff.client.client import WAIT
from bailiff.client.pool_ref import PoolRef
from bailiff_bus.port import Bus
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record
from bailiff_core.records.facts import JobSubmitted, StateDigest
from bailiff_log.file_writing import write
from bailiff_log.projection import Projection
from bailiff_log.reader import Entry
from bailiff_service.metrics import Metrics

Tell = Callable[[Record, PoolState, Mapping[str, str]], None]


class OwnerProjection:
    """Calls `tell` with each record, the state after it, and owners by job.

    Attributes:
        folder: Where the snapshots are stored.
    """

    def __init__(self, bus: Bus, place: PoolRef, folder: Path, tell: Tell) -> None:
        self.bus, self.place, self.folder, self.tell = bus, place, folder / place.identity[:16], tell
        self.owners: dict[str, str] = {}
        self.projection = self._new_projection()

    async def run(self, since: int, *, once: bool) -> int:
        """Processes all records after `since`, possibly some before; with `once` to the end of the log. Returns the last seq."""
        try:
            await self.projection.open()
            kept = self.projection.state.seq
            if kept >= 0 and (kept > since or not self._owners_as_of(kept)):
                self.projection = self._new_projection()
            await self.projection.catch_up()
            while not once:
                await self.projection.advance(WAIT)
            return self.projection.state.seq
        finally:
            await self.projection.close()

    def _new_projection(self) -> Projection:
        place = self.place
        return Projection(self.bus, place.name, place.partition, Metrics(), snapshots=self.folder, observe=self._folded)

    def _folded(self, entry: Entry) -> None:
        record, pool, owners = entry.record, self.projection.state, self.owners
        if record.seq == 0:
            owners.clear()  # the snapshot was not confirmed; the log is read from its start
        if isinstance(record.data, JobSubmitted):
            owners[record.data.demand.job] = record.data.user or record.data.demand.user or record.actor
        self.tell(record, pool, owners)
        for job in [name for name in owners if name not in pool.jobs] if len(owners) > 2 * len(pool.jobs) + 100 else []:
            del owners[job]
        if isinstance(record.data, StateDigest):
            self._keep_owners(record.seq - 1)

    @property
    def _file(self) -> Path:
        return self.folder / "owners.json"

    def _keep_owners(self, seq: int) -> None:
        """Stores the owners, as of the same record as the projection's snapshot."""
        with suppress(OSError):  # the next start then reads the whole log
            self.folder.mkdir(parents=True, exist_ok=True)
            write(self._file, json.dumps({"seq": seq, "owners": self.owners}))

    def _owners_as_of(self, seq: int) -> bool:
        """Loads the stored owners. Returns whether they are as of this record."""
        try:
            found = json.loads(self._file.read_text(encoding="utf-8"))
            self.owners = {str(job): str(owner) for job, owner in found["owners"].items()}
            return bool(found["seq"] == seq)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False
