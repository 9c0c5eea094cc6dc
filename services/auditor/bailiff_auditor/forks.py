"""Forks: after an accepted truncation of the log, archived records beyond it are moved to a fork, never deleted.

Records, orphans and seals move to fork tables; the read model is rebuilt from the remaining records.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from asyncpg import Connection

from bailiff_core.records import ChainHead
from bailiff_log.archive import PAGE, archived_log
from bailiff_log.chain_verifier import ChainVerifier
from bailiff_log.read_model import TABLES, UPSERTS, ReadModel

from .archive_writer import Position, head_keys_text, tree_at

IsAt = Callable[[int, str], Awaitable[bool]]
"""Whether the log has the record with this hash at this offset."""


@dataclass(frozen=True, slots=True)
class ForkOrder:
    """An operator's order to fork the archive."""

    reason: str
    by: str


async def find_fork_order(connection: Connection, position: Position) -> ForkOrder | None:
    """The order to fork the archive at this head, if there is one."""
    row = await connection.fetchrow(
        "SELECT reason, ordered_by FROM fork_orders WHERE pool = $1 AND head_seq = $2 AND head_hash = $3",
        position.id,
        position.head.next_seq - 1,
        position.head.hash,
    )
    return ForkOrder(row["reason"], row["ordered_by"]) if row is not None else None


async def first_lost(connection: Connection, position: Position, is_at: IsAt) -> int | None:
    """The first archived record that the log lost; None if no archived record is in the log."""
    begin = await connection.fetchval("SELECT first_seq FROM pools WHERE id = $1", position.id)
    low, high = begin - 1, position.head.next_seq - 1  # invariant: `high` is lost; all up to `low` are in the log
    while high - low > 1:
        middle = (low + high) // 2
        row = await connection.fetchrow('SELECT "offset", hash FROM records WHERE pool = $1 AND seq = $2', position.id, middle)
        if await is_at(row["offset"], row["hash"].hex()):
            low = middle
        else:
            high = middle
    return high if high > begin else None


async def move_to_fork(connection: Connection, position: Position, from_seq: int, order: ForkOrder) -> int:
    """Move the archived records from `from_seq` on to a new fork, atomically. Returns the fork's number."""
    pool = position.id
    async with connection.transaction():
        fork: int = await connection.fetchval("SELECT coalesce(max(fork), 0) + 1 FROM forks WHERE pool = $1", pool)
        await connection.execute(
            """INSERT INTO forks (pool, fork, from_seq, head_seq, head_hash, reason, ordered_by)
               VALUES ($1, $2, $3, $4, $5, $6, $7)""",
            pool,
            fork,
            from_seq,
            position.head.next_seq - 1,
            position.head.hash,
            order.reason,
            order.by,
        )
        offset = await connection.fetchval('SELECT "offset" FROM records WHERE pool = $1 AND seq = $2', pool, from_seq - 1)
        conditions = {"orphans": ('"offset" >', offset), "records": ("seq >=", from_seq), "seals": ("size >", from_seq)}
        for table, (where, bound) in conditions.items():
            copied = f"INSERT INTO fork_{table} SELECT *, $2 FROM {table} WHERE pool = $1 AND {where} $3"  # noqa: S608
            await connection.execute(copied, pool, fork, bound)
            await connection.execute(f"DELETE FROM {table} WHERE pool = $1 AND {where} $2", pool, bound)  # noqa: S608
        await connection.execute("DELETE FROM project_usage WHERE pool = $1 AND seq >= $2", pool, from_seq)
        await connection.execute("DELETE FROM proposal_checks WHERE pool = $1 AND seq >= $2", pool, from_seq)
        await connection.execute("DELETE FROM request_checks WHERE pool = $1 AND seq >= $2", pool, from_seq)
        await connection.execute("DELETE FROM usage_intervals WHERE pool = $1 AND from_seq > $2", pool, from_seq)
        head = await _rebuild_read_model(connection, position)
        tree = await tree_at(connection, pool, from_seq)
        await connection.execute(
            """UPDATE pools SET next_seq = $2, next_offset = $3, head_offset = $4, head_hash = $5, head_time = $6, epoch = $7,
               peaks = $8, head_keys = $9, broken = '', broken_since = NULL WHERE id = $1""",
            pool,
            from_seq,
            offset + 1,
            offset,
            head.hash,
            head.time,
            head.epoch,
            b"".join(tree.peaks),
            head_keys_text(head),
        )
    return fork


async def _rebuild_read_model(connection: Connection, position: Position) -> ChainHead:
    """Rebuild the read model from the remaining records. In a pruned archive: of jobs whose records are all archived."""
    log = await archived_log(connection, position.head.pool)
    first, model, verifier = log.start.next_seq, ReadModel(position.id), ChainVerifier(log.pool)
    verifier.resume(log.start, "", -1, ())
    await model.load_from(connection, first)
    for table in TABLES:
        of_jobs = table != "nodes"
        if of_jobs or not first:
            scope = " AND submitted_seq >= $2" if of_jobs else " AND $2 = 0"
            await connection.execute(f"DELETE FROM {table} WHERE pool = $1{scope}", position.id, first)  # noqa: S608
    read = 0
    async for message in log.messages(first):
        record = verifier.read(message)
        if record is None:
            continue
        model.note(record)
        read += 1
        if read % PAGE == 0:
            await _upsert(connection, model)
    await _upsert(connection, model)
    return verifier.head


async def _upsert(connection: Connection, model: ReadModel) -> None:
    for table, rows in model.take().items():
        await connection.execute(UPSERTS[table], rows)
