"""Compares the derived tables of an archive with tables re-derived from its records."""

import json
from collections.abc import Sequence

from bailiff_core.records.wire import UnreadableRecord
from bailiff_log.archive import PAGE, ArchivedLog, archived_log, connected
from bailiff_log.archive_rows import RECORD_COLUMNS, record_row
from bailiff_log.chain_verifier import ChainVerifier
from bailiff_log.read_model import TABLES, ReadModel

from .rederive import FOLDED, RederivedTables, as_of
from .row_diff import SHOWN, Derived

COLUMNS = ", ".join(f'"{name}"' for name in RECORD_COLUMNS)


async def derived(address: str, pool: str | None) -> Derived:
    """Folds the archive's records and compares every derived table. Changes nothing. Raises `ArchiveError`."""
    async with connected(address) as connection:
        transaction = connection.transaction(isolation="repeatable_read")
        await transaction.start()
        try:
            log = await archived_log(connection, pool)
            found = Derived()
            rederived = await _fold(log, found)
            for table in TABLES:
                await _compare_read_model(log, table, found)
            if rederived is not None:
                for table, shape in FOLDED.items():
                    there, key = as_of(table, log.id, rederived.upto), ("pool", *shape.key, "from_seq")
                    await _compare(log, table, key, there, f"SELECT * FROM {shape.name}", found)  # noqa: S608 - our names
            return found
        finally:
            await transaction.rollback()  # also drops the temporary tables


async def _fold(log: ArchivedLog, found: Derived) -> RederivedTables | None:
    """Reads every record once: compares its columns, and writes the rows of derived tables to temporary tables."""
    model, verifier = ReadModel(log.id), ChainVerifier(log.pool)
    verifier.resume(log.start, "", -1, ())
    for table in TABLES:
        await log.connection.execute(f"CREATE TEMPORARY TABLE folded_{table} (LIKE {table} INCLUDING ALL)")
    await model.load_from(log.connection, log.start.next_seq)
    if log.start.next_seq:
        found.unchecked = (
            f"jobs submitted before record {log.start.next_seq}, usage over time, and GPU allocations: their records are stored "
            "elsewhere"
        )
    rederived = await RederivedTables.load(log, found)
    seq = log.start.next_seq
    while True:
        rows = await log.connection.fetch(
            f"SELECT {COLUMNS} FROM records WHERE pool = $1 AND seq >= $2 ORDER BY seq LIMIT $3",  # noqa: S608 - our own names
            log.id,
            seq,
            PAGE,
        )
        for row in rows:
            try:
                record = verifier.read(log.message(row))
            except UnreadableRecord as error:
                found.differences.append(f"records: {error}")
                return None
            if record is None:
                found.differences.append(f"records: #{row['seq']} does not continue the chain; see: bailiff audit verify")
                return None
            expected = record_row(log.id, log.message(row), record, bytes.fromhex(verifier.head.hash))
            found.differ(f"records #{row['seq']}", RECORD_COLUMNS, tuple(row), expected)
            model.note(record)
            if rederived is not None:
                rederived.note(record, verifier.head.hash, found)
        for table, text in model.take().items():
            await log.connection.execute(TABLES[table].upsert(table, f"folded_{table}"), text)
        found.rows += len(rows)
        if rederived is not None:
            await rederived.write()
        if len(rows) < PAGE:
            break
        seq = rows[-1]["seq"] + 1
    if rederived is not None:
        rederived.end(found)
    return rederived


async def _compare_read_model(log: ArchivedLog, table: str, found: Derived) -> None:
    first, shape = log.start.next_seq, TABLES[table]
    scope = f"pool = {log.id}"
    if first and "submitted_seq" in (*shape.key, *shape.last, *shape.first):
        scope += f" AND submitted_seq >= {first}"
    there, folded = (f"SELECT * FROM {name} WHERE {scope}" for name in (table, f"folded_{table}"))  # noqa: S608 - our own names
    # node data from earlier records is unknown here
    await _compare(log, table, shape.key, there, folded, found, partly=bool(table == "nodes" and first))


async def _compare(
    log: ArchivedLog, table: str, key: Sequence[str], there: str, folded: str, found: Derived, *, partly: bool = False
) -> None:
    """Compares the rows of two queries. partly: only columns known from folded records count."""
    differ = "to_jsonb(a) IS DISTINCT FROM to_jsonb(f)"
    if partly:
        differ = "f.pool IS NOT NULL AND NOT coalesce(to_jsonb(a) @> jsonb_strip_nulls(to_jsonb(f)), false)"
    on = " AND ".join(f"a.{name} = f.{name}" for name in key)
    rows = await log.connection.fetch(
        f"SELECT to_jsonb(a) AS there, to_jsonb(f) AS folded FROM ({there}) a FULL JOIN ({folded}) f ON {on} "  # noqa: S608
        f"WHERE {differ} ORDER BY {', '.join(f'coalesce(a.{name}, f.{name})' for name in key)} LIMIT {SHOWN}"
    )
    found.rows += await log.connection.fetchval(f"SELECT count(*) FROM ({folded}) f")  # noqa: S608
    for row in rows:
        has, says = (json.loads(row[name]) if row[name] is not None else None for name in ("there", "folded"))
        known = has or says or {}
        what = f"{table} {' '.join(str(known[name]) for name in key[1:])}"
        if has is None:
            found.say(f"{what}: is missing")
        elif says is None:
            found.say(f"{what}: follows from no record")
        else:
            names = [name for name in says if says[name] is not None or not partly]
            found.differ(what, names, [has[name] for name in names], [says[name] for name in names])
