"""Projects' use against quota and fair share over time: the log folded once more, and looked at now and then.

A look belongs to the first turn that ends in each stretch of log time, so it is the same whoever takes it, and is stored
once however often it is taken. This reader keeps snapshots of its own; they serve these figures only.
"""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asyncpg import Connection

from bailiff_bus.log import Entry
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Bus
from bailiff_bus.settings import PoolDeclaration
from bailiff_bus.usage_rows import USAGE_COLUMNS, Due, rows_of
from bailiff_bus.view import DomainView
from bailiff_core.model.pool import Pool
from bailiff_core.records.wire import EPOCH_START, MICROSECOND

from .holds import Holds

WAIT = 1.0
PLACES = ", ".join(f"${number}" for number in range(1, len(USAGE_COLUMNS) + 1))
INSERT = f"INSERT INTO project_usage ({', '.join(USAGE_COLUMNS)}) VALUES ({PLACES}) ON CONFLICT DO NOTHING"  # noqa: S608 - our own names
STRETCH = """INSERT INTO usage_stretches (domain, from_seq, stretch_us) SELECT $1, $2, $3 WHERE $3 IS DISTINCT FROM
    (SELECT stretch_us FROM usage_stretches WHERE domain = $1 ORDER BY from_seq DESC LIMIT 1)
    ON CONFLICT (domain, from_seq) DO UPDATE SET stretch_us = excluded.stretch_us"""


@dataclass
class Looks:
    """Takes the looks that are due. after: the newest seq that is stored."""

    domain: int
    due: Due
    after: int = -1
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    def at(self, pool: Pool, entry: Entry) -> None:
        """Look at the pool after this record, if a look is due."""
        record = entry.record
        if record.seq > self.after and self.due.at(pool, record):
            self.rows += rows_of(pool, self.domain, record.seq, record.time)


async def follow_usage(
    bus: Bus, pool: PoolDeclaration, domain: int, connection: Connection, stretch: int, snapshots: Path
) -> None:
    """For ever, who holds what with it. Raises `StateDiverged` where the log's own digests say that this fold is wrong."""
    newest = await connection.fetchrow("SELECT seq, time FROM project_usage WHERE domain = $1 ORDER BY seq DESC LIMIT 1", domain)
    looks = Looks(domain, Due(stretch))
    if newest is not None:
        looks.after = newest["seq"]
        looks.due.last = (newest["time"] - EPOCH_START) // MICROSECOND // stretch
    await connection.execute(STRETCH, domain, looks.after + 1, stretch)
    holds = await Holds.load(connection, domain)

    def look(entry: Entry) -> None:
        looks.at(view.pool, entry)
        holds.at(view.pool, entry)

    async def write() -> None:
        if looks.rows:
            rows, looks.rows = looks.rows, []
            await connection.executemany(INSERT, rows)
        await holds.write(connection)

    def new_view() -> DomainView:
        return DomainView(bus, pool.name, pool.partition, Metrics(), snapshots=snapshots, observe=look)

    view = new_view()
    catching_up: asyncio.Task[None] | None = None
    try:
        await view.open()
        if view.pool.seq > holds.after:  # what changed before that snapshot is not all stored: fold from the start
            view = new_view()
        holds.held.begin(view.pool)
        catching_up = asyncio.create_task(view.catch_up())
        while not catching_up.done():
            await asyncio.wait([catching_up], timeout=WAIT)
            await write()
        catching_up.result()
        if view.pool.seq < holds.after:
            await holds.forget(connection)
        while True:
            await write()
            await view.advance(WAIT)
    finally:
        if catching_up is not None:
            catching_up.cancel()
            await asyncio.gather(catching_up, return_exceptions=True)
        await view.close()
