"""Samples project usage against quota and fair share over time, and writes all that a second fold of the log gives.

A sample belongs to the first decision cycle that ends in each interval of log time, so every replica takes the same one, and
storing it is idempotent. This fold has its own snapshots.
"""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asyncpg import Connection

from bailiff_bus.port import Bus
from bailiff_core.model.state import PoolState
from bailiff_core.records.wire import EPOCH_START, MICROSECOND
from bailiff_log.projection import Projection
from bailiff_log.quota_usage_rows import USAGE_COLUMNS, USAGE_NAMES, UsageSchedule, rows_of
from bailiff_log.reader import Entry
from bailiff_service.metrics import Metrics
from bailiff_service.pool_ownership import IDLE_WAIT_S
from bailiff_service.settings import PoolDeclaration

from .alarms import Alarms
from .gpu_allocations import GpuAllocationWriter, LogReplaced
from .proposal_checks import ProposalChecks
from .request_checks import RequestChecks
from .state_follower import StateFollower
from .stored_snapshot import StoredSnapshot

WAIT = 1.0
PLACEHOLDERS = ", ".join(f"${number}" for number in range(1, len(USAGE_COLUMNS) + 1))
INSERT = f"INSERT INTO project_usage ({USAGE_NAMES}) VALUES ({PLACEHOLDERS}) ON CONFLICT DO NOTHING"  # noqa: S608 - our own names
INSERT_INTERVAL = """INSERT INTO usage_intervals (pool, from_seq, interval_us) SELECT $1, $2, $3 WHERE $3 IS DISTINCT FROM
    (SELECT interval_us FROM usage_intervals WHERE pool = $1 ORDER BY from_seq DESC LIMIT 1)
    ON CONFLICT (pool, from_seq) DO UPDATE SET interval_us = excluded.interval_us"""


@dataclass
class UsageSampler:
    """Takes due samples of project usage. after: seq of the newest stored sample."""

    pool_id: int
    due: UsageSchedule
    after: int = -1
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    def at(self, state: PoolState, entry: Entry) -> None:
        """Sample the state after this record if a sample is due."""
        record = entry.record
        if record.seq > self.after and self.due.at(state, record):
            self.rows += rows_of(state, self.pool_id, record.seq, record.time)


async def follow_usage(
    bus: Bus,
    pool: PoolDeclaration,
    pool_id: int,
    connection: Connection,
    interval: int,
    snapshots: Path,
    alarms: Alarms,
    metrics: Metrics,
) -> None:
    """Run forever; also stores GPU allocations, and checks proposals and requests.

    Raises `StateDiverged` if the log's digests contradict this fold, and `LogReplaced`.
    """
    newest = await connection.fetchrow("SELECT seq, time FROM project_usage WHERE pool = $1 ORDER BY seq DESC LIMIT 1", pool_id)
    sampler = UsageSampler(pool_id, UsageSchedule(interval))
    if newest is not None:
        sampler.after = newest["seq"]
        sampler.due.last = (newest["time"] - EPOCH_START) // MICROSECOND // interval
    await connection.execute(INSERT_INTERVAL, pool_id, sampler.after + 1, interval)
    allocation_writer = await GpuAllocationWriter.load(connection, pool_id)
    checks = await ProposalChecks.load(connection, pool.name, pool_id, alarms, metrics)
    requests = await RequestChecks.load(connection, pool.name, pool_id, alarms, metrics)
    stored_snapshot = await StoredSnapshot.load(connection, pool_id, snapshots / f"{pool.name}.snapshot")

    def on_entry(entry: Entry) -> None:
        sampler.at(view.state, entry)
        allocation_writer.at(view.state, entry)

    async def write() -> None:
        if sampler.rows:
            rows, sampler.rows = sampler.rows, []
            await connection.executemany(INSERT, rows)
        await checks.write(connection)
        await requests.write(connection)
        await stored_snapshot.write(connection, view.snapshot_seq)
        try:
            await allocation_writer.write(connection)
        except LogReplaced:
            await checks.delete_all(connection)
            await requests.delete_all(connection)
            raise

    def new_projection() -> Projection:
        own = Metrics()  # the archiver counts records and orphans already
        own.snapshots_unwritten = metrics.snapshots_unwritten  # and this fold has its own snapshots
        return Projection(bus, pool.name, pool.partition, own, snapshots=snapshots, observe=on_entry)

    view = new_projection()
    catching_up: asyncio.Task[None] | None = None
    try:
        await view.open()
        if view.state.seq > allocation_writer.after:  # changes before the snapshot are not all stored: fold from the start
            view = new_projection()
        requests.begin(view.state)
        follower = StateFollower(view, checks, requests)
        allocation_writer.begin(view.state)
        catching_up = asyncio.create_task(follower.catch_up())
        while not catching_up.done():
            await asyncio.wait([catching_up], timeout=WAIT)
            await write()
        catching_up.result()
        if view.head.next_seq <= allocation_writer.after:
            await allocation_writer.delete_all(connection)
        while True:
            await write()
            await follower.advance(WAIT if follower.is_waiting else IDLE_WAIT_S)
    finally:
        if catching_up is not None:
            catching_up.cancel()
            await asyncio.gather(catching_up, return_exceptions=True)
        await view.close()
