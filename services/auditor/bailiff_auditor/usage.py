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
from bailiff_bus.view import DomainView
from bailiff_core.model.amounts import UNLIMITED
from bailiff_core.model.pool import Pool
from bailiff_core.queue.order import shares_now
from bailiff_core.records.wire import EPOCH_START, MICROSECOND
from bailiff_core.scene import scene_of

from .holds import Holds

WAIT = 1.0
INSERT = """INSERT INTO project_usage (domain, seq, project, time, used_gpu_milli, fixed_gpu_milli, requested_gpu_milli,
    quota_gpu_milli, limit_gpu_milli, share_gpu_milli, used_cpu_milli, used_memory_bytes)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING"""


@dataclass
class Looks:
    """Takes the looks that are due. stretch: µs of log time; after: the newest seq that is stored; last: its stretch."""

    domain: int
    stretch: int
    after: int = -1
    last: int = -1
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    def at(self, pool: Pool, entry: Entry) -> None:
        """Look at the pool after this record, if a look is due."""
        record = entry.record
        now = record.time // self.stretch
        if record.seq <= self.after or not record.turn_end or now <= self.last or pool.policy is None:
            return
        self.last = now
        self.rows += rows_of(pool, self.domain, record.seq, record.time)


def rows_of(pool: Pool, domain: int, seq: int, time: int) -> list[tuple[Any, ...]]:
    """One row for each project, and one for the whole pool."""
    scene = scene_of(pool)
    usage, shares = scene.usage, shares_now(scene)
    at = EPOCH_START + time * MICROSECOND
    rows = []
    for name, branch in usage.tree.branches.items():
        used, share = usage.allocated(name), shares.get(name)
        rows.append((
            domain, seq, name, at, int(used.gpu_milli), int(usage.non_preemptible(name).gpu_milli),
            int(usage.requested(name).gpu_milli), _bound(branch.quota.gpu_milli), _bound(branch.limit.gpu_milli),
            int(share.gpu_milli) if share is not None else 0, int(used.cpu_milli), int(used.memory_bytes),
        ))  # fmt: skip
    return rows


def _bound(amount: Any) -> int | None:
    return None if amount == UNLIMITED else int(amount)


async def follow_usage(
    bus: Bus, pool: PoolDeclaration, domain: int, connection: Connection, stretch: int, snapshots: Path
) -> None:
    """For ever, who holds what with it. Raises `StateDiverged` where the log's own digests say that this fold is wrong."""
    newest = await connection.fetchrow("SELECT seq, time FROM project_usage WHERE domain = $1 ORDER BY seq DESC LIMIT 1", domain)
    looks = Looks(domain, stretch)
    if newest is not None:
        looks.after = newest["seq"]
        looks.last = (newest["time"] - EPOCH_START) // MICROSECOND // stretch
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
        holds.begin(view.pool)
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
