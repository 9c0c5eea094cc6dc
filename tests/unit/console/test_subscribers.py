"""Rate limit of page updates: at most five messages per second, without loss."""

import asyncio
from collections.abc import Iterable
from itertools import pairwise

from tests.unit.bus.virtual_time import in_virtual_time

from bailiff_console.live.change import Change, Position, Show
from bailiff_console.live.subscribers import QUEUE, Subscriber, Subscribers

SHOW: Show = frozenset({"jobs", "telemetry"})


def position(seq: int) -> Position:
    return Position("pool-a", seq, "hash")


def change(seq: int, **jobs: bytes) -> Change:
    return Change(position(seq - 1), position(seq), b'"seq":%d' % seq, {"jobs": jobs}, {})


async def read(page: Subscriber, sent: list[tuple[float, bytes]], *, slow: Iterable[float] = ()) -> None:
    """Reads messages as the stream does. slow: seconds of sending, for each of the first messages."""
    takes = iter(slow)
    while True:
        message = await page.take(lambda _: b"board", 10.0)
        await asyncio.sleep(next(takes, 0.0))
        sent.append((asyncio.get_running_loop().time(), message or b"heartbeat"))
        page.sent()


@in_virtual_time
async def test_no_page_gets_more_than_five_messages_per_second() -> None:
    pages, sent = Subscribers(), list[tuple[float, bytes]]()
    reading = asyncio.create_task(read(pages.add(SHOW, None), sent))
    for seq in range(1, 400):
        await asyncio.sleep(0.017)
        pages.publish(change(seq, job=b"%d" % seq))
        if seq % 7 == 0:
            pages.broadcast(b"telemetry", "telemetry")
    await asyncio.sleep(1)
    reading.cancel()
    times = [at for at, _ in sent]
    assert len(times) > 20
    assert all(later - earlier >= 1 for earlier, later in zip(times, times[5:], strict=False))
    assert all(later - earlier < 0.25 for earlier, later in pairwise(times)), "and none waits longer than that"
    assert sum(message.count(b"telemetry") for _, message in sent) == 399 // 7, "nothing is lost on the way"
    assert b'"job":399' in sent[-1][1]


@in_virtual_time
async def test_a_slow_page_gets_merged_changes_or_a_new_snapshot() -> None:
    pages, sent = Subscribers(), list[tuple[float, bytes]]()
    reading = asyncio.create_task(read(pages.add(SHOW, None), sent, slow=(5, 5)))
    await asyncio.sleep(1)  # the snapshot is being sent
    for seq in range(1, QUEUE):
        pages.publish(change(seq, **{f"job-{seq}": b"1", "last": b"%d" % seq}))
    await asyncio.sleep(5)
    for seq in range(QUEUE, 3 * QUEUE):
        pages.publish(change(seq, last=b"%d" % seq))
    await asyncio.sleep(10)
    reading.cancel()
    (_, snapshot), (_, caught_up), (_, again), *_ = sent
    assert (snapshot, again) == (b"board", b"board")
    assert caught_up.count(b"event: change") == 1
    assert f"id: {position(QUEUE - 1)}".encode() in caught_up
    assert b'"job-1":1' in caught_up
    assert b'"last":%d' % (QUEUE - 1) in caught_up
