"""Topics that are deleted, and messages that retention deletes, while jobs are submitted and preempted.

Who reads a topic that is gone waits, says so, and goes on once it is back. What was lost is on record.
"""

import asyncio
from collections.abc import Iterator

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete
from tests.kits.archived_pool import bailiff
from tests.kits.load import load, preempted
from tests.kits.system import System
from tests.kits.waiting import until

from bailiff_admission.input_consumer import INPUTS
from bailiff_bus import topics
from bailiff_bus.kafka import connected_admin
from bailiff_bus.topic_admin import create_topics
from bailiff_core.records.facts import InputsLost, JobSubmitted, WriterStarted

pytestmark = pytest.mark.timeout(600)

POOL = "pool-a"
WAITS = {
    topics.REQUESTS.name: "admission",
    topics.PROPOSALS.name: "admission",
    topics.EVICTION_PROGRESS.name: "admission",
    topics.NODE_REPORTS.name: "admission",
    topics.NODE_COMMANDS.name: "node-agent",
}
"""Who reads it all the time."""
SAMPLE = (topics.REQUESTS.name, topics.NODE_COMMANDS.name)


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A separate system: its topics are deleted."""
    with System(tmp_path_factory.mktemp("gone"), pools={POOL: 1}) as system:
        yield system


@pytest.mark.parametrize("topic", [pytest.param(each, marks=() if each in SAMPLE else pytest.mark.long) for each in WAITS])
async def test_a_topic_deleted_under_load_is_waited_for_and_named(lone: System, topic: str) -> None:
    service = WAITS[topic]
    async with lone.watch(POOL) as pool:
        await pool.clear()
        async with load(lone, POOL, topic.removeprefix("bailiff.")):
            await preempted(pool)
            async with connected_admin(lone.stack.kafka.settings("operator")) as admin:
                await admin.delete_topics([topic])

            async def named() -> bool:
                _, text = await lone.get(service, "/readyz")
                return f"topic {topic} does not exist" in text

            await pool.until_true(f"{service} says that it waits for the topic", named)
            found = await asyncio.to_thread(bailiff, lone.stack, "doctor", code=1)
            assert topic in next(each["found"] for each in found if each["check"] == "topics")
            lone.stack.processes.check()
            before = len(pool.facts(JobSubmitted))
            await create_topics(lone.stack.kafka.settings("operator"), pools=1)
            pool.producer = await pool.bus.producer()
            await pool.until("requests are read again", lambda _: len(pool.facts(JobSubmitted)) > before)
            await preempted(pool)
        if service == "admission":
            assert pool.facts(InputsLost, topic=topic)
            await pool.until_alarm("inputs-lost", mentions=topic)
            assert "inputs-lost from admission" in await asyncio.to_thread(lone.command, POOL, "doctor")
        await asyncio.to_thread(lone.wait_ready)
        await pool.verify(orphans=True)
        assert "Traceback" not in lone.log_of(service)


@pytest.mark.parametrize("admission", ["is-down", "reads", "reads-on-and-ends"])
async def test_a_topic_made_anew_and_filled_beyond_the_position_is_read_from_its_begin(lone: System, admission: str) -> None:
    topic, name, running = topics.REQUESTS.name, f"anew-{admission}", admission != "is-down"
    async with lone.watch(POOL) as pool:
        await pool.clear()
        for number in range(3):
            await pool.submit(f"{name}-before-{number}", "true", gpus=0, partition=0)
            await pool.until_ended(f"{name}-before-{number}")
        position = (await pool.bus.spans(topic))[0].end
        if not running:
            lone.kill("admission")
        async with connected_admin(lone.stack.kafka.settings("operator")) as admin:
            await admin.delete_topics([topic])

        async def is_empty() -> bool:
            await create_topics(lone.stack.kafka.settings("operator"), pools=1)
            return not (await pool.bus.spans(topic))[0].end

        await pool.until_true("the topic is there anew", is_empty)
        pool.producer = await pool.bus.producer()
        jobs = [f"{name}-after-{number}" for number in range(position + 2)]
        for job in jobs:
            await pool.submit(job, "true", gpus=0, partition=0)
        if not running:
            writers = len(pool.facts(WriterStarted))
            lone.start_service("admission")  # one that ends at once: its first record must not hide that the topic is another
            await pool.until("a writer has begun", lambda _: len(pool.facts(WriterStarted)) > writers)
        elif admission == "reads-on-and-ends":  # within half a minute: it has not looked whether the topic is another one
            await pool.until("it reads on", lambda _: any(fact.demand.job == jobs[-1] for fact in pool.facts(JobSubmitted)))
        if admission != "reads":
            lone.kill("admission")
            lone.start_service("admission")
        for job in jobs:
            await pool.until_ended(job)
        lost = [each for each in pool.facts(InputsLost, topic=topic, partition=0) if each.to_offset == 0]
        submitted = [fact.demand.job for fact in pool.facts(JobSubmitted) if fact.demand.job in jobs]
        assert sorted(submitted) == sorted(jobs)
        assert running or lost[-1].from_offset >= position
        await pool.until_alarm("inputs-lost", mentions=f"{topic}/0 was cut or made anew")
        await asyncio.to_thread(lone.wait_ready)
        await pool.verify(orphans=True)


async def test_what_retention_deletes_under_load_is_on_record_and_the_rest_is_decided(lone: System) -> None:
    async with lone.watch(POOL) as pool:
        await pool.clear()
        async with load(lone, POOL, "retention") as given:
            await preempted(pool)
            lone.kill("admission")
            unread = len(given.acknowledged) + 5
            await until(lambda: len(given.acknowledged) >= unread)
            async with connected_admin(lone.stack.kafka.settings("operator")) as admin:
                ends = {
                    TopicPartition(topic.name, partition): RecordsToDelete(span.end)
                    for topic in INPUTS
                    for partition, span in (await pool.bus.spans(topic.name)).items()
                }
                await admin.delete_records(ends)
            lone.start_service("admission")
            lost = await pool.record(InputsLost, topic=topics.REQUESTS.name)
            assert lost.to_offset - lost.from_offset >= 5
            await pool.until_alarm("inputs-lost", mentions=topics.REQUESTS.name)
            await preempted(pool)
        await pool.verify(orphans=True)
