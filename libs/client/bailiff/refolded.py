"""Tables of an archive that follow from the pool as its records are folded: projects' use over time, and who held which GPUs."""

from dataclasses import dataclass, field
from typing import Any

from bailiff_bus.archive import ArchivedLog
from bailiff_bus.holds_rows import GPU_STATES, HOLDS, Held, Spans, Table
from bailiff_bus.usage_rows import USAGE_COLUMNS, Due, rows_of
from bailiff_core.fold import apply
from bailiff_core.model.pool import Pool
from bailiff_core.records import Record

from .compared import Derived

FOLDED = {table.name: Table(f"folded_{table.name}", table.key, table.values) for table in (HOLDS, GPU_STATES)}


@dataclass
class Refolded:
    """Compares them. upto: the newest record that is archived and that they are as of; beyond it nothing is missed.

    stored: looks at projects' use that were not come to yet, by record. stretches: since which record how often one was taken.
    """

    log: ArchivedLog
    upto: int = -1
    digest: str = ""
    pool: Pool = field(default_factory=Pool)
    held: Held = field(default_factory=lambda: Held(Spans(FOLDED["holds"]), Spans(FOLDED["gpu_states"])))
    stored: dict[int, list[Any]] = field(default_factory=dict)
    stretches: list[tuple[int, int]] = field(default_factory=list)
    _due: Due | None = None
    _looked: int = -1

    @classmethod
    async def load(cls, log: ArchivedLog, found: Derived) -> "Refolded | None":
        """What the archive has; None where its first records, and so the pool, are kept elsewhere."""
        if log.start.next_seq:
            return None
        self, ask = cls(log), log.connection
        columns = ", ".join(USAGE_COLUMNS)
        for row in await ask.fetch(f"SELECT {columns} FROM project_usage WHERE domain = $1 ORDER BY seq", log.id):  # noqa: S608
            self.stored.setdefault(row["seq"], []).append(tuple(row))
            found.rows += 1
        if await ask.fetchval("SELECT to_regclass('followed') IS NOT NULL"):  # of an archive that this release has opened
            row = await ask.fetchrow(
                """SELECT least(f.holds_seq, d.next_seq - 1) AS upto, f.holds_seq, f.holds_hash FROM followed f
                   JOIN domains d ON d.id = f.domain WHERE f.domain = $1""",
                log.id,
            )  # fmt: skip
            if row is not None:
                self.upto, self.digest = row["upto"], row["holds_hash"] if row["holds_seq"] == row["upto"] else ""
            for table in FOLDED:
                await ask.execute(f"CREATE TEMPORARY TABLE folded_{table} (LIKE {table} INCLUDING ALL)")
        if await ask.fetchval("SELECT to_regclass('usage_stretches') IS NOT NULL"):
            rows = await ask.fetch(
                "SELECT from_seq, stretch_us FROM usage_stretches WHERE domain = $1 ORDER BY from_seq DESC", log.id
            )
            self.stretches = [(row["from_seq"], row["stretch_us"]) for row in rows]
        return self

    def note(self, record: Record, digest: str, found: Derived) -> None:
        """Fold the record, and compare the look that was taken after it, or that should have been."""
        apply(self.pool, record)
        if record.seq <= self.upto:
            self.held.at(self.pool, record, stored=False)
        if record.seq == self.upto and self.digest and self.digest != digest:
            found.say(f"followed: it says that who holds what is noted up to another record #{record.seq}")
        while self.stretches and self.stretches[-1][0] <= record.seq:
            stretch = self.stretches.pop()[1]
            self._due = Due(stretch, self._looked // stretch if self._looked >= 0 else -1)
        due = self._due is not None and self._due.at(self.pool, record)
        stored = self.stored.pop(record.seq, None)
        if due or (stored is not None and self._due is None):
            self._looked = record.time
        if stored is not None and self._due is not None and not due:
            found.say(f"project_usage #{record.seq}: no look was due there")
        elif stored is not None:
            self._compare_use(record, stored, found)
        elif due and record.seq <= self.upto:
            found.say(f"project_usage #{record.seq}: the whole moment is missing")

    async def write(self) -> None:
        """What was folded so far goes into tables beside the archive's."""
        await self.held.write(self.log.connection, self.log.id)

    def end(self, found: Derived) -> None:
        """All records are folded."""
        for seq in self.stored:
            if seq <= self.upto:
                found.say(f"project_usage #{seq}: follows from no record")

    def _compare_use(self, record: Record, stored: list[Any], found: Derived) -> None:
        there = {row[2]: row for row in stored}
        for expected in rows_of(self.pool, self.log.id, record.seq, record.time):
            what = f"project_usage #{record.seq} {expected[2] or 'whole pool'}"
            row = there.pop(expected[2], None)
            if row is None:
                found.say(f"{what}: is missing")
            else:
                found.differ(what, USAGE_COLUMNS, row, expected)
        for project in there:
            found.say(f"project_usage #{record.seq} {project}: follows from no record")


def as_of(table: str, domain: int, upto: int) -> str:
    """The archive's rows of this table as they were after this record."""
    columns = ", ".join(("domain", *FOLDED[table].key, *FOLDED[table].values, "from_seq", "from_at"))
    ended = ", ".join(f"CASE WHEN to_seq > {upto} THEN NULL ELSE {name} END AS {name}" for name in ("to_seq", "to_at"))
    return f"SELECT {columns}, {ended} FROM {table} WHERE domain = {domain} AND from_seq <= {upto}"  # noqa: S608 - our own names
