"""The audit log's reader and writer where the bus misbehaves, in virtual time; what both buses do is in the contract suite."""

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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

from bailiff_bus.port import READ_LIMIT, BusUnavailable, Message, OffsetOutOfRange
from bailiff_bus.topics import AUDIT, AUDIT_LIMIT
from bailiff_core.records import ChainHead, Record, Wire, encode
from bailiff_core.records.facts import ClockAdvanced, InputsLost, PoolCreated, WriterStarted
from bailiff_core.records.wire import UnreadableRecord
from bailiff_log.reader import HEAD_VERIFIED_EVERY, AuditReader, Entry
from bailiff_log.writer import AuditWriter, Committed, OutcomeUnknown, SteppedDown

from .virtual_time import in_virtual_time, run

START = 1_700_000_000_000_000
POOL = "pool-a"


class Faulty:
    """Fates of sends in order; `chance` draws them when none are left."""

    def __init__(self, *fates: SendOutcome, chance: random.Random | None = None) -> None:
        self.fates = deque(fates)
        self.chance = chance

    def send(self, client: str, topic: str, partition: int, value: bytes) -> SendOutcome:
        if self.fates:
            return self.fates.popleft()
        if self.chance is None:
            return STORED
        kind = self.chance.choices([STORED, ACKNOWLEDGEMENT_LOST, NOT_STORED, STORED_TWICE, OFFSET_UNKNOWN], [90, 1, 1, 4, 4])[0]
        return SendOutcome(self.chance.choice([0.0, 0.001, 0.05, 2.0]), kind.stored, kind.acknowledged, kind.offset_known)

    def delivery(self, client: str, message: Message) -> float:
        return self.chance.choice([0.0, 0.0, 0.1, 3.0]) if self.chance else 0.0


def make_cluster(faults: Faulty | None = None, batch: int = 1) -> MemoryCluster:
    cluster = MemoryCluster(lambda: START + round(asyncio.get_running_loop().time() * 1_000_000), faults, batch=batch)
    cluster.create_topics(pools=2)
    return cluster


def record(seq: int, epoch: int, data: Any, writer: str) -> Record:
    return Record(
        pool=POOL,
        seq=seq,
        epoch=epoch,
        cycle=seq,
        cycle_end=True,
        time=START + seq,
        prev="",
        writer=writer,
        engine="0",
        policy=0,
        type=data.type_name(),
        data=data,
    )


class Incarnation:
    """A reader and a writer on a bus of their own."""

    def __init__(self, bus: MemoryBus, window: int = 200) -> None:
        self.bus = bus
        self.name = bus.name
        self.reader = AuditReader(bus, POOL, 1)
        self.writer = AuditWriter(bus, self.reader, window)
        self.folded: list[Entry] = []

    async def fold(self, entries: Sequence[Entry]) -> None:
        self.folded += entries

    async def begin(self) -> Entry:
        return await self.writer.begin(self.first, self.fold)

    def first(self, head: ChainHead) -> list[Record]:
        started = WriterStarted(writer=self.name, release="0", digest="0", logic=1, state_schema=1)
        if head.next_seq > 0:
            return [record(head.next_seq, head.epoch + 1, started, self.name)]
        created = PoolCreated(pool=POOL, partition=1, nonce=self.name)
        return [record(0, 0, created, self.name), record(1, 1, started, self.name)]

    async def append(self, count: int = 1) -> "asyncio.Future[Committed]":
        head = self.writer.next_head
        return await self.writer.append(
            [record(head.next_seq + number, head.epoch, ClockAdvanced(), self.name) for number in range(count)]
        )


async def written(cluster: MemoryCluster) -> Incarnation:
    """A writer whose log has five records: the two that start it, and three more."""
    writing = Incarnation(cluster.client("w1"))
    await writing.begin()
    await (await writing.append(3))
    return writing


async def read_whole(cluster: MemoryCluster) -> list[Entry]:
    reader = AuditReader(cluster.client("auditor"), POOL, 1)
    found: list[Entry] = []

    async def keep(entries: Sequence[Entry]) -> None:
        found.extend(entries)

    await reader.catch_up(keep)
    return found


# --- what §3 names


