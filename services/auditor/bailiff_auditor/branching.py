"""Going on after a loss of the log that an operator accepted: what the archive has beyond it is set aside, never deleted.

Bytes, orphans and seals of the lost records move into tables of their own; the people's tables are folded anew from the
records that the log still has.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from asyncpg import Connection

from bailiff_bus.archive import PAGE, archived_log
from bailiff_bus.people import TABLES, UPSERTS, People
from bailiff_bus.walk import Walk
from bailiff_core.records import ChainHead

from .keeper import Position, tree_at

StandsAt = Callable[[int, str], Awaitable[bool]]
"""Whether the log holds, at this offset, the record with this hash."""


@dataclass(frozen=True, slots=True)
class Order:
    """reason, by: of whoever said that the archive may go on."""

    reason: str
    by: str


async def ordered(connection: Connection, position: Position) -> Order | None:
    """The order to set aside what is archived up to this very head, if there is one."""
    row = await connection.fetchrow(
        "SELECT reason, ordered_by FROM branch_orders WHERE domain = $1 AND head_seq = $2 AND head_hash = $3",
        position.id, position.head.next_seq - 1, position.head.hash,
    )  # fmt: skip
    return Order(row["reason"], row["ordered_by"]) if row is not None else None


async def first_lost(connection: Connection, position: Position, stands_at: StandsAt) -> int | None:
    """The first archived record that the log has no more. None where nothing of the archive is in the log."""
    begin = await connection.fetchval("SELECT first_seq FROM domains WHERE id = $1", position.id)
    low, high = begin - 1, position.head.next_seq - 1  # `high` is lost; all up to `low` are there
    while high - low > 1:
        middle = (low + high) // 2
        row = await connection.fetchrow('SELECT "offset", hash FROM records WHERE domain = $1 AND seq = $2', position.id, middle)
        if await stands_at(row["offset"], row["hash"].hex()):
            low = middle
        else:
            high = middle
    return high if high > begin else None


async def set_aside(connection: Connection, position: Position, from_seq: int, order: Order) -> int:
    """Move what is archived from this record on out of the way, all of it or nothing. Returns the branch's number."""
    domain = position.id
    async with connection.transaction():
        branch: int = await connection.fetchval("SELECT coalesce(max(branch), 0) + 1 FROM branches WHERE domain = $1", domain)
        await connection.execute(
            """INSERT INTO branches (domain, branch, from_seq, head_seq, head_hash, reason, ordered_by)
               VALUES ($1, $2, $3, $4, $5, $6, $7)""",
            domain, branch, from_seq, position.head.next_seq - 1, position.head.hash, order.reason, order.by,
        )  # fmt: skip
        offset = await connection.fetchval('SELECT "offset" FROM records WHERE domain = $1 AND seq = $2', domain, from_seq - 1)
        beyond = {"orphans": ('"offset" >', offset), "records": ("seq >=", from_seq), "seals": ("size >", from_seq)}
        for table, (where, than) in beyond.items():
            copied = f"INSERT INTO branch_{table} SELECT *, $2 FROM {table} WHERE domain = $1 AND {where} $3"  # noqa: S608
            await connection.execute(copied, domain, branch, than)
            await connection.execute(f"DELETE FROM {table} WHERE domain = $1 AND {where} $2", domain, than)  # noqa: S608
        await connection.execute("DELETE FROM project_usage WHERE domain = $1 AND seq >= $2", domain, from_seq)
        await connection.execute("DELETE FROM usage_stretches WHERE domain = $1 AND from_seq > $2", domain, from_seq)
        head = await _fold_anew(connection, position)
        tree = await tree_at(connection, domain, from_seq)
        await connection.execute(
            """UPDATE domains SET next_seq = $2, next_offset = $3, head_offset = $4, head_hash = $5, head_time = $6, epoch = $7,
               peaks = $8, broken = '', broken_since = NULL WHERE id = $1""",
            domain, from_seq, offset + 1, offset, head.hash, head.time, head.epoch, b"".join(tree.peaks),
        )  # fmt: skip
    return branch


async def _fold_anew(connection: Connection, position: Position) -> ChainHead:
    """The people's rows from the records that are left; of a pruned archive those of jobs that it has whole."""
    log = await archived_log(connection, position.head.domain)
    first, people, walk = log.start.next_seq, People(position.id), Walk(log.domain)
    walk.resume(log.start, "", -1, ())
    await people.load_from(connection, first)
    for table in TABLES:
        of_jobs = table != "nodes"
        if of_jobs or not first:
            scope = " AND submitted_seq >= $2" if of_jobs else " AND $2 = 0"
            await connection.execute(f"DELETE FROM {table} WHERE domain = $1{scope}", position.id, first)  # noqa: S608
    noted = 0
    async for message in log.messages(first):
        record = walk.read(message)
        if record is None:
            continue
        people.note(record)
        noted += 1
        if noted % PAGE == 0:
            await _put(connection, people)
    await _put(connection, people)
    return walk.head


async def _put(connection: Connection, people: People) -> None:
    for table, rows in people.take().items():
        await connection.execute(UPSERTS[table], rows)
