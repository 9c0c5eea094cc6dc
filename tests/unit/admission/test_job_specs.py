"""Private parts of jobs: available to the writer of the log, whatever an earlier writer does."""

import pytest
from tests.kits.log_builder import Story
from tests.kits.memory_bus import MemoryBus, MemoryCluster

from bailiff_admission import job_specs
from bailiff_admission.job_specs import JobSpecs
from bailiff_bus import topics
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec, spec_digest
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import JobSubmitted, RequestId

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
    await successor.load(bus, PoolState())
    found = successor.get("train-1", named_by_the_log)
    assert found is not None
    assert found.salt == b"salt of the writer".hex()


async def test_specs_that_the_log_does_not_name_are_erased(bus: MemoryBus, story: Story) -> None:
    specs = JobSpecs("pool-a")
    digests = [await stored(specs, bus, salt) for salt in (b"one", b"other")]
    assert await specs.erase_old(await bus.producer(), story.state) == 2
    compacted(bus)
    again = JobSpecs("pool-a")
    await again.load(bus, PoolState())
    assert [again.get("train-1", digest) for digest in digests] == [None, None]


async def test_erasures_in_a_topic_made_anew_are_read(bus: MemoryBus) -> None:
    """Also where the first one stands at an offset that was read in the topic before."""
    specs = JobSpecs("pool-a")
    digest = await stored(specs, bus, b"salt")
    await specs.take_erasures(bus, PoolState())
    bus.cluster.delete_topic(topics.JOB_SPECS.name)
    bus.cluster.create_topics(1)
    bus.cluster.store(topics.JOB_SPECS.name, 0, f"pool-a/train-1/{digest}".encode(), (), b"")
    await specs.take_erasures(bus, PoolState())
    assert specs.get("train-1", digest) is None


async def test_specs_of_other_pools_and_without_a_pool_are_skipped(bus: MemoryBus) -> None:
    mine = await stored(JobSpecs("pool-a"), bus, b"salt")
    other = await stored(JobSpecs("pool-ab"), bus, b"pepper")
    producer = await bus.producer()
    for key in (None, b"", b"pool-a", b"pool-a/", b"\xff/x", b"pool-a/train-1/nonsense"):
        await (await producer.send(topics.JOB_SPECS.name, b"nonsense", key=key))
    specs = JobSpecs("pool-a")
    await specs.load(bus, PoolState())
    assert specs.get("train-1", mine) is not None
    assert specs.get("train-1", other) is None


async def test_a_topic_that_somebody_fills_takes_bounded_memory_and_hides_no_spec(
    bus: MemoryBus, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With specs of invented jobs, of a known job, under one key, and erased ones."""
    digest = await stored(JobSpecs("pool-a"), bus, b"salt")
    demand = JobDemand(job="train-1", tasks=(TaskGroup(cpu_milli=1),))
    story.cycle(JobSubmitted(request=RequestId(source="/a", id="1", digest="0" * 64), demand=demand, spec_digest=digest))
    producer = await bus.producer()
    value = bus.cluster.messages(topics.JOB_SPECS.name, 0)[0].value
    monkeypatch.setattr(job_specs, "MAX_UNNAMED_BYTES", 10 * len(value))
    for number in range(100):
        await stored(JobSpecs("pool-a"), bus, b"%d" % number, f"invented-{number}")
        await stored(JobSpecs("pool-a"), bus, b"%d" % number)
        await (await producer.send(topics.JOB_SPECS.name, b"x" * 100, key=b"pool-a/invented/1"))
    again = await stored(JobSpecs("pool-a"), bus, b"salt")
    specs = JobSpecs("pool-a")
    await specs.load(bus, story.state)
    assert again == digest
    assert specs.get("train-1", digest) is not None
    assert len(specs._specs) <= 11
    assert not specs._undecryptable
    erased = await specs.erase_old(producer, story.state)
    assert 0 < erased <= 10, "the rest at later starts"


@pytest.mark.parametrize("value", [b"", b"{", b"{}", b'{"encrypted":"AAAA"}', b'{"salt":"00","spec":{"command":["another"]}}'])
async def test_a_spec_that_somebody_wrote_over_is_still_read_and_stored_again(bus: MemoryBus, story: Story, value: bytes) -> None:
    digest = await stored(JobSpecs("pool-a"), bus, b"salt")
    demand = JobDemand(job="train-1", tasks=(TaskGroup(cpu_milli=1),))
    story.cycle(JobSubmitted(request=RequestId(source="/a", id="1", digest="0" * 64), demand=demand, spec_digest=digest))
    producer = await bus.producer()
    await (await producer.send(topics.JOB_SPECS.name, value, key=f"pool-a/train-1/{digest}".encode()))
    specs = JobSpecs("pool-a")
    await specs.load(bus, story.state)
    found = specs.get("train-1", digest)
    assert found is not None
    assert found.spec == SPEC
    assert [each.digest for each in specs.replaced] == [digest]