@pytest.mark.parametrize("fate", [ACKNOWLEDGEMENT_LOST, NOT_STORED])
@in_virtual_time
async def test_after_an_unknown_outcome_the_writer_is_finished_and_its_successor_reads_what_happened(fate: SendOutcome) -> None:
    cluster = make_cluster(Faulty(STORED, STORED, STORED, fate))
    bus = cluster.client("w1")
    first = Incarnation(bus)
    await first.begin()
    await (await first.append())
    with pytest.raises(OutcomeUnknown):
        await (await first.append())
    with pytest.raises(OutcomeUnknown):
        await first.append()
    with pytest.raises(OutcomeUnknown):
        await first.writer.check()
    assert first.reader.head == first.writer.head  # back at the last committed record
    assert first.reader.head.next_seq == 3
    second = AuditWriter(bus, first.reader)
    await second.begin(first.first, first.fold)
    kinds = [entry.record.type.split(".")[2] for entry in await read_whole(cluster)]
    assert kinds == ["PoolCreated", "WriterStarted", "ClockAdvanced"] + (["ClockAdvanced"] * fate.stored + ["WriterStarted"])


@in_virtual_time
async def test_a_send_that_failed_while_the_next_one_was_stored_leaves_an_orphan() -> None:
    cluster = make_cluster(Faulty(STORED, STORED, NOT_STORED))
    writing = Incarnation(cluster.client("w1"))
    await writing.begin()
    futures = [await writing.append(), await writing.append(2)]
    for future in futures:
        with pytest.raises(OutcomeUnknown):
            await future
    again = AuditWriter(writing.bus, writing.reader)
    await again.begin(writing.first, writing.fold)
    assert writing.reader.orphans == 2
    assert [orphan.offset for orphan in writing.reader.latest_orphans] == [2, 3]
    assert [entry.record.seq for entry in await read_whole(cluster)] == [0, 1, 2]


@pytest.mark.parametrize("fate", [OFFSET_UNKNOWN, STORED_TWICE])
@in_virtual_time
async def test_what_an_acknowledgement_does_not_say_is_read_back(fate: SendOutcome) -> None:
    cluster = make_cluster(Faulty(STORED, STORED, STORED, fate, STORED, fate, fate))
    writing = Incarnation(cluster.client("w1"))
    await writing.begin()
    entries = (await (await writing.append(8))).entries
    assert [entry.record.seq for entry in entries] == list(range(2, 10))
    whole = await read_whole(cluster)
    assert tuple(whole[2:]) == entries
    assert writing.writer.head.hash == whole[-1].hash


@in_virtual_time
async def test_reading_back_waits_for_all_that_is_on_its_way() -> None:
    cluster = make_cluster(Faulty(STORED, STORED, OFFSET_UNKNOWN, SendOutcome(delay=1), SendOutcome(delay=5)))
    writing = Incarnation(cluster.client("w1"))
    await writing.begin()
    assert len((await (await writing.append(5))).entries) == 5


@in_virtual_time
async def test_a_start_whose_place_is_unknown_is_read_back() -> None:
    cluster = make_cluster(Faulty(OFFSET_UNKNOWN, OFFSET_UNKNOWN))
    writing = Incarnation(cluster.client("w1"))
    assert (await writing.begin()).record.seq == 1
    await (await writing.append())


@in_virtual_time
async def test_a_start_whose_outcome_is_unknown_ends_the_writer() -> None:
    cluster = make_cluster(Faulty(STORED, ACKNOWLEDGEMENT_LOST))
    writing = Incarnation(cluster.client("w1"))
    with pytest.raises(OutcomeUnknown):
        await writing.begin()
    again = AuditWriter(writing.bus, writing.reader)
    assert (await again.begin(writing.first, writing.fold)).record.epoch == 2


@in_virtual_time
async def test_a_writer_that_was_paused_past_its_successors_start_steps_down() -> None:
    cluster = make_cluster()
    old, new = Incarnation(cluster.client("old")), Incarnation(cluster.client("new"))
    await old.begin()
    await (await old.append())
    late = await old.append()
    old.bus.pause()
    await new.begin()
    await (await new.append())
    old.bus.resume()
    with pytest.raises(SteppedDown, match=r"writer new wrote bailiff\.audit\.WriterStarted"):
        await late
    assert [entry.record.writer for entry in await read_whole(cluster)] == ["old"] * 3 + ["new"] * 2


@in_virtual_time
async def test_a_writer_that_lost_the_race_to_start_reads_on_and_starts_after_the_other() -> None:
    cluster = make_cluster(Faulty(SendOutcome(delay=1), STORED))
    slow, fast = Incarnation(cluster.client("slow")), Incarnation(cluster.client("fast"))
    starting = asyncio.ensure_future(slow.begin())
    await asyncio.sleep(0.5)
    await fast.begin()
    assert (await starting).record.epoch == 2
    assert slow.reader.orphans == 2
    with pytest.raises(SteppedDown):
        await (await fast.append())


