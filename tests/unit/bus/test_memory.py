"""The bus in memory under faults, kills and pauses, in virtual time."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any

import pytest
from tests.kits.memory_bus import (
    ACKNOWLEDGEMENT_LOST,
    NOT_STORED,
    OFFSET_UNKNOWN,
    STORED,
    STORED_TWICE,
    MemoryBus,
    MemoryCluster,
    SendOutcome,
)

from bailiff_bus.port import BusUnavailable, Message, Receipt, Span

from .virtual_time import in_virtual_time


class Scripted:
    """The fates of the next sends, in order, and how late each value is seen."""

    def __init__(self, *fates: SendOutcome, late: dict[bytes, float] | None = None) -> None:
        self.fates = deque(fates)
        self.late = late or {}

    def send(self, client: str, topic: str, partition: int, value: bytes) -> SendOutcome:
        return self.fates.popleft() if self.fates else STORED

    def delivery(self, client: str, message: Message) -> float:
        return self.late.get(message.value, 0.0)


def cluster(faults: Scripted | None = None, partitions: int = 1) -> MemoryCluster:
    made = MemoryCluster(clock=lambda: round(asyncio.get_running_loop().time() * 1_000_000), faults=faults)
    made.add_partitions("t", partitions)
    return made


async def send_all(bus: MemoryBus, *values: bytes) -> list[Receipt | BusUnavailable]:
    producer = await bus.producer()
    sent = [await producer.send("t", value) for value in values]
    outcomes = await asyncio.gather(*sent, return_exceptions=True)
    assert all(isinstance(each, Receipt | BusUnavailable) for each in outcomes)
    return outcomes  # type: ignore[return-value]


def values(where: MemoryCluster) -> list[bytes]:
    return [each.value for each in where.messages("t", 0)]


async def stuck(call: Coroutine[Any, Any, Any]) -> bool:
    """Whether the call is still out after an hour."""
    task = asyncio.ensure_future(call)
    await asyncio.wait([task], timeout=3600)
    done = task.done()
    task.cancel()
    return not done


@in_virtual_time
async def test_the_outcomes_of_a_send() -> None:
    for fate, stored in ((STORED, 1), (ACKNOWLEDGEMENT_LOST, 1), (NOT_STORED, 0), (STORED_TWICE, 2), (OFFSET_UNKNOWN, 1)):
        where = cluster(Scripted(fate))
        (outcome,) = await send_all(where.client("c"), b"x")
        assert len(values(where)) == stored
        assert isinstance(outcome, Receipt) == fate.acknowledged
        if isinstance(outcome, Receipt):
            assert outcome.offset == (0 if fate.offset_known else None)


@in_virtual_time
async def test_after_a_failed_send_what_was_handed_over_still_arrives_and_nothing_more_is_accepted() -> None:
    where = cluster(Scripted(NOT_STORED))
    bus = where.client("c")
    producer = await bus.producer()
    sent = [await producer.send("t", value) for value in (b"lost", b"stored")]
    outcomes = await asyncio.gather(*sent, return_exceptions=True)
    assert all(isinstance(each, BusUnavailable) for each in outcomes)
    await asyncio.sleep(1)
    assert values(where) == [b"stored"]
    with pytest.raises(BusUnavailable, match="has stopped"):
        await producer.send("t", b"more")
    assert isinstance((await send_all(bus, b"again"))[0], Receipt)  # another producer may


@in_virtual_time
async def test_delays_hold_up_what_is_behind() -> None:
    where = cluster(Scripted(SendOutcome(delay=5), late={b"b": 100}))
    receipts = await send_all(where.client("c"), b"a", b"b", b"c")
    assert [each.time for each in receipts if isinstance(each, Receipt)] == [5_000_000] * 3
    reader = await where.client("r").reader([("t", 0, 0)])
    assert [each.value for each in await reader.read()] == [b"a"]
    assert await reader.read(wait=50) == []
    assert [each.value for each in await reader.read(wait=1000)] == [b"b", b"c"]
    assert asyncio.get_running_loop().time() == 105


@in_virtual_time
async def test_a_killed_client_has_no_effect_and_its_calls_never_return() -> None:
    where = cluster(Scripted(SendOutcome(delay=5)))
    bus = where.client("c")
    producer, reader, seat = await bus.producer(), await bus.reader([("t", 0, 0)]), await bus.join("g", "t", None)
    waiting = asyncio.ensure_future(reader.read(wait=10))
    under_way = await producer.send("t", b"x")
    await asyncio.sleep(1)
    bus.kill()
    bus.resume()
    calls = [producer.send("t", b"y"), reader.read(), bus.spans("t"), bus.producer(), seat.changed(), bus.close()]
    assert all([await stuck(call) for call in calls])
    assert not waiting.done()
    assert not under_way.done()
    assert values(where) == []
    waiting.cancel()


@in_virtual_time
async def test_a_paused_client_continues_where_it_was() -> None:
    where = cluster(Scripted(SendOutcome(delay=5)))
    bus = where.client("c")
    producer, reader = await bus.producer(), await bus.reader([("t", 0, 0)])
    under_way = await producer.send("t", b"old")
    await asyncio.sleep(1)
    bus.pause()
    assert await stuck(reader.read())
    assert isinstance((await send_all(where.client("other"), b"new"))[0], Receipt)
    bus.resume()
    assert (await under_way).offset == 1
    assert values(where) == [b"new", b"old"]
    assert [each.value for each in await reader.read()] == [b"new", b"old"]


@in_virtual_time
async def test_partitions_of_a_killed_member_are_reassigned_after_its_session() -> None:
    where = cluster(partitions=2)
    first = where.client("one")
    await first.join("g", "t", None)
    second = await where.client("two").join("g", "t", None)
    assert second.assigned.owned == {1}
    first.kill()
    assert (await second.changed()).owned == {0, 1}
    assert asyncio.get_running_loop().time() == where.session_timeout


@in_virtual_time
async def test_the_same_instance_gets_the_partitions_of_a_killed_member_at_once() -> None:
    where = cluster(partitions=2)
    first = where.client("one")
    assert (await first.join("g", "t", "a")).assigned.owned == {0, 1}
    second = await where.client("two").join("g", "t", "b")
    first.kill()
    again = await where.client("one again").join("g", "t", "a")
    assert again.assigned.owned == {0}
    assert await stuck(second.changed())


@in_virtual_time
async def test_a_paused_member_assumes_its_partitions_until_its_next_heartbeat() -> None:
    where = cluster(partitions=2)
    bus = where.client("one")
    first, second = await bus.join("g", "t", None), await where.client("two").join("g", "t", None)
    assert (await first.changed()).owned == {0}
    bus.pause()
    assert (await second.changed()).owned == {0, 1}
    bus.resume()
    assert first.assigned.owned == {0}
    assert (await first.changed()).owned == {1}  # it sits at the end now
    assert second.assigned.owned == {0}


@in_virtual_time
async def test_a_short_pause_costs_no_partition() -> None:
    where = cluster(partitions=2)
    bus = where.client("one")
    await bus.join("g", "t", None)
    second = await where.client("two").join("g", "t", None)
    bus.pause()
    await asyncio.sleep(where.session_timeout / 2)
    bus.resume()
    assert await stuck(second.changed())


@in_virtual_time
async def test_a_tail_that_is_cut_off_frees_its_offsets() -> None:
    where = cluster()
    bus = where.client("c")
    await send_all(bus, b"a", b"b", b"c")
    where.truncate("t", 0, 1)
    assert await bus.spans("t") == {0: Span(0, 1)}
    await send_all(bus, b"d")
    assert [(each.offset, each.value) for each in where.messages("t", 0)] == [(0, b"a"), (1, b"d")]


@in_virtual_time
async def test_an_outage_fails_calls_and_sends_and_silences_readers() -> None:
    where = cluster()
    bus = where.client("c")
    await send_all(bus, b"before")
    reader = await bus.reader([("t", 0, 0)])
    where.begin_outage()
    for call in (bus.spans("t"), bus.producer(), bus.reader([]), bus.join("g", "t", None), bus.topic_settings("t")):
        with pytest.raises(BusUnavailable, match="the brokers are unreachable"):
            await call
    assert await reader.read(wait=20) == []
    waiting = asyncio.ensure_future(reader.read(wait=100))
    await asyncio.sleep(20)
    where.end_outage()
    assert [each.value for each in await waiting] == [b"before"]
    assert asyncio.get_running_loop().time() == 40


@in_virtual_time
async def test_a_send_into_an_outage_is_lost() -> None:
    where = cluster()
    producer = await where.client("c").producer()
    where.begin_outage()
    sent = await producer.send("t", b"x")
    with pytest.raises(BusUnavailable):
        await sent
    where.end_outage()
    assert values(where) == []


@in_virtual_time
async def test_closing_flushes() -> None:
    where = cluster(Scripted(SendOutcome(delay=2), SendOutcome(delay=2), SendOutcome(delay=2)))
    producer = await where.client("c").producer()
    sent = [await producer.send("t", value) for value in (b"a", b"b", b"c")]
    await producer.close(timeout=5)
    assert values(where) == [b"a", b"b"]
    assert [each.exception() is None for each in sent] == [True, True, False]
    await asyncio.sleep(10)
    assert values(where) == [b"a", b"b"]
