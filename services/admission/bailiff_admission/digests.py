"""When the state's digest is written to the log, and the snapshot that belongs to it."""

from bailiff_bus.ambient import Ambient
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.fold.snapshot import digest_of, to_snapshot
from bailiff_core.model.pool import Pool
from bailiff_core.records.facts import StateDigest

AFTER = 60_000_000


class Digests:
    """After so many records, and after a minute where a tenth of them came: whoever restarts reads what came after it."""

    def __init__(self, every: int, ambient: Ambient) -> None:
        self._every, self._ambient = every, ambient
        self._last = self._at = 0
        self._under_way: tuple[bytes, int] | None = None

    def begin(self, last: int, boot: int) -> None:
        """last: the record of the newest one. They are counted from here."""
        self._last, self._at = last, boot

    def due(self, pool: Pool) -> StateDigest | None:
        """The digest that is to be appended now."""
        since = pool.seq - self._last
        if pool.turn_open or since * 10 < self._every:
            return None
        if since < self._every and self._ambient.boot() - self._at < AFTER:
            return None
        self._last, self._at = pool.seq, self._ambient.boot()
        state = to_snapshot(pool)
        self._under_way = (state, pool.now)
        return StateDigest(schema_version=STATE_SCHEMA, digest=digest_of(state))

    def appended(self) -> tuple[bytes, int] | None:
        """The state of which the turn before had the digest, with its time; told once."""
        found, self._under_way = self._under_way, None
        return found
