"""Orders the auditor to move archived records that the log has lost to a fork."""

from typing import TypedDict

from bailiff.client.errors import ClientError, ExitCode
from bailiff_log.archive import ArchiveError, connected, pick_pool


class Ordered(TypedDict):
    """head_seq, head_hash: the head of the archive that the request refers to. broken: the break that the auditor found."""

    pool: str
    head_seq: int
    head_hash: str
    broken: str


async def order(address: str, pool: str | None, reason: str, by: str) -> Ordered:
    """Orders the move of records that the log lacks to a fork. Raises `ClientError` if the auditor found none."""
    try:
        async with connected(address) as connection:
            row = await pick_pool(connection, pool)
            if await connection.fetchval("SELECT to_regclass('fork_orders') IS NULL"):
                raise ArchiveError("its tables are of an earlier release: start the auditor of this release once")
            if not row["broken"]:
                text = f"{row['name']}: the auditor has not found archived records that the log lacks"
                raise ClientError(ExitCode.USAGE, text, "check that the auditor is running; it raises the alarm archive-log-lost")
            await connection.execute(
                """INSERT INTO fork_orders (pool, head_seq, head_hash, reason, ordered_by) VALUES ($1, $2, $3, $4, $5)
                   ON CONFLICT (pool, head_seq, head_hash) DO UPDATE SET reason = excluded.reason""",
                row["id"], row["next_seq"] - 1, row["head_hash"], reason, by,
            )  # fmt: skip
            return {
                "pool": row["name"], "head_seq": row["next_seq"] - 1, "head_hash": row["head_hash"], "broken": row["broken"]
            }  # fmt: skip
    except ArchiveError as error:
        raise ClientError(ExitCode.UNREACHABLE, f"the archive: {error}") from None
