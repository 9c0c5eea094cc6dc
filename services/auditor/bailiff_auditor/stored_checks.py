"""Results of one kind of check in one pool, and the table that stores them."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from asyncpg import Connection

from bailiff_service.metrics import Metrics

from .alarms import Alarms


@dataclass
class StoredChecks:
    """The checks of one pool. after: the newest record that is checked and stored. rows: results that are not written yet."""

    TABLE: ClassVar[str]
    INSERT: ClassVar[str]

    pool: str
    pool_id: int
    alarms: Alarms
    metrics: Metrics
    after: int = -1
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    @classmethod
    async def load(cls, connection: Connection, pool: str, pool_id: int, alarms: Alarms, metrics: Metrics) -> Self:
        """Continue after the stored checks."""
        newest = await connection.fetchval(f"SELECT max(seq) FROM {cls.TABLE} WHERE pool = $1", pool_id)  # noqa: S608 - our own names
        return cls(pool, pool_id, alarms, metrics, -1 if newest is None else newest)

    async def write(self, connection: Connection) -> None:
        """Write new results."""
        if self.rows:
            rows, self.rows = self.rows, []
            await connection.executemany(self.INSERT, rows)

    async def delete_all(self, connection: Connection) -> None:
        """Delete the stored results, because they are of another log."""
        await connection.execute(f"DELETE FROM {self.TABLE} WHERE pool = $1", self.pool_id)  # noqa: S608 - our own names
