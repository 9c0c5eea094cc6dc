"""Ordering the auditor to set aside what the log has lost."""

from typing import TypedDict

from bailiff_bus.archive import NotInArchive, connected, pick_domain

from .problem import ExitCode, Problem


class Ordered(TypedDict):
    """head_seq, head_hash: what the archive ends with, which the order is about. broken: what the auditor found."""

    domain: str
    head_seq: int
    head_hash: str
    broken: str


async def order(address: str, domain: str | None, reason: str, by: str) -> Ordered:
    """Say that the archive may set aside what it has beyond the log. Raises `Problem` where the log has all of it."""
    try:
        async with connected(address) as connection:
            row = await pick_domain(connection, domain)
            if await connection.fetchval("SELECT to_regclass('branch_orders') IS NULL"):
                raise NotInArchive("its tables are of an earlier release: start the auditor of this release once")
            if not row["broken"]:
                text = f"{row['name']}: the auditor has not found that the log lacks anything of this archive"
                raise Problem(ExitCode.USAGE, text, "is it running? its alarm is archive-log-lost")
            await connection.execute(
                """INSERT INTO branch_orders (domain, head_seq, head_hash, reason, ordered_by) VALUES ($1, $2, $3, $4, $5)
                   ON CONFLICT (domain, head_seq, head_hash) DO UPDATE SET reason = excluded.reason""",
                row["id"], row["next_seq"] - 1, row["head_hash"], reason, by,
            )  # fmt: skip
            return {
                "domain": row["name"], "head_seq": row["next_seq"] - 1, "head_hash": row["head_hash"], "broken": row["broken"]
            }  # fmt: skip
    except NotInArchive as error:
        raise Problem(ExitCode.UNREACHABLE, f"the archive: {error}") from None
