"""Bailiff from any Kafka client: requests and log reading without Bailiff's libraries.

The snippets in `docs/snippets/` are those of the docs; here they run unchanged.
"""

import asyncio
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from tests.kits.system import System, Watch
from tests.kits.waiting import PATIENCE_S

from bailiff_core.records.facts import JobSubmitted

SNIPPETS = Path(__file__).parents[2] / "docs" / "snippets"
LONGEST_SNIPPET = 10

needs_kcat = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed (Debian: apt-get install kcat)")


def event(job: str) -> dict[str, str]:
    """The attributes of a request, written out."""
    return {"specversion": "1.0", "id": f"plain-{job}", "source": "/plain", "type": "bailiff.SubmitJob.v1", "pool": "pool-a"}


def data(job: str) -> dict[str, object]:
    """The data of a request, written out."""
    return {"demand": {"job": job, "tasks": [{"gpu_milli": 1000}]}, "spec": {"command": "true"}}


def attributes(job: str) -> list[tuple[str, bytes]]:
    """The attributes as headers of binary mode."""
    return [(f"ce_{name}", value.encode()) for name, value in event(job).items()]


async def test_requests_from_plain_aiokafka_in_both_modes_and_with_any_key(system: System) -> None:
    async with system.watch("pool-a") as pool, AIOKafkaProducer(bootstrap_servers=system.stack.kafka.bootstrap) as producer:
        value = json.dumps(data("plain-binary")).encode()
        await producer.send_and_wait("bailiff.requests", value, headers=attributes("plain-binary"))
        value = json.dumps({**event("plain-structured"), "data": data("plain-structured")}).encode()
        await producer.send_and_wait("bailiff.requests", value, headers=[("content-type", b"application/cloudevents+json")])
        await producer.send_and_wait(
            "bailiff.requests", json.dumps(data("plain-key")).encode(), headers=attributes("plain-key"), key=b"whatever"
        )
        for job in ("plain-binary", "plain-structured", "plain-key"):
            await pool.until_ended(job)
        await pool.verify()


async def test_the_same_request_in_both_modes_is_one_request(system: System) -> None:
    async with system.watch("pool-a") as pool, AIOKafkaProducer(bootstrap_servers=system.stack.kafka.bootstrap) as producer:
        value = json.dumps(data("plain-twice")).encode()
        await producer.send_and_wait("bailiff.requests", value, headers=attributes("plain-twice"))
        value = json.dumps({"data": data("plain-twice"), **event("plain-twice")}, indent=2).encode()
        await producer.send_and_wait("bailiff.requests", value, headers=[("content-type", b"application/cloudevents+json")])
        await pool.until_ended("plain-twice")
        await pool.submit("plain-after", "true")
        await pool.until_ended("plain-after")
        assert len([fact for fact in pool.facts(JobSubmitted) if fact.demand.job == "plain-twice"]) == 1


async def test_the_log_read_with_plain_aiokafka(system: System) -> None:
    async with system.watch("pool-a") as pool:
        await pool.submit("plain-read", "true")
        await pool.until_ended("plain-read")
        records = []
        async with AIOKafkaConsumer(bootstrap_servers=system.stack.kafka.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("bailiff.audit", 0)])
            while len(records) < len(pool.entries):
                message = await asyncio.wait_for(consumer.getone(), PATIENCE_S)
                records.append(({name: content.decode() for name, content in message.headers}, json.loads(message.value)))
        assert [int(headers["ce_seq"]) for headers, _ in records] == list(range(len(records)))
        assert {headers["content-type"] for headers, _ in records} == {"application/json"}
        assert {headers["ce_pool"] for headers, _ in records} == {"pool-a"}
        ended = [value for headers, value in records if headers["ce_type"] == "bailiff.audit.JobEnded.v1"]
        assert {"job": "plain-read", "attempt": 1, "outcome": "succeeded"}.items() <= next(
            value.items() for value in ended if value["job"] == "plain-read"
        )


@pytest.mark.parametrize(
    ("produce", "consume"),
    [("produce_aiokafka.py", "consume_aiokafka.py"), pytest.param("produce_kcat.sh", "consume_kcat.sh", marks=needs_kcat)],
)
async def test_the_snippets_of_the_docs_work_as_they_stand(system: System, produce: str, consume: str) -> None:
    job = "from-" + produce.partition(".")[0].replace("_", "-")
    async with system.watch("pool-a") as pool:
        assert (await output(produce, pool, job))[0] == 0
        await pool.until_ended(job)
        seen = await read_until(consume, pool, lambda line: "JobEnded" in line and f'"{job}"' in line.replace("'", '"'))
        assert any("JobSubmitted" in line and job in line for line in seen)


@pytest.mark.parametrize("name", sorted(path.name for path in SNIPPETS.iterdir()))
def test_a_snippet_is_short(name: str) -> None:
    lines = [line for line in (SNIPPETS / name).read_text().splitlines() if line.strip()]
    code_lines = [line for line in lines if not line.startswith(("#", "import ", "from "))]
    assert len(code_lines) <= LONGEST_SNIPPET


def command(name: str, pool: Watch, *arguments: str) -> list[str]:
    """The command line of the snippet."""
    runner = sys.executable if name.endswith(".py") else "/bin/sh"
    return [runner, str(SNIPPETS / name), pool.system.stack.kafka.bootstrap, *arguments]


async def output(name: str, pool: Watch, *arguments: str) -> tuple[int | None, str]:
    """Exit code and output of a snippet that ends by itself."""
    process = await asyncio.create_subprocess_exec(*command(name, pool, *arguments), stdout=asyncio.subprocess.PIPE)
    try:
        text, _ = await asyncio.wait_for(process.communicate(), 60)
        return process.returncode, text.decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def read_until(name: str, pool: Watch, found: Callable[[str], bool]) -> list[str]:
    """The output lines of a snippet that follows the log, up to the first match."""
    process = await asyncio.create_subprocess_exec(*command(name, pool), stdout=asyncio.subprocess.PIPE, limit=1 << 20)
    lines: list[str] = []
    try:
        assert process.stdout is not None
        while not lines or not found(lines[-1]):
            line = await asyncio.wait_for(process.stdout.readline(), 60)
            assert line, f"{name} exited without a matching line"
            lines.append(line.decode())
        return lines
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
