"""Do the people's tables of an archive say what its records say? The records are folded anew beside them, and compared."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bailiff_bus.archive import PAGE, ArchivedLog, NotInArchive, archived_log, connected
from bailiff_bus.archive_rows import RECORD_COLUMNS, record_row
from bailiff_bus.people import TABLES, People
from bailiff_bus.usage_rows import USAGE_COLUMNS, rows_of
from bailiff_bus.walk import Walk
from bailiff_core.fold import apply
from bailiff_core.model.pool import Pool
from bailiff_core.records import Record
from bailiff_core.records.wire import UnreadableRecord

from .problem import ExitCode, Problem

SHOWN = 20
COLUMNS = ", ".join(f'"{name}"' for name in RECORD_COLUMNS)


@dataclass
class Derived:
    """rows: how many were compared. differences: the first ones of each table, in words. unchecked: what was not compared."""

    rows: int = 0
    differences: list[str] = field(default_factory=list)
    unchecked: str = ""


async def derived(address: str, domain: str | None) -> Derived:
    """Fold the archive's records anew, and compare every table that follows from them. Changes nothing. Raises `Problem`."""
    try:
        async with connected(address) as connection:
            transaction = connection.transaction(isolation="repeatable_read")
            await transaction.start()
            try:
                log = await archived_log(connection, domain)
                found = Derived()
                await _fold(log, found)
                for table in TABLES:
                    await _compare(log, table, found)
                return found
            finally:
                await transaction.rollback()  # with the tables that were made to compare with
    except NotInArchive as error:
        raise Problem(ExitCode.UNREACHABLE, f"the archive: {error}") from None


async def _fold(log: ArchivedLog, found: Derived) -> None:
    """Read every record once: its columns are compared, people's rows go into tables beside the archive's."""
    people, walk, use = People(log.id), Walk(log.domain), _Use(log)
    walk.resume(log.start, "", -1, ())
    for table in TABLES:
        await log.connection.execute(f"CREATE TEMPORARY TABLE folded_{table} (LIKE {table} INCLUDING ALL)")
    if log.start.next_seq:
        rows = await log.connection.fetch("SELECT number, node FROM nodes WHERE domain = $1", log.id)
        people.nodes = {row["number"]: row["node"] for row in rows}
        found.unchecked = (
            f"jobs submitted before record {log.start.next_seq}, and use over time: their records are kept elsewhere"
        )
    await use.load(found)
    seq = log.start.next_seq
    while True:
        rows = await log.connection.fetch(
            f"SELECT {COLUMNS} FROM records WHERE domain = $1 AND seq >= $2 ORDER BY seq LIMIT $3",  # noqa: S608 - our own names
            log.id, seq, PAGE,
        )  # fmt: skip
        for row in rows:
            try:
                record = walk.read(log.message(row))
            except UnreadableRecord as error:
                found.differences.append(f"records: {error}")
                return
            if record is None:
                found.differences.append(f"records: #{row['seq']} does not continue the chain; see: bailiff audit verify")
                return
            expected = record_row(log.id, log.message(row), record, bytes.fromhex(walk.head.hash))
            _differ(found, f"records #{row['seq']}", RECORD_COLUMNS, tuple(row), expected)
            people.note(record)
            use.note(record, found)
        for table, text in people.take().items():
            await log.connection.execute(TABLES[table].upsert(table, f"folded_{table}"), text)
        found.rows += len(rows)
        if len(rows) < PAGE:
            return
        seq = rows[-1]["seq"] + 1


@dataclass
class _Use:
    """Compares the looks at projects' use with the pool as its records are folded."""

    log: ArchivedLog
    pool: Pool = field(default_factory=Pool)
    stored: dict[int, list[Any]] = field(default_factory=dict)

    async def load(self, found: Derived) -> None:
        """What the archive has."""
        if self.log.start.next_seq:
            return
        columns = ", ".join(USAGE_COLUMNS)
        for row in await self.log.connection.fetch(
            f"SELECT {columns} FROM project_usage WHERE domain = $1 AND seq < (SELECT next_seq FROM domains WHERE id = $1)",  # noqa: S608
            self.log.id,
        ):
            self.stored.setdefault(row["seq"], []).append(tuple(row))
            found.rows += 1

    def note(self, record: Record, found: Derived) -> None:
        """Fold the record, and compare the look that was taken after it."""
        if not self.stored:
            return
        apply(self.pool, record)
        stored = self.stored.pop(record.seq, None)
        if stored is None:
            return
        there = {row[2]: row for row in stored}
        for expected in rows_of(self.pool, self.log.id, record.seq, record.time):
            what = f"project_usage #{record.seq} {expected[2] or 'whole pool'}"
            row = there.pop(expected[2], None)
            if row is None:
                _say(found, f"{what}: is missing")
            else:
                _differ(found, what, USAGE_COLUMNS, row, expected)
        for project in there:
            _say(found, f"project_usage #{record.seq} {project}: follows from no record")


async def _compare(log: ArchivedLog, table: str, found: Derived) -> None:
    key = TABLES[table].key
    first = log.start.next_seq
    scope = f"domain = {log.id}" + (f" AND submitted_seq >= {first}" if "submitted_seq" in _columns(table) and first else "")
    differ = "to_jsonb(a) IS DISTINCT FROM to_jsonb(f)"
    if table == "nodes" and first:  # what the records before had said of a node is not known here
        differ = "f.domain IS NOT NULL AND NOT coalesce(to_jsonb(a) @> jsonb_strip_nulls(to_jsonb(f)), false)"
    on = " AND ".join(f"a.{name} = f.{name}" for name in key)
    rows = await log.connection.fetch(
        f"SELECT to_jsonb(a) AS there, to_jsonb(f) AS folded FROM (SELECT * FROM {table} WHERE {scope}) a "  # noqa: S608
        f"FULL JOIN (SELECT * FROM folded_{table} WHERE {scope}) f ON {on} WHERE {differ} "
        f"ORDER BY {', '.join(f'coalesce(a.{name}, f.{name})' for name in key)} LIMIT {SHOWN}"
    )
    found.rows += await log.connection.fetchval(f"SELECT count(*) FROM folded_{table}")  # noqa: S608
    for row in rows:
        there, folded = (json.loads(row[name]) if row[name] is not None else None for name in ("there", "folded"))
        known = there or folded or {}
        what = f"{table} {' '.join(str(known[name]) for name in key[1:])}"
        if there is None:
            _say(found, f"{what}: is missing")
        elif folded is None:
            _say(found, f"{what}: follows from no record")
        else:
            names = [name for name in folded if folded[name] is not None or not (table == "nodes" and first)]
            _differ(found, what, names, [there[name] for name in names], [folded[name] for name in names])


def _columns(table: str) -> tuple[str, ...]:
    shape = TABLES[table]
    return (*shape.key, *shape.last, *shape.first)


def _differ(found: Derived, what: str, names: Sequence[str], there: Sequence[Any], expected: Sequence[Any]) -> None:
    for name, has, says in zip(names, there, expected, strict=True):
        if has != says:
            _say(found, f"{what}: {name} is {_short(has)}, its records say {_short(says)}")


def _say(found: Derived, text: str) -> None:
    if len(found.differences) < SHOWN * 5:
        found.differences.append(text)


def _short(value: Any) -> str:
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
