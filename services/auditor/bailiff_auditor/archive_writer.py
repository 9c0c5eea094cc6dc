"""Writes one pool's records to the archive together with the position after them, in one transaction.

The position is updated by compare-and-set, so that two concurrent writers cannot both succeed.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from asyncpg import Connection

from bailiff_bus.port import Message
from bailiff_core.records import ChainHead
from bailiff_core.records.merkle import Frontier, leaf_hash
from bailiff_log.archive import pack_headers, tree_from, without_nul
from bailiff_log.archive_rows import COPY_BEGIN, COPY_END, RECORD_COLUMNS
from bailiff_log.read_model import UPSERTS
from bailiff_service.settings import PoolDeclaration

ORPHAN_COLUMNS = ("pool", "offset", "appended_at", "kind", "reason", "hash", "key", "headers", "value")


class PositionMoved(Exception):
    """Another process has updated the position: read it again."""


@dataclass(slots=True)
class Position:
    """The archived position of a pool. head_offset: of the last record; next_offset: of the next message."""

    id: int
    head: ChainHead
    identity: str
    head_offset: int
    next_offset: int
    tree: Frontier
    broken: str


@dataclass(slots=True)
class Batch:
    """Verified messages that are not written yet. before, after: positions; records: rows of binary COPY."""

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
    """The archived position of this pool; a new archive starts at 0."""
    await connection.execute(
        "INSERT INTO pools (name, partition) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", pool.name, pool.partition
    )
    row = await connection.fetchrow("SELECT * FROM pools WHERE name = $1", pool.name)
    assert row is not None
    head = ChainHead.from_data(
        {
            "pool": pool.name,
            "next_seq": row["next_seq"],
            "hash": row["head_hash"],
            "epoch": row["epoch"],
            "time": row["head_time"],
            **json.loads(row["head_keys"]),
        }
    )
    tree = tree_from(row["next_seq"], row["peaks"])
    return Position(row["id"], head, row["identity"], row["head_offset"], row["next_offset"], tree, row["broken"])


def head_keys_text(head: ChainHead) -> str:
    """What a head says about signatures, as stored."""
    return json.dumps({name: value for name, value in asdict(head).items() if name in ("next_content", "keys")})


async def tree_at(connection: Connection, pool: int, size: int) -> Frontier:
    """The Merkle tree over the first `size` archived records."""
    row = await connection.fetchrow(
        "SELECT size, peaks FROM seals WHERE pool = $1 AND size <= $2 ORDER BY size DESC LIMIT 1", pool, size
    )
    tree = tree_from(row["size"], row["peaks"]) if row is not None else Frontier()
    tree.extend(await leaves(connection, pool, tree.size, size))
    return tree


async def leaves(connection: Connection, pool: int, begin: int, end: int) -> list[bytes]:
    """Merkle leaf hashes of the archived records from `begin` up to, not including, `end`."""
    rows = await connection.fetch(
        "SELECT hash FROM records WHERE pool = $1 AND seq >= $2 AND seq < $3 ORDER BY seq", pool, begin, end
    )
    return [leaf_hash(row["hash"]) for row in rows]


async def hash_of(connection: Connection, pool: int, seq: int) -> str:
    """The hash of this archived record, in hex."""
    found: bytes = await connection.fetchval("SELECT hash FROM records WHERE pool = $1 AND seq = $2", pool, seq)
    return found.hex()


def orphan_row(pool: int, message: Message, kind: str, reason: str, digest: str) -> tuple[Any, ...]:
    """The orphan's values in the order of `ORPHAN_COLUMNS`."""
    return (
        pool,
        message.offset,
        message.time,
        kind,
        without_nul(reason),
        digest,
        message.key,
        pack_headers(message.headers),
        message.value,
    )


async def write(connection: Connection, batch: Batch, read_model: Mapping[str, str]) -> None:
    """Write the batch, the read model's rows and the position, or nothing. Raises `PositionMoved`."""
    before, after = batch.before, batch.after
    async with connection.transaction():
        updated = await connection.execute(
            """UPDATE pools SET next_seq = $4, next_offset = $5, head_offset = $6, head_hash = $7, head_time = $8,
               epoch = $9, peaks = $10, identity = $11, head_keys = $12, broken = '', broken_since = NULL, written_at = now()
               WHERE id = $1 AND next_seq = $2 AND next_offset = $3""",
            before.id,
            before.head.next_seq,
            before.next_offset,
            after.head.next_seq,
            after.next_offset,
            after.head_offset,
            after.head.hash,
            after.head.time,
            after.head.epoch,
            b"".join(after.tree.peaks),
            after.identity,
            head_keys_text(after.head),
        )
        if updated != "UPDATE 1":
            raise PositionMoved(f"{before.head.pool}: another process has archived past record {before.head.next_seq}")
        if batch.records:
            raw = memoryview(b"".join([COPY_BEGIN, *batch.records, COPY_END]))  # asyncpg takes bytes for a path
            await connection.copy_to_table("records", source=raw, columns=RECORD_COLUMNS, format="binary")
        if batch.orphans:
            await connection.copy_records_to_table("orphans", records=batch.orphans, columns=ORPHAN_COLUMNS)
        for table, rows in read_model.items():
            await connection.execute(UPSERTS[table], rows)


async def mark_broken(connection: Connection, pool: int, why: str) -> None:
    """Store why archiving stopped at the position."""
    await connection.execute(
        "UPDATE pools SET broken = $2, broken_since = coalesce(broken_since, $3) WHERE id = $1 AND broken <> $2",
        pool,
        without_nul(why),
        datetime.now(UTC),
    )