@in_virtual_time
async def test_a_writer_that_never_wins_gives_up() -> None:
    cluster = make_cluster()
    other = Incarnation(cluster.client("other"))
    await other.begin()
    writing = Incarnation(cluster.client("w1"))

    def too_late(head: ChainHead) -> list[Record]:
        """Another writer always starts between reading and sending."""
        started = WriterStarted(writer="other", release="0", digest="0", logic=1, state_schema=1)
        wire = encode(replace(record(head.next_seq, head.epoch + 1, started, "other"), prev=head.hash))
        cluster.store(AUDIT.name, 1, None, wire.headers, wire.value)
        return writing.first(head)

    with pytest.raises(SteppedDown, match="another writer of pool-a was faster 5 times"):
        await writing.writer.begin(too_late, writing.fold)


@in_virtual_time
async def test_an_acknowledged_record_that_is_gone_stops_the_writer() -> None:
    cluster = make_cluster()
    writing = await written(cluster)
    cluster.truncate(AUDIT.name, 1, 3)
    with pytest.raises(OffsetOutOfRange):
        await (await writing.append())


@in_virtual_time
async def test_cancelling_an_append_half_way_finishes_the_writer() -> None:
    cluster = make_cluster(Faulty(STORED, STORED, SendOutcome(delay=60)))
    writing = Incarnation(cluster.client("w1"), window=1)
    await writing.begin()
    appending = asyncio.ensure_future(writing.append(3))
    await asyncio.sleep(1)
    appending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await appending
    with pytest.raises(OutcomeUnknown, match="interrupted"):
        await writing.append()


@in_virtual_time
async def test_closing_waits_for_what_was_sent() -> None:
    cluster = make_cluster(Faulty(STORED, STORED, SendOutcome(delay=2)))
    writing = Incarnation(cluster.client("w1"))
    await writing.begin()
    future = await writing.append()
    await writing.writer.close()
    assert len((await future).entries) == 1
    with pytest.raises(SteppedDown, match="closed"):
        await writing.append()


@in_virtual_time
async def test_a_record_above_the_limit_is_refused_before_anything_is_sent() -> None:
    cluster = make_cluster()
    writing = Incarnation(cluster.client("w1"))
    await writing.begin()
    large = InputsLost(topic="x" * AUDIT_LIMIT, partition=0, from_offset=0, to_offset=1)
    with pytest.raises(ValueError, match="the limit of an audit record is 921600"):
        await writing.writer.append([record(2, 1, ClockAdvanced(), "w1"), record(3, 1, large, "w1")])
    assert len(cluster.messages(AUDIT.name, 1)) == 2
    await (await writing.append())


# --- reading


@in_virtual_time
async def test_a_reader_stops_at_what_it_cannot_understand_and_stays_there() -> None:
    cluster = make_cluster()
    writing = Incarnation(cluster.client("w1"))
    await writing.begin()
    head = writing.writer.head
    known = encode(record(2, 1, ClockAdvanced(), "w1"))
    headers = {**dict(known.headers), "ce_prev": head.hash.encode(), "ce_type": b"bailiff.audit.FromTheFuture.v9"}
    wire = Wire(tuple(headers.items()), known.value)
    cluster.store(AUDIT.name, 1, None, wire.headers, wire.value)
    reader = AuditReader(cluster.client("r"), POOL, 1)
    assert [entry.record.seq for entry in await reader.read()] == [0, 1]
    for _ in range(2):
        with pytest.raises(UnreadableRecord, match=r"pool-a#2 bailiff\.audit\.FromTheFuture\.v9"):
            await reader.read()
    assert (reader.head, reader.offset) == (head, 2)
    with pytest.raises(UnreadableRecord):
        await writing.writer.check()


@in_virtual_time
async def test_orphans_are_counted_once_and_the_latest_are_kept() -> None:
    cluster = make_cluster()
    writing = Incarnation(cluster.client("w1"))
    await writing.begin()
    for _ in range(30):
        cluster.store(AUDIT.name, 1, None, (), b"junk")
    for _ in range(3):
        await (await writing.append())
        writing.reader.move(writing.reader.head, 0)
        await writing.reader.read_all()
        writing.reader.move(writing.writer.head, writing.writer.offset)
    assert len(writing.reader.latest_orphans) == 20


