"""Re-derives archive tables by folding the records: quota usage over time, GPU allocations, and accounting."""

from dataclasses import dataclass, field
from typing import Any

from bailiff_core.fold import apply
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record
from bailiff_log.accounting_rows import ACCOUNTING_TABLES, Accounting
from bailiff_log.archive import ArchivedLog
from bailiff_log.gpu_allocation_rows import GPU_ALLOCATIONS, GPU_STATES, GpuAllocations, IntervalRows, Table
from bailiff_log.quota_usage_rows import USAGE_COLUMNS, USAGE_NAMES, UsageSchedule, rows_of

from .row_diff import Derived

FOLDED = {
    table.name: Table(f"folded_{table.name}", table.key, table.values)
    for table in (GPU_ALLOCATIONS, GPU_STATES, *ACCOUNTING_TABLES)
}


@dataclass
class RederivedTables:
    """Re-derived tables, for comparison.

    Attributes:
        upto: The newest record that the archived tables reflect; later rows are not expected.
        stored: Archived usage samples not compared yet, by record.
        intervals: First record and sampling interval (µs).
    """

    log: ArchivedLog
    upto: int = -1
    digest: str = ""
    state: PoolState = field(default_factory=PoolState)
    held: GpuAllocations = field(
        default_factory=lambda: GpuAllocations(IntervalRows(FOLDED["gpu_allocations"]), IntervalRows(FOLDED["gpu_states"]))
    )
    accounting: Accounting = field(
        default_factory=lambda: Accounting(*(IntervalRows(FOLDED[table.name]) for table in ACCOUNTING_TABLES))
    )
    stored: dict[int, list[Any]] = field(default_factory=dict)
    intervals: list[tuple[int, int]] = field(default_factory=list)
    _due: UsageSchedule | None = None
    _looked: int = -1

    @classmethod
    async def load(cls, log: ArchivedLog, found: Derived) -> "RederivedTables | None":
        """Loads the archived tables. None if the archive lacks the first records, so that the state cannot be folded."""
        if log.start.next_seq:
            return None
        self, connection = cls(log), log.connection
        for row in await connection.fetch(f"SELECT {USAGE_NAMES} FROM project_usage WHERE pool = $1 ORDER BY seq", log.id):  # noqa: S608
            self.stored.setdefault(row["seq"], []).append(tuple(row))
            found.rows += 1
        row = await connection.fetchrow(
            """SELECT least(f.allocations_seq, d.next_seq - 1) AS upto, f.allocations_seq, f.allocations_hash FROM followed f
               JOIN pools d ON d.id = f.pool WHERE f.pool = $1""",
            log.id,
        )
        if row is not None:
            self.upto, self.digest = row["upto"], row["allocations_hash"] if row["allocations_seq"] == row["upto"] else ""
        for table in FOLDED:
            await connection.execute(f"CREATE TEMPORARY TABLE folded_{table} (LIKE {table} INCLUDING ALL)")
        rows = await connection.fetch(
            "SELECT from_seq, interval_us FROM usage_intervals WHERE pool = $1 ORDER BY from_seq DESC", log.id
        )
        self.intervals = [(row["from_seq"], row["interval_us"]) for row in rows]
        return self

    def note(self, record: Record, digest: str, found: Derived) -> None:
        """Folds the record, and compares the usage sample that is stored or due after it."""
        apply(self.state, record)
        if record.seq <= self.upto:
            self.held.at(self.state, record, stored=False)
            self.accounting.at(self.state, record, stored=False)
        if record.seq == self.upto and self.digest and self.digest != digest:
            found.say(f"followed: the allocations are stored up to a different record #{record.seq}")
        while self.intervals and self.intervals[-1][0] <= record.seq:
            interval = self.intervals.pop()[1]
            self._due = UsageSchedule(interval, self._looked // interval if self._looked >= 0 else -1)
        due = self._due is not None and self._due.at(self.state, record)
        stored = self.stored.pop(record.seq, None)
        if due or (stored is not None and self._due is None):
            self._looked = record.time
        if stored is not None and self._due is not None and not due:
            found.say(f"project_usage #{record.seq}: no sample was due there")
        elif stored is not None:
            self._compare_use(record, stored, found)
        elif due and record.seq <= self.upto:
            found.say(f"project_usage #{record.seq}: the sample is missing")

    async def write(self) -> None:
        """Writes the rows folded so far to temporary tables."""
        await self.held.write(self.log.connection, self.log.id)
        await self.accounting.write(self.log.connection, self.log.id)

    def end(self, found: Derived) -> None:
        """Reports stored samples that no record explains. Call after the last record."""
        for seq in self.stored:
            if seq <= self.upto:
                found.say(f"project_usage #{seq}: follows from no record")

    def _compare_use(self, record: Record, stored: list[Any], found: Derived) -> None:
        archived = {row[2]: row for row in stored}
        for expected in rows_of(self.state, self.log.id, record.seq, record.time):
            what = f"project_usage #{record.seq} {expected[2] or 'whole pool'}"
            row = archived.pop(expected[2], None)
            if row is None:
                found.say(f"{what}: is missing")
            else:
                found.differ(what, USAGE_COLUMNS, row, expected)
        for project in archived:
            found.say(f"project_usage #{record.seq} {project}: follows from no record")


def as_of(table: str, pool: int, upto: int) -> str:
    """Query for the rows of this archive table as of record `upto`."""
    columns = ", ".join(("pool", *FOLDED[table].key, *FOLDED[table].values, "from_seq", "from_at"))
    ended = ", ".join(f"CASE WHEN to_seq > {upto} THEN NULL ELSE {name} END AS {name}" for name in ("to_seq", "to_at"))
    return f"SELECT {columns}, {ended} FROM {table} WHERE pool = {pool} AND from_seq <= {upto}"  # noqa: S608 - our own names
