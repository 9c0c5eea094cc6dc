"""An input topic that is deleted, made anew and filled beyond the position in the log: what it holds is read all the same."""

from collections.abc import AsyncIterator

import pytest
from tests.kits.memory_bus import MemoryCluster

from bailiff_admission.input_consumer import PARTITION_REFRESH_US, InputConsumer, InputPartitions, LostOffsets
from bailiff_admission.turns import UNKNOWN, User
from bailiff_bus import topics
from bailiff_core.model.policy import LimitRules
from bailiff_service.clock_and_ids import ClockAndIds

TOPIC = topics.REQUESTS.name
MINUTE = 60_000_000


class Pool:
    """One pool's inputs, on a clock that the test moves, and what its log has on record of them."""

    def __init__(self) -> None:
        self.now = MINUTE
        self.cluster = MemoryCluster(lambda: self.now)
        self.cluster.create_topics(pools=1)
        self.bus, self.clock = self.cluster.client("admission"), ClockAndIds(wall=lambda: self.now, boot=lambda: self.now)
        self.positions: dict[str, int] = {}
        self.topic_ids: dict[str, str] = {}

    async def start_anew(self) -> None:
        """The next writer, in a process of its own, knows of the inputs what the log says."""
        user = User(UNKNOWN, "somebody")
        self.inputs = InputConsumer(self.bus, InputPartitions(self.bus, self.clock), lambda _: True, lambda _: user, LimitRules)
        await self.inputs.restart(self.positions, self.topic_ids, 0)

    async def die(self) -> None:
        """The writer ends; nothing of what it did since the last cycle is on record."""
        await self.inputs.close()

    def send(self, *values: str) -> None:
        for value in values:
            self.now += 1
            self.cluster.store(TOPIC, 0, None, (), value.encode())

    async def take(self, *, only: str | None = None) -> tuple[list[str], list[LostOffsets]]:
        """What a cycle takes, which is done with it, and on record. only: of this alone."""
        inputs = await self.inputs.read(100, 0.0)
        for message in inputs.messages:
            if only in (None, message.value.decode()):
                self.inputs.done(message.topic, message.partition, (message.offset,))
        self.positions, self.topic_ids = self.inputs.positions.all(), self.topic_ids | inputs.topic_ids
        return [message.value.decode() for message in inputs.messages], inputs.lost

    def make_anew(self, *values: str) -> None:
        """Delete the topic and create it."""
        self.cluster.delete_topic(TOPIC)
        self.cluster.create_topics(pools=1)
        self.send(*values)


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    made = Pool()
    await made.start_anew()
    yield made
    await made.inputs.close()


async def test_a_topic_made_anew_while_nobody_reads_is_read_from_its_begin(pool: Pool) -> None:
    pool.send("a", "b")
    assert await pool.take() == (["a", "b"], [])
    await pool.die()
    pool.make_anew("c", "d", "e")
    await pool.start_anew()
    assert await pool.take() == (["c", "d", "e"], [LostOffsets(TOPIC, 0, 2, 0)])
    await pool.die()
    await pool.start_anew()
    assert await pool.take() == ([], [])


async def test_a_topic_made_anew_is_found_although_a_writer_read_it_on_and_ended_before_it_looked(pool: Pool) -> None:
    pool.send("a", "b")
    assert await pool.take() == (["a", "b"], [])
    pool.make_anew("c", "d", "e")
    pool.positions[f"{TOPIC}/0"] = 3  # a reader of Kafka notices it within half a minute, and reads on until then
    for _ in range(2):  # the second ends before its first cycle is on record
        await pool.die()
        await pool.start_anew()
    assert await pool.take() == (["c", "d", "e"], [LostOffsets(TOPIC, 0, 3, 0)])


async def test_what_was_done_ahead_of_its_turn_in_another_topic_is_not_done(pool: Pool) -> None:
    pool.send("a", "b", "c")
    assert await pool.take(only="b") == (["a", "b", "c"], [])
    await pool.die()
    pool.make_anew("d", "e", "f")
    await pool.start_anew()
    assert await pool.take() == (["d", "e", "f"], [LostOffsets(TOPIC, 0, 2, 0)])


async def test_a_topic_made_anew_of_which_nothing_was_read_loses_nothing_then_or_later(pool: Pool) -> None:
    assert await pool.take() == ([], [])
    pool.make_anew("a")
    await pool.die()
    for taken in (["a"], []):
        await pool.start_anew()
        assert await pool.take() == (taken, [])
        await pool.die()


async def test_a_log_without_ids_of_topics_reads_on_from_its_positions(pool: Pool) -> None:
    pool.send("a", "b")
    await pool.die()
    pool.positions = {f"{TOPIC}/0": 1}
    await pool.start_anew()
    assert await pool.take() == (["b"], [])
    assert pool.topic_ids[TOPIC] == pool.cluster.topic_id(TOPIC)


async def test_a_topic_made_anew_under_a_reader_is_read_from_its_begin(pool: Pool) -> None:
    pool.send("a", "b")
    assert await pool.take() == (["a", "b"], [])
    pool.make_anew("c", "d", "e")
    assert await pool.take() == ([], [LostOffsets(TOPIC, 0, 2, 0)])
    assert await pool.take() == (["c", "d", "e"], [])
    pool.now += PARTITION_REFRESH_US
    assert await pool.take() == ([], [])


async def test_what_retention_deletes_of_what_was_read_makes_no_topic_anew(pool: Pool) -> None:
    pool.send("a", "b")
    assert await pool.take() == (["a", "b"], [])
    for more in ("c", "d"):
        pool.cluster.trim(TOPIC, 0, 1 if more == "c" else 3)
        pool.now += PARTITION_REFRESH_US
        pool.send(more)
        assert await pool.take() == ([more], [])
    await pool.die()
    await pool.start_anew()
    pool.cluster.trim(TOPIC, 0, 4)
    pool.send("e")
    assert await pool.take() == (["e"], [])
