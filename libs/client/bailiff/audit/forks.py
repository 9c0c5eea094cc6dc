"""Orders the auditor to move archived records that the log has lost to a fork."""

from typing import TypedDict

from bailiff.client.errors import UsageError
from bailiff_log.archive import connected, pick_pool


class Ordered(TypedDict):
    """A request to look for a fork.

    Attributes:
        head_seq: The last record of the archive that the request refers to.
        head_hash: Its hash.
        broken: The break of the chain that the auditor found.
    """

    pool: str
    head_seq: int
    head_hash: str
    broken: str


async def order(address: str, pool: str | None, reason: str, by: str) -> Ordered:
    """Orders the move of records that the log lacks to a fork.

    Raises:
        ClientError: The auditor found no records that the log lacks.
    """
    async with connected(address) as connection:
        row = await pick_pool(connection, pool)
        if not row["broken"]:
            text = f"{row['name']}: the auditor has not found archived records that the log lacks"
            raise UsageError(text, "check that the auditor is running; it raises the alarm archive-log-lost")
        await connection.execute(
            """INSERT INTO fork_orders (pool, head_seq, head_hash, reason, ordered_by) VALUES ($1, $2, $3, $4, $5)
               ON CONFLICT (pool, head_seq, head_hash) DO UPDATE SET reason = excluded.reason""",
            row["id"],
            row["next_seq"] - 1,
            row["head_hash"],
            reason,
            by,
        )
        return {"pool": row["name"], "head_seq": row["next_seq"] - 1, "head_hash": row["head_hash"], "broken": row["broken"]}
