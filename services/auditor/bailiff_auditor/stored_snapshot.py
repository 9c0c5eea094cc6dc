"""The newest snapshot of the pool's state, in the archive: readers that have none of their own download it from the HTTP API."""

import asyncio
import zlib
from dataclasses import dataclass
from pathlib import Path

from asyncpg import Connection

from bailiff_core.engine import STATE_SCHEMA

CHUNK = 1 << 20
GZIP = 31  # zlib's name of the format
INSERT = """INSERT INTO snapshots (pool, seq, schema, data) VALUES ($1, $2, $3, $4)
    ON CONFLICT (pool) DO UPDATE SET seq = excluded.seq, schema = excluded.schema, data = excluded.data"""


@dataclass
class StoredSnapshot:
    """The stored snapshot of one pool.

    Attributes:
        file: Where the projection keeps its own.
        seq: The state digest that confirms what is stored; -1 without one that this release can read.
    """

    pool_id: int
    file: Path
    seq: int

    @classmethod
    async def load(cls, connection: Connection, pool_id: int, file: Path) -> "StoredSnapshot":
        """What the archive has."""
        found = await connection.fetchval("SELECT seq FROM snapshots WHERE pool = $1 AND schema = $2", pool_id, STATE_SCHEMA)
        return cls(pool_id, file, -1 if found is None else found)

    async def write(self, connection: Connection, seq: int) -> None:
        """Store the projection's snapshot, which this state digest confirms, unless it is stored already."""
        if seq < 0 or seq == self.seq:
            return
        try:
            data = await asyncio.to_thread(_gzipped, self.file)
        except FileNotFoundError:
            return  # it could not be written, which the projection has logged
        await connection.execute(INSERT, self.pool_id, seq, STATE_SCHEMA, data)
        self.seq = seq


def _gzipped(file: Path) -> bytes:
    """A fiftieth of its size, in the time in which it is read."""
    packed = zlib.compressobj(1, wbits=GZIP)
    with file.open("rb") as source:
        parts = [packed.compress(part) for part in iter(lambda: source.read(CHUNK), b"")]
    return b"".join([*parts, packed.flush()])
