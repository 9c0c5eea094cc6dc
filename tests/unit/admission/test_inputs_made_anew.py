"""An input topic that is deleted, made anew and filled beyond the position in the log: what it holds is read all the same."""

from collections.abc import AsyncIterator

import pytest
from tests.kits.memory_bus import MemoryCluster

from bailiff_admission.input_consumer import PARTITION_REFRESH_US, InputConsumer, InputPartitions, LostOffsets
from bailiff_admission.input_positions import PositionTimes
from bailiff_admission.turns import UNKNOWN, User
from bailiff_bus import topics
from bailiff_core.model.policy import LimitRules
from bailiff_service.clock_and_ids import ClockAndIds

TOPIC = topics.REQUESTS.name
MINUTE = 60_000_000


class Pool:
    """One pool's inputs, on a clock that the test moves."""

    def __init__(self) -> None:
        self.now = MINUTE
        self.cluster = MemoryCluster(lambda: self.now)
        self.cluster.create_topics(pools=1)
        self.bus, self.clock = self.cluster.client("admission"), ClockAndIds(wall=lambda: self.now, boot=lambda: self.now)
        self.times = PositionTimes({}, self.now)
        self.new_process()

    def new_process(self) -> None:
        """It knows of the inputs what the log says."""
        user = User(UNKNOWN, "somebody")
        self.inputs = InputConsumer(self.bus, InputPartitions(self.bus, self.clock), lambda _: True, lambda _: user, LimitRules)
        self.inputs.recorded_at = self.times.of

    def send(self, *values: str) -> None:
        for value in values:
            self.now += 1
            self.cluster.store(TOPIC, 0, None, (), value.encode())

    async def take(self) -> tuple[list[str], list[LostOffsets]]:
        """What a cycle takes, which is done with it."""
        inputs = await self.inputs.read(100, 0.0)
        for message in inputs.messages:
            self.inputs.done(message.topic, message.partition, (message.offset,))
        return [message.value.decode() for message in inputs.messages], inputs.lost

    async def start_anew(self) -> None:
        """The next writer, after a record of now, which may move no position."""
        recorded = self.inputs.positions.all()
        self.times.observe(recorded.items(), self.now)
        await self.inputs.restart(recorded, 1)

    def make_anew(self, *values: str) -> None:
        """Delete the topic and create it."""
        del self.cluster._topics[TOPIC]
        self.cluster.create_topics(pools=1)
        self.send(*values)


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    made = Pool()
    await made.inputs.restart({}, 0)
    yield made
    await made.inputs.close()


async def test_a_topic_made_anew_while_nobody_reads_is_read_from_its_begin(pool: Pool) -> None:
    pool.send("a", "b")
    assert await pool.take() == (["a", "b"], [])
    await pool.start_anew()
    assert await pool.take() == ([], [])
    await pool.start_anew()
    pool.make_anew("c", "d", "e")
    assert await pool.take() == (["c", "d", "e"], [LostOffsets(TOPIC, 0, 2, 0)])
    pool.now += PARTITION_REFRESH_US
    assert await pool.take() == ([], [])


async def test_a_topic_made_anew_is_found_although_a_writer_began_and_ended_since(pool: Pool) -> None:
    """It ended before it had looked, or before that was on record."""
    pool.send("a", "b")
    assert await pool.take() == (["a", "b"], [])
    await pool.start_anew()
    recorded = pool.inputs.positions.all()
    pool.make_anew("c", "d", "e")
    for _ in range(2):
        pool.now += MINUTE
        pool.times.observe(recorded.items(), pool.now)
        await pool.inputs.close()
        pool.new_process()
        await pool.inputs.restart(recorded, 1)
    assert await pool.take() == (["c", "d", "e"], [LostOffsets(TOPIC, 0, 2, 0)])


async def test_a_topic_made_anew_under_a_reader_is_read_from_its_begin_within_half_a_minute(pool: Pool) -> None:
    pool.send("a", "b")
    assert await pool.take() == (["a", "b"], [])
    pool.make_anew("c", "d", "e")
    assert await pool.take() == (["e"], [])
    pool.now += PARTITION_REFRESH_US
    assert await pool.take() == (["c", "d", "e"], [LostOffsets(TOPIC, 0, 3, 0)])
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
    await pool.start_anew()
    pool.cluster.trim(TOPIC, 0, 4)
    pool.send("e")
    assert await pool.take() == (["e"], [])
