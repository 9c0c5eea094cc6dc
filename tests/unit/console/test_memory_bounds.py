"""The console's memory does not grow with the log: every cache has a maximum."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kits.archive import Log
from tests.kits.log_builder import SECOND, Story, policy

from bailiff.client.pool_ref import PoolRef
from bailiff_bus.port import Bus
from bailiff_console.history import point_in_time, snapshots, state_at
from bailiff_console.history.explain import PoolLog
from bailiff_console.history.point_in_time import SnapshotCache
from bailiff_console.live import subscribers
from bailiff_console.live.change import packed
from bailiff_console.live.follower import PoolFollower
from bailiff_console.live.pool_projection import MAX_EVENTS
from bailiff_core.model.state import ENDED
from bailiff_log import job_index
from bailiff_service.metrics import Metrics
from bailiff_service.problems import ApiError

WAVES, JOBS = 6, 10
MAX_ENDED_JOBS = 15


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_index, "MAX_ENDED_JOBS", MAX_ENDED_JOBS)
    monkeypatch.setattr(subscribers, "RING_TICKS", 7)
    monkeypatch.setattr(snapshots, "MIN_GAP", 20)
    monkeypatch.setattr(point_in_time, "MAX_SNAPSHOTS", 3)


def waves(story: Story) -> Iterator[int]:
    """Runs and ends jobs in waves. Yields the number of each wave."""
    for wave in range(WAVES):
        for number in range(JOBS):
            story.runs(f"job-{wave}-{number}", gpus=1, after=SECOND)
            story.ends(f"job-{wave}-{number}", after=SECOND)
        yield wave


@pytest.mark.slow
async def test_memory_is_bounded_for_any_number_of_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story, log = Story(policy(), pool="pool-a"), Log("pool-a")
    story.node("n1", gpus=1)
    bus: Bus = log.cluster.client("console")
    followed, snapshot_cache = PoolFollower(bus, PoolRef("pool-a", 0, "identity"), Metrics(), tmp_path, 8), SnapshotCache()
    written = 0
    await followed.log_projection.catch_up()
    followed.ready = True
    page = followed.subscribers.add(frozenset({"jobs"}), None)
    for _ in waves(story):
        log.append(story.wires[written:])
        written = len(story.wires)
        while followed.state.seq < written - 1:
            await followed.log_projection.advance(0)
            followed.tick()
        for seq in range(0, written, written // 5):
            async with followed.history.at(seq=seq, end=written) as then:
                await snapshot_cache.of(followed, then)
        ended = sum(job.phase in ENDED for job in followed.state.jobs.values())
        assert len(followed.job_index) <= MAX_ENDED_JOBS + (len(followed.state.jobs) - ended)
        assert len(followed.subscribers._ring) <= subscribers.RING_TICKS
        assert len(page._queue) <= subscribers.QUEUE
        assert len(followed.pool_projection.events) <= MAX_EVENTS
        assert len(followed.history.snapshots._kept) <= 8
        assert len(snapshot_cache._made) <= point_in_time.MAX_SNAPSHOTS
        assert len(followed.history._replays) <= state_at.MAX_REPLAYS
        assert not followed.view_cache.pending.keys() - {*followed.state.active, *followed.state.queue}
    assert len(followed.job_index) == MAX_ENDED_JOBS, "the last that ended, although the pool knows all of them"
    assert len(followed.state.jobs) == WAVES * JOBS
    last, first = f"job-{WAVES - 1}-{JOBS - 1}", "job-0-0"
    assert [seq async for seq, _ in PoolLog(followed, job=last).wires()]
    with pytest.raises(ApiError, match="see the archive"):
        [seq async for seq, _ in PoolLog(followed, job=first).wires()]
    await followed.history.tidy()
    assert followed.history._replays, "somebody has just looked"
    monkeypatch.setattr(state_at, "IDLE_S", 0.0)
    await followed.history.tidy()
    assert not followed.history._replays, "each holds a whole pool"
    await followed.history.close()
    await followed.log_projection.close()


def test_a_row_allocates_no_more_memory_than_its_bytes() -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        rows = [packed({"job": f"job-{number}", "note": "x" * 500}) for number in range(100)]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1.2 * sum(map(len, rows)) + 100 * 64
