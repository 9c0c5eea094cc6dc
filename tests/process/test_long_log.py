"""Every service is started on a log of a million records, and again after a kill: nothing but the time to read differs.

`make bench` measures the time (`python -m tests.bench restart --records 1000000`). Here the services must come up, agree with the
log's state digests, and serve a request. `BAILIFF_TEST_LONG_LOG=30000` makes the log shorter.
"""

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from tests.bench.restart import write_log
from tests.bench.synthetic import NODES, plain_log
from tests.bench.system import cpu_seconds, megabytes
from tests.kits.system import System, Watch

from bailiff_log.projection import Projection
from bailiff_service.metrics import Metrics

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(3600)]

RECORDS, SHORT = int(os.environ.get("BAILIFF_TEST_LONG_LOG", "1000000")), 100
READY_S = 1200
RECORD_US, DAY_US = 10_000_000, 86_400_000_000
CONTROL = ("admission", "victim-selection", "eviction-executor")
POOL = "pool-a"


class WatchFromSnapshot(Watch):
    """A client that folds what follows a service's snapshot: a million records take gigabytes of memory."""

    async def open(self) -> None:
        """Read the log to its end."""
        snapshots = self.system.folder / "snapshots-of-the-client"
        snapshots.mkdir()
        shutil.copy(self.system.folder / "state" / CONTROL[0] / f"{POOL}.snapshot", snapshots)
        self.projection = Projection(self.bus, POOL, 0, Metrics(), snapshots=snapshots, observe=self.entries.append)
        await self.projection.open()
        await self.projection.catch_up()


@pytest.fixture
def grown(tmp_path: Path) -> Iterator[System]:
    """Kafka with a log of a million records; no service yet."""
    with contextlib.closing(System(tmp_path / "system", pools={POOL: NODES})) as system:
        system.watch_kind = WatchFromSnapshot
        system.start_kafka()
        wires = plain_log(RECORDS, start=time.time_ns() // 1000 - RECORDS * RECORD_US - DAY_US)
        asyncio.run(write_log(system.stack, islice(wires, SHORT)))
        asyncio.run(write_log(system.stack, wires))
        yield system


async def test_services_restart_on_a_million_records(grown: System) -> None:
    for service in CONTROL:
        grown.start_service(service)
    await _ready(grown, "without snapshots")
    grown.kill_and_restart(*CONTROL)
    await _ready(grown, "after a kill")
    for service in CONTROL:
        assert "folding from the start" not in grown.log_of(service), "its snapshot is confirmed by the log"
        assert (grown.folder / "state" / service / f"{POOL}.snapshot").exists()
    async with grown.watch(POOL) as pool:
        assert pool.state.seq >= RECORDS - 1
        pool.keep(*pool.state.jobs, "first-after")  # there are no agents to end them
        await pool.submit("first-after", "true")
        await pool.until("it is accepted", lambda state: "first-after" in state.jobs)


async def _ready(system: System, start: str) -> None:
    """Wait for all services, and print how long each started service needed of the processor."""
    began = time.monotonic()
    await asyncio.to_thread(system.stack.processes.wait_ready, timeout_s=READY_S)
    used = {name: f"{cpu_seconds(system.stack)[name]:.1f} s, {megabytes(system.stack)[name]:.0f} MB" for name in CONTROL}
    print(f"{start}: all ready after {time.monotonic() - began:.1f} s; processor time and memory: {used}")
