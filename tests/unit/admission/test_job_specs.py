"""Private parts of jobs: available to the writer of the log, whatever an earlier writer does."""

import pytest
from tests.log_builder import Story

from bailiff_admission.job_specs import JobSpecs
from bailiff_bus import topics
from bailiff_bus.messages import JobSpec
from bailiff_bus.messages.requests import spec_digest
from bailiff_bus.testing import MemoryBus, MemoryCluster

SPEC = JobSpec(command=("train",))


@pytest.fixture
def bus() -> MemoryBus:
    cluster = MemoryCluster(lambda: 0)
    cluster.create_topics(1)
    return cluster.client("somebody")


async def stored(specs: JobSpecs, bus: MemoryBus, salt: bytes, job: str = "train-1") -> str:
    producer = await bus.producer()
    for batch in await specs.store(producer, [specs.take(job, SPEC.to_json(), salt)]):
        await batch.first
    return spec_digest(salt, SPEC.to_json())


def compacted(bus: MemoryBus) -> None:
    """What compaction leaves: the newest message of each key."""
    for partition in bus.cluster.partitions(topics.JOB_SPECS.name):
        newest = {message.key: message for message in partition.messages}
        partition.messages = sorted(newest.values(), key=lambda message: message.offset)


async def test_a_writer_of_the_past_does_not_overwrite_the_spec_that_the_log_names(bus: MemoryBus) -> None:
    named_by_the_log = await stored(JobSpecs("pool-a"), bus, b"salt of the writer")
    await stored(JobSpecs("pool-a"), bus, b"salt of one that was replaced, and reads the same request")
    compacted(bus)
    successor = JobSpecs("pool-a")
    await successor.load(bus)
    found = successor.get("train-1", named_by_the_log)
    assert found is not None
    assert found.salt == b"salt of the writer".hex()


async def test_specs_that_the_log_does_not_name_are_erased(bus: MemoryBus, story: Story) -> None:
    specs = JobSpecs("pool-a")
    digests = [await stored(specs, bus, salt) for salt in (b"one", b"other")]
    assert await specs.erase_old(await bus.producer(), story.state) == 2
    compacted(bus)
    again = JobSpecs("pool-a")
    await again.load(bus)
    assert [again.get("train-1", digest) for digest in digests] == [None, None]


async def test_specs_of_other_pools_and_without_a_pool_are_skipped(bus: MemoryBus) -> None:
    mine = await stored(JobSpecs("pool-a"), bus, b"salt")
    other = await stored(JobSpecs("pool-ab"), bus, b"pepper")
    producer = await bus.producer()
    for key in (None, b"", b"pool-a", b"pool-a/", b"\xff/x", b"pool-a/train-1/nonsense"):
        await (await producer.send(topics.JOB_SPECS.name, b"nonsense", key=key))
    specs = JobSpecs("pool-a")
    await specs.load(bus)
    assert specs.get("train-1", mine) is not None
    assert specs.get("train-1", other) is None
