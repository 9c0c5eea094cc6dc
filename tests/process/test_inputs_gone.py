"""Input topics that lose unread messages, and that get partitions while the system runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from tests.kits.system import System, Watch

from bailiff_admission.input_consumer import INPUTS
from bailiff_bus import topics
from bailiff_bus.envelope import unwrap
from bailiff_bus.messages.reports import ReportBody, TaskReleasedReport, TaskReport
from bailiff_core.records.facts import InputsLost, JobSubmitted

GROWN = topics.REQUESTS.partition_count(1) + 1


async def test_inputs_deleted_unread_are_on_record_and_new_partitions_are_read(battered: System) -> None:
    async with battered.watch("pool-a") as pool, admin_of(battered) as admin:
        await pool.clear()
        await pool.submit("runs-on", gpus=2)
        await pool.submit("ends-unheard", pool.until_signalled(), gpus=1)
        await pool.until_running("runs-on", "ends-unheard")

        # While admission is down, requests and the exit of a task are sent and then deleted by retention.
        battered.kill("admission")
        pool.let_finish("ends-unheard")
        await pool.until_true("its end is reported", lambda: reported(pool, TaskReleasedReport, "ends-unheard"))
        receipts = [await pool.submit(f"never-read-{number}") for number in range(3)]
        ends = {
            (topic.name, partition): span.end
            for topic in INPUTS
            for partition, span in (await pool.bus.spans(topic.name)).items()
            if span.end
        }
        await admin.delete_records({TopicPartition(*at): RecordsToDelete(end) for at, end in ends.items()})
        battered.start_service("admission")
        lost = await pool.record(InputsLost, topic=topics.REQUESTS.name)
        assert lost.to_offset == ends[lost.topic, lost.partition]
        assert lost.to_offset - lost.from_offset >= len(receipts)
        assert "were deleted unread" in await pool.until_alarm("inputs-lost", mentions=topics.REQUESTS.name)

        # Later messages are read, and no running task was stopped.
        await pool.submit("sent-after", "true", gpus=1)
        await pool.until_ended("sent-after")
        assert pool.running("runs-on")
        assert pool.job("runs-on").attempt == 1
        await pool.until_ended("ends-unheard")
        assert not [fact for fact in pool.facts(JobSubmitted) if fact.demand.job.startswith("never-read")]

        # Partitions are added while the system runs: requests, reports, and node commands.
        grown = (*INPUTS, topics.NODE_COMMANDS)
        await admin.create_partitions({topic.name: NewPartitions(GROWN) for topic in grown})
        await pool.submit("in-a-new-partition", gpus=1, partition=GROWN - 1)
        await pool.until_running("in-a-new-partition")
        for number in range(8):
            await pool.submit(f"after-{number}", "true", gpus=0)
        await pool.submit("urgent", "true", gpus=7, kind="inference")
        for name in ("urgent", *(f"after-{number}" for number in range(8))):
            await pool.until_ended(name)
        await pool.verify(orphans=True)


@asynccontextmanager
async def admin_of(system: System) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=system.stack.kafka.bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def reported(pool: Watch, kind: type[TaskReport], job: str) -> bool:
    """Whether an agent has sent this report about the job."""
    bodies = [unwrap(message, accept=(ReportBody,)).body for message in await pool.everything(topics.NODE_REPORTS.name)]
    return any(isinstance(body, kind) and body.job == job for body in bodies)
