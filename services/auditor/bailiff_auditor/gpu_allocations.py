"""Stores GPU allocations, GPU states and accounting over time, with their position, from the fold of `quota_usage`."""

from dataclasses import dataclass, field

from asyncpg import Connection

from bailiff_core.model.state import PoolState
from bailiff_log.accounting_rows import ACCOUNTING_TABLES, Accounting
from bailiff_log.gpu_allocation_rows import GpuAllocations
from bailiff_log.reader import Entry

TABLES = ("gpu_allocations", "gpu_states", *(table.name for table in ACCOUNTING_TABLES))


class LogReplaced(Exception):
    """The log lost records whose allocations are stored, and continues with others."""


@dataclass
class GpuAllocationWriter:
    """These tables of one pool. after, after_hash: the newest stored record. seq, hash: the newest folded one."""

    pool: int
    after: int
    after_hash: str = ""
    seq: int = -1
    hash: str = ""
    of_another_log: bool = False
    allocations: GpuAllocations = field(default_factory=GpuAllocations)
    accounting: Accounting = field(default_factory=Accounting)

    @classmethod
    async def load(cls, connection: Connection, pool: int) -> "GpuAllocationWriter":
        """Load the stored position."""
        found = await connection.fetchrow("SELECT allocations_seq, allocations_hash FROM followed WHERE pool = $1", pool)
        return cls(pool, -1) if found is None else cls(pool, found["allocations_seq"], found["allocations_hash"])

    def begin(self, state: PoolState) -> None:
        """Start from the state of a snapshot, whose rows are stored."""
        self.allocations.begin(state)
        self.accounting.begin(state)

    def at(self, state: PoolState, entry: Entry) -> None:
        """Observe the state after this record."""
        record = entry.record
        self.seq, self.hash = record.seq, entry.hash
        if record.seq == self.after and entry.hash != self.after_hash:
            self.of_another_log = True
        self.allocations.at(state, record, stored=record.seq <= self.after)
        self.accounting.at(state, record, stored=record.seq <= self.after)

    async def write(self, connection: Connection) -> None:
        """Write pending rows and the position in one transaction. Raises `LogReplaced` after deleting what is stored."""
        if self.of_another_log:
            await self.delete_all(connection)
        if self.seq <= self.after:
            return
        seq, digest = self.seq, self.hash
        async with connection.transaction():
            await self.allocations.write(connection, self.pool)
            await self.accounting.write(connection, self.pool)
            await connection.execute(
                """INSERT INTO followed (pool, allocations_seq, allocations_hash) VALUES ($1, $2, $3)
                   ON CONFLICT (pool) DO UPDATE SET allocations_seq = excluded.allocations_seq, allocations_hash =
                   excluded.allocations_hash""",
                self.pool,
                seq,
                digest,
            )
        self.after, self.after_hash = seq, digest

    async def delete_all(self, connection: Connection) -> None:
        """Delete all stored rows, because they are of another log. Raises `LogReplaced`."""
        async with connection.transaction():
            for table in TABLES:
                await connection.execute(f"DELETE FROM {table} WHERE pool = $1", self.pool)  # noqa: S608 - our own names
            await connection.execute("UPDATE followed SET allocations_seq = -1, allocations_hash = '' WHERE pool = $1", self.pool)
        raise LogReplaced(f"GPU allocations were stored up to #{self.after} of another log: rebuilding them")