@in_virtual_time
async def test_a_log_full_of_orphans_is_read_without_its_head_again_and_again() -> None:
    cluster = make_cluster()
    writing = await written(cluster)
    reads = 2 * HEAD_VERIFIED_EVERY + 1
    for _ in range(reads * READ_LIMIT):
        cluster.store(AUDIT.name, 1, None, (), b"junk")
    reader, heads = AuditReader(cluster.client("r"), POOL, 1), 0
    verify = reader.verify_head

    async def counted() -> None:
        nonlocal heads
        heads += 1
        await verify()

    reader.verify_head = counted  # type: ignore[method-assign]
    await reader.catch_up(writing.fold)
    assert (reader.orphans, heads) == (reads * READ_LIMIT, 3), "the first of 64 reads, and the last"
    cluster.store(AUDIT.name, 1, None, (), b"junk")
    await reader.read()
    assert heads == 4, "at its end each"


@in_virtual_time
async def test_a_log_shorter_than_a_snapshot_is_an_error() -> None:
    cluster = make_cluster()
    writing = await written(cluster)
    head, offset = writing.writer.head, writing.writer.offset
    cluster.truncate(AUDIT.name, 1, 2)
    reader = AuditReader(cluster.client("r"), POOL, 1, head, offset)
    with pytest.raises(OffsetOutOfRange):
        await reader.catch_up(writing.fold)


@in_virtual_time
async def test_a_log_that_was_cut_short_and_has_grown_past_a_reader_is_noticed() -> None:
    cluster = make_cluster()
    await written(cluster)
    reader = AuditReader(cluster.client("r"), POOL, 1)
    assert [entry.record.seq for entry in await reader.read()] == [0, 1, 2, 3, 4]

    cluster.truncate(AUDIT.name, 1, 3)
    after = Incarnation(cluster.client("w2"))
    await after.begin()
    await (await after.append(4))
    with pytest.raises(OffsetOutOfRange):
        await reader.read()


@in_virtual_time
async def test_a_writer_starts_only_after_a_record_that_the_log_still_has() -> None:
    """A reader in standby; the log loses the newest record, and grows to the same length before it starts to write."""
    cluster = make_cluster()
    await written(cluster)
    standby = Incarnation(cluster.client("w2"))
    await standby.reader.catch_up(standby.fold)

    cluster.truncate(AUDIT.name, 1, 4)
    cluster.store(AUDIT.name, 1, None, (), b"junk")
    with pytest.raises(OffsetOutOfRange):
        await standby.begin()
    assert [entry.record.seq for entry in await read_whole(cluster)] == [0, 1, 2, 3]

    after = Incarnation(cluster.client("w3"))
    await after.begin()
    assert [entry.record.seq for entry in await read_whole(cluster)] == [0, 1, 2, 3, 4]


@in_virtual_time
async def test_a_log_that_is_cut_short_as_a_writer_starts_is_noticed_at_its_second_try() -> None:
    cluster = make_cluster()
    await written(cluster)
    standby = Incarnation(cluster.client("w2"))

    def first(head: ChainHead) -> list[Record]:
        if head.next_seq == 5 and cluster.partitions(AUDIT.name)[1].end == 5:
            cluster.truncate(AUDIT.name, 1, 4)
        return standby.first(head)

    with pytest.raises(OffsetOutOfRange):
        await standby.writer.begin(first, standby.fold)
    assert [entry.record.seq for entry in await read_whole(cluster)] == [0, 1, 2, 3]


@in_virtual_time
async def test_a_writer_that_checks_its_log_notices_that_it_was_cut_short_and_has_grown() -> None:
    cluster = make_cluster()
    writing = await written(cluster)
    await writing.writer.check()
    cluster.truncate(AUDIT.name, 1, 4)
    for _ in range(2):
        cluster.store(AUDIT.name, 1, None, (), b"junk")
    with pytest.raises(OffsetOutOfRange):
        await writing.writer.check()
    with pytest.raises(OffsetOutOfRange):
        await writing.append()


@in_virtual_time
async def test_a_head_that_retention_has_deleted_is_not_looked_for() -> None:
    cluster = make_cluster()
    writing = Incarnation(cluster.client("w1"))
    await writing.begin()
    standby = Incarnation(cluster.client("w2"))
    await standby.reader.catch_up(standby.fold)
    cluster.trim(AUDIT.name, 1, 2)
    assert (await standby.begin()).record.seq == 2


class Late(Faulty):
    """Every message is seen by readers a second after they ask for it."""

    def delivery(self, client: str, message: Message) -> float:
        return 1.0 if client == "r" else 0.0


