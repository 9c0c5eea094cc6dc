"""Snapshots that admission writes, so that its next start reads little of the log."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.bench.requests import submit_message
from tests.kits.memory_bus import MemoryBus, MemoryCluster
from tests.unit.bus.virtual_time import in_virtual_time

from bailiff_admission.service import AdmissionService
from bailiff_admission.settings import AdmissionSettings
from bailiff_bus import topics
from bailiff_core.records import decode
from bailiff_core.records.facts import StateDigest
from bailiff_core.records.wire import Wire
from bailiff_log.snapshot_file import read_snapshot
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.metrics import Metrics

START = 1_800_000_000_000_000


class World:
    """A Kafka in memory, with a pool that admission works on in virtual time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = MemoryCluster(self.now)
        self.cluster.create_topics(pools=1)
        (folder / "pools.yaml").write_text(json.dumps({"pools": [{"name": "pool-a", "partition": 0}]}), encoding="utf-8")
        self.jobs = 0

    def now(self) -> int:
        return START + int(asyncio.get_running_loop().time() * 1_000_000)

    def admission(self, bus: MemoryBus, digest_every: int) -> AdmissionService:
        clock_and_ids = ClockAndIds(wall=self.now, boot=self.now, random_bytes=lambda: b"0" * 16)
        places = {"pools": self.folder / "pools.yaml", "state_dir": self.folder, "instance": "one"}
        return AdmissionService(AdmissionSettings(**places, digest_every=digest_every), Metrics(), bus, clock_and_ids)  # type: ignore[arg-type]

    async def submit(self, jobs: int) -> None:
        """Each is a decision cycle of its own."""
        for _ in range(jobs):
            headers, value = submit_message("pool-a", f"job-{self.jobs}", gpus=0)
            self.cluster.store(topics.REQUESTS.name, 0, b"pool-a", headers, value)
            self.jobs += 1
            await asyncio.sleep(0.1)

    def digests(self) -> list[int]:
        """Offsets of the log's state digests."""
        found = self.cluster.messages(topics.AUDIT.name, 0)
        return [each.offset for each in found if isinstance(decode(Wire(each.headers, each.value)).data, StateDigest)]

    def snapshot(self) -> int:
        """The offset that the snapshot on disk stands at."""
        found = read_snapshot(self.folder / "admission" / "pool-a.snapshot")
        assert found is not None
        return found.offset


@in_virtual_time
async def test_the_writer_keeps_a_snapshot_of_what_it_wrote_and_the_next_one_begins_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    first = asyncio.ensure_future(world.admission(world.cluster.client("first"), 20).run(asyncio.Event()))
    await asyncio.sleep(5)
    await world.submit(30)
    assert len(world.digests()) > 1, "it wrote for longer than from one digest to the next"
    assert world.snapshot() == world.digests()[-1]
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)

    began: list[int] = []
    bus = world.cluster.client("second")
    read = bus.reader
    monkeypatch.setattr(bus, "reader", lambda positions: (began.append(positions[0][2]), read(positions))[1])
    second = world.admission(bus, 20)
    running = asyncio.ensure_future(second.run(asyncio.Event()))
    await asyncio.sleep(10)
    assert not any(second.readiness().values()), second.readiness()
    assert began[0] == world.digests()[-1]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.slow
@in_virtual_time
async def test_a_digest_comes_within_a_minute_where_a_tenth_of_the_records_came(tmp_path: Path) -> None:
    world = World(tmp_path)
    running = asyncio.ensure_future(world.admission(world.cluster.client("first"), 1_000).run(asyncio.Event()))
    await asyncio.sleep(5)
    await world.submit(20)
    await asyncio.sleep(70)
    assert world.digests() == [], "so few records are read faster than a state is"
    await world.submit(60)
    await asyncio.sleep(1)
    (first,) = world.digests()
    await world.submit(60)
    assert world.digests() == [first], "not so soon again"
    await asyncio.sleep(70)
    assert len(world.digests()) == 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
