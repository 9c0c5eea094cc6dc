"""What the console keeps does not grow with the log: it is bounded in number, whatever has been."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.archive_kit import Log
from tests.log_builder import SECOND, Story, policy

from bailiff.client import Domain
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Bus
from bailiff_console.live import histories, pages
from bailiff_console.live.change import packed
from bailiff_console.live.follower import Followed
from bailiff_console.live.picture import EVENTS_KEPT
from bailiff_console.past import at, snapshots, walk
from bailiff_console.past.at import Boards
from bailiff_console.past.explain import PastLog
from bailiff_console.problems import Refused
from bailiff_core.model.pool import ENDED

WAVES, JOBS = 6, 10
MOST_ENDED = 15


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "MOST_ENDED", MOST_ENDED)
    monkeypatch.setattr(pages, "RING_TICKS", 7)
    monkeypatch.setattr(snapshots, "LEAST_GAP", 20)
    monkeypatch.setattr(at, "BOARDS_KEPT", 3)


def waves(story: Story) -> Iterator[int]:
    """Jobs come, run and end; the number of the wave."""
    for wave in range(WAVES):
        for number in range(JOBS):
            story.runs(f"job-{wave}-{number}", gpus=1, after=SECOND)
            story.ends(f"job-{wave}-{number}", after=SECOND)
        yield wave


async def test_however_many_jobs_have_been_only_so_many_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story, log = Story(policy(), domain="pool-a"), Log("pool-a")
    story.node("n1", gpus=1)
    bus: Bus = log.cluster.client("console")
    followed, boards, written = Followed(bus, Domain("pool-a", 0, "identity"), Metrics(), tmp_path, 8), Boards(), 0
    await followed.view.catch_up()
    followed.ready = True
    page = followed.pages.enter(frozenset({"jobs"}), None)
    for _ in waves(story):
        log.append(story.wires[written:])
        written = len(story.wires)
        while followed.pool.seq < written - 1:
            await followed.view.advance(0)
            followed.tick()
        for seq in range(0, written, written // 5):
            async with followed.past.at(seq=seq, end=written) as then:
                await boards.of(followed, then)
        ended = sum(job.phase in ENDED for job in followed.pool.jobs.values())
        assert len(followed.histories) <= MOST_ENDED + (len(followed.pool.jobs) - ended)
        assert len(followed.pages._ring) <= pages.RING_TICKS
        assert len(page._waiting) <= pages.QUEUE
        assert len(followed.picture.events) <= EVENTS_KEPT
        assert len(followed.past.snapshots._kept) <= 8
        assert len(boards._made) <= at.BOARDS_KEPT
        assert len(followed.past._walks) <= walk.OPEN
        assert not {*followed.memo.why, *followed.memo.owners} - {*followed.pool.active, *followed.pool.queue}
    assert len(followed.histories) == MOST_ENDED, "the last that ended, although the pool knows all of them"
    assert len(followed.pool.jobs) == WAVES * JOBS
    last, first = f"job-{WAVES - 1}-{JOBS - 1}", "job-0-0"
    assert [seq async for seq, _ in PastLog(followed, job=last).wires()]
    with pytest.raises(Refused, match="the archive has them"):
        [seq async for seq, _ in PastLog(followed, job=first).wires()]
    await followed.past.tidy()
    assert followed.past._walks, "somebody has just looked"
    monkeypatch.setattr(walk, "IDLE_S", 0.0)
    await followed.past.tidy()
    assert not followed.past._walks, "each holds a whole pool"
    await followed.past.close()
    await followed.view.close()


def test_a_row_holds_no_more_room_than_its_bytes_need() -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        rows = [packed({"job": f"job-{number}", "note": "x" * 500}) for number in range(100)]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1.2 * sum(map(len, rows)) + 100 * 64
