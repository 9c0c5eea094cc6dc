"""What is written to the database about one domain: records with the position behind them, in one transaction.

The position is only ever moved from where this process knows it to be, so that two that write by mistake cannot both.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from asyncpg import Connection

from bailiff_bus.archive import packed, tree_from, without_nul
from bailiff_bus.archive_rows import COPY_BEGIN, COPY_END, RECORD_COLUMNS
from bailiff_bus.people import UPSERTS
from bailiff_bus.port import Message
from bailiff_bus.settings import PoolDeclaration
from bailiff_core.records import ChainHead
from bailiff_core.records.merkle import Frontier, leaf_hash

ORPHAN_COLUMNS = ("domain", "offset", "appended_at", "kind", "reason", "hash", "key", "headers", "value")


class NotOurs(Exception):
    """Another process has moved the position: this one must read it anew."""


@dataclass(slots=True)
class Position:
    """How far a domain was archived. head_offset: of the last record; next_offset: where reading goes on."""

    id: int
    head: ChainHead
    identity: str
    head_offset: int
    next_offset: int
    tree: Frontier
    broken: str
    seals_offset: int


@dataclass(slots=True)
class Batch:
    """What was read and judged, and is not written yet. before, after: the positions; records: rows of binary COPY."""

    before: Position
    after: Position = field(init=False)
    records: list[bytes] = field(default_factory=list)
    orphans: list[tuple[Any, ...]] = field(default_factory=list)
    leaves: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.after = self.before

    def __len__(self) -> int:
        return len(self.records) + len(self.orphans)


async def position_of(connection: Connection, pool: PoolDeclaration) -> Position:
    """Where the archive of this domain stands; a new one at its beginning."""
    await connection.execute(
        "INSERT INTO domains (name, partition) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", pool.name, pool.partition
    )
    row = await connection.fetchrow("SELECT * FROM domains WHERE name = $1", pool.name)
    assert row is not None
    head = ChainHead(pool.name, row["next_seq"], row["head_hash"], row["epoch"], row["head_time"])
    tree = tree_from(row["next_seq"], row["peaks"])
    return Position(
        row["id"], head, row["identity"], row["head_offset"], row["next_offset"], tree, row["broken"], row["seals_offset"]
    )


async def tree_at(connection: Connection, domain: int, size: int) -> Frontier:
    """The tree over the first `size` archived records."""
    row = await connection.fetchrow(
        "SELECT size, peaks FROM seals WHERE domain = $1 AND size <= $2 ORDER BY size DESC LIMIT 1", domain, size
    )
    tree = tree_from(row["size"], row["peaks"]) if row is not None else Frontier()
    tree.extend(await leaves(connection, domain, tree.size, size))
    return tree


async def leaves(connection: Connection, domain: int, begin: int, end: int) -> list[bytes]:
    """The leaves of these archived records."""
    rows = await connection.fetch(
        "SELECT hash FROM records WHERE domain = $1 AND seq >= $2 AND seq < $3 ORDER BY seq", domain, begin, end
    )
    return [leaf_hash(row["hash"]) for row in rows]


async def hash_of(connection: Connection, domain: int, seq: int) -> str:
    """The hash of this archived record, in hex."""
    found: bytes = await connection.fetchval("SELECT hash FROM records WHERE domain = $1 AND seq = $2", domain, seq)
    return found.hex()


def orphan_row(domain: int, message: Message, kind: str, reason: str, digest: str) -> tuple[Any, ...]:
    """An orphan's row, as `ORPHAN_COLUMNS` has it."""
    return (
        domain, message.offset, message.time, kind, without_nul(reason), digest, message.key, packed(message.headers),
        message.value,
    )  # fmt: skip


async def write(connection: Connection, batch: Batch, people: Mapping[str, str]) -> None:
    """All of the batch and the people's rows, with its position, or nothing. Raises `NotOurs`."""
    before, after = batch.before, batch.after
    async with connection.transaction():
        moved = await connection.execute(
            """UPDATE domains SET next_seq = $4, next_offset = $5, head_offset = $6, head_hash = $7, head_time = $8,
               epoch = $9, peaks = $10, identity = $11, broken = '', broken_since = NULL, written_at = now()
               WHERE id = $1 AND next_seq = $2 AND next_offset = $3""",
            before.id, before.head.next_seq, before.next_offset, after.head.next_seq, after.next_offset, after.head_offset,
            after.head.hash, after.head.time, after.head.epoch, b"".join(after.tree.peaks), after.identity,
        )  # fmt: skip
        if moved != "UPDATE 1":
            raise NotOurs(f"{before.head.domain}: another process has archived past record {before.head.next_seq}")
        if batch.records:
            raw = memoryview(b"".join([COPY_BEGIN, *batch.records, COPY_END]))  # asyncpg takes bytes for a path
            await connection.copy_to_table("records", source=raw, columns=RECORD_COLUMNS, format="binary")
        if batch.orphans:
            await connection.copy_records_to_table("orphans", records=batch.orphans, columns=ORPHAN_COLUMNS)
        for table, rows in people.items():
            await connection.execute(UPSERTS[table], rows)


async def mark_broken(connection: Connection, domain: int, why: str) -> None:
    """Say in the database that nothing beyond its position is archived, and why."""
    await connection.execute(
        "UPDATE domains SET broken = $2, broken_since = coalesce(broken_since, $3) WHERE id = $1 AND broken <> $2",
        domain, without_nul(why), datetime.now(UTC),
    )  # fmt: skip