@in_virtual_time
async def test_a_log_that_is_cut_short_while_it_is_read_to_its_end_is_read_as_far_as_it_goes() -> None:
    cluster = make_cluster(Late())
    writing = await written(cluster)
    reader = AuditReader(cluster.client("r"), POOL, 1)
    reading = asyncio.ensure_future(reader.catch_up(writing.fold))
    await asyncio.sleep(0.5)
    cluster.truncate(AUDIT.name, 1, 1)
    async with asyncio.timeout(60):
        await reading
    assert reader.head.next_seq == 1


@in_virtual_time
async def test_a_reader_whose_head_is_cut_off_while_it_looks_for_it_does_not_wait_for_ever() -> None:
    cluster = make_cluster(Late())
    writing = Incarnation(cluster.client("w1"))
    await writing.begin()
    reader = AuditReader(cluster.client("r"), POOL, 1)
    await reader.catch_up(writing.fold)
    cluster.store(AUDIT.name, 1, None, (), b"junk")
    reading = asyncio.ensure_future(reader.read(2.0))
    await asyncio.sleep(1.5)  # the junk was read, and the head is looked for
    cluster.truncate(AUDIT.name, 1, 1)
    with pytest.raises(OffsetOutOfRange):
        async with asyncio.timeout(60):
            await reading


@in_virtual_time
async def test_what_does_not_continue_the_chain_is_no_reason_to_doubt_what_was_read() -> None:
    cluster = make_cluster()
    writing = Incarnation(cluster.client("w1"))
    await writing.begin()
    reader = AuditReader(cluster.client("r"), POOL, 1)
    assert len(await reader.read()) == 2
    for _ in range(3):
        cluster.store(AUDIT.name, 1, None, (), b"junk")
        assert await reader.read() == []
    await (await writing.append())
    assert [entry.record.seq for entry in await reader.read()] == [2]
    assert reader.orphans == 3


@in_virtual_time
async def test_a_pool_without_a_partition_is_named() -> None:
    reader = AuditReader(make_cluster().client("r"), POOL, 7)
    with pytest.raises(KeyError, match="create the topics for pool pool-a"):
        await reader.end()


# --- all of it together


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
@pytest.mark.slow
def test_whatever_goes_wrong_committed_records_are_in_the_one_chain(seed: int) -> None:
    """Three services write at once, with faults, pauses and kills; each restarts as §3 says.

    A record acknowledged to a writer is in the log, at that offset; what it folded before is what a reader finds.
    """
    chance = random.Random(seed)
    committed: list[Entry] = []
    folds: list[list[Entry]] = []

    def keep(done: "asyncio.Future[Committed]", folded: list[Entry]) -> None:
        if not done.cancelled() and done.exception() is None:
            committed.extend(done.result().entries)
            folded.extend(done.result().entries)

    async def serve(cluster: MemoryCluster, bus: MemoryBus) -> None:
        reader, folded = AuditReader(bus, POOL, 1), list[Entry]()
        folds.append(folded)
        for number in range(4):
            here = Incarnation(bus, window=chance.choice([1, 3, 200]))
            here.name, here.reader, here.folded = f"{bus.name}-{number}", reader, folded
            here.writer = AuditWriter(bus, reader, chance.choice([1, 3, 200]))
            try:
                await here.begin()
                for _ in range(chance.randrange(8)):
                    for _ in range(chance.randrange(1, 4)):
                        future = await here.append(chance.randrange(1, 4))
                        future.add_done_callback(lambda done: keep(done, folded))
                    await future
                    await here.writer.check()
            except (OutcomeUnknown, SteppedDown, BusUnavailable):
                pass
            await here.writer.close()
            await asyncio.sleep(chance.random())

    async def disturb(buses: list[MemoryBus], cluster: MemoryCluster) -> None:
        for _ in range(4):
            await asyncio.sleep(chance.random() * 3)
            victim = chance.choice(buses)
            cluster.store(AUDIT.name, 1, None, (), b"junk")
            cluster.skip(AUDIT.name, 1)
            victim.pause()
            await asyncio.sleep(chance.random() * 5)
            victim.resume()
        buses[0].kill()

    async def main() -> list[Entry]:
        cluster = make_cluster(Faulty(chance=chance), batch=chance.choice([1, 2, 5]))
        buses = [cluster.client(f"w{number}") for number in range(3)]
        tasks = [asyncio.ensure_future(serve(cluster, bus)) for bus in buses]
        await disturb(buses, cluster)
        await asyncio.gather(*tasks[1:])
        tasks[0].cancel()
        cluster.faults = None
        return await read_whole(cluster)

    whole = run(main())
    assert [entry.record.seq for entry in whole] == list(range(len(whole)))
    assert [entry for entry in committed if whole[entry.record.seq] != entry] == []
    for folded in folds:
        assert folded == whole[: len(folded)]
