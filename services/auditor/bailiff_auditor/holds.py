"""Who stands on which GPUs, and how these are, over time: noted in the fold that `usage` makes, with the position behind it."""

from dataclasses import dataclass, field

from asyncpg import Connection

from bailiff_bus.holds_rows import Held
from bailiff_bus.log import Entry
from bailiff_core.model.pool import Pool


class AnotherLog(Exception):
    """The log lost records that were stored, and has gone on as another one."""


@dataclass
class Holds:
    """Both tables of one domain. after, after_hash: the newest record that is stored. seq, hash: the newest that was folded."""

    domain: int
    after: int
    after_hash: str = ""
    seq: int = -1
    hash: str = ""
    of_another_log: bool = False
    held: Held = field(default_factory=Held)

    @classmethod
    async def load(cls, connection: Connection, domain: int) -> "Holds":
        """Where the database stands."""
        found = await connection.fetchrow("SELECT holds_seq, holds_hash FROM followed WHERE domain = $1", domain)
        return cls(domain, -1) if found is None else cls(domain, found["holds_seq"], found["holds_hash"])

    def at(self, pool: Pool, entry: Entry) -> None:
        """The pool is as after this record."""
        record = entry.record
        self.seq, self.hash = record.seq, entry.hash
        if record.seq == self.after and entry.hash != self.after_hash:
            self.of_another_log = True
        self.held.at(pool, record, stored=record.seq <= self.after)

    async def write(self, connection: Connection) -> None:
        """What is due, with the position, in a transaction of its own. Raises `AnotherLog`, and then nothing is stored."""
        if self.of_another_log:
            await self.forget(connection)
        if self.seq <= self.after:
            return
        seq, digest = self.seq, self.hash
        async with connection.transaction():
            await self.held.write(connection, self.domain)
            await connection.execute(
                """INSERT INTO followed (domain, holds_seq, holds_hash) VALUES ($1, $2, $3)
                   ON CONFLICT (domain) DO UPDATE SET holds_seq = excluded.holds_seq, holds_hash = excluded.holds_hash""",
                self.domain, seq, digest,
            )  # fmt: skip
        self.after, self.after_hash = seq, digest

    async def forget(self, connection: Connection) -> None:
        """Drop all that is stored: the log is not the one any more that it is of. Raises `AnotherLog`."""
        async with connection.transaction():
            await connection.execute("DELETE FROM holds WHERE domain = $1", self.domain)
            await connection.execute("DELETE FROM gpu_states WHERE domain = $1", self.domain)
            await connection.execute("UPDATE followed SET holds_seq = -1, holds_hash = '' WHERE domain = $1", self.domain)
        raise AnotherLog(f"who holds what was noted up to #{self.after} of a log that is not this one: noting it anew")
