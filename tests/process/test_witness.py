"""A witness on a real Kafka: tails cut on the broker's disk, with seals and cosignatures, and older copies are found."""

import asyncio
import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kits.archive import displaced
from tests.kits.archived_pool import bailiff, command, grow, until_row
from tests.kits.kafka_disk import cut_tail
from tests.kits.system import PATIENCE_S

from bailiff.audit.cosignatures import Cosigned
from bailiff.witness.witnesses import WitnessAddress
from bailiff_bus import topics
from bailiff_bus.kafka import KafkaBus, connected_admin
from bailiff_bus.messages.seals import CheckpointCosigned, CheckpointRefused
from bailiff_bus.port import BusUnavailable
from bailiff_bus.topic_admin import create_topics
from bailiff_devstack.stack import Plan, Stack
from bailiff_log.cosignatures import parse_cosignature

pytestmark = pytest.mark.kafka

SEALED = 4


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Stack]:
    """Kafka with the topics of one pool, PostgreSQL, an auditor that seals often, and a witness."""
    stack = Stack(tmp_path, Plan(env={"BAILIFF_SEAL_RECORDS": str(SEALED)}), progress=print)
    try:
        await asyncio.to_thread(stack.start_kafka)
        await asyncio.to_thread(stack.postgres.start)
        stack.start_service("auditor")
        stack.start_service("witness")
        yield stack
    finally:
        await asyncio.to_thread(stack.close)


async def published(stack: Stack) -> list[CheckpointCosigned | CheckpointRefused]:
    """All that the witness has published."""
    bus, found = KafkaBus(stack.kafka.settings("operator")), []
    try:
        topic = topics.COSIGNATURES.name
        span = (await bus.spans(topic))[0]
        reader = await bus.reader([(topic, 0, span.begin)])
        while reader.position(topic, 0) < span.end:
            found += [body for each in await reader.read() if (body := parse_cosignature(each, "pool-a")) is not None]
        await reader.close()
    finally:
        await bus.close()
    return found


async def until_cosigned(stack: Stack, size: int) -> None:
    """Wait until the witness has cosigned so many records."""
    key = WitnessAddress.parse(stack.witness).key
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = [
                Cosigned.parse(body.checkpoint, key) for body in await published(stack) if isinstance(body, CheckpointCosigned)
            ]
            if found and found[-1] is not None and found[-1].checkpoint.size >= size:
                return
            await asyncio.sleep(0.1)


async def readiness(stack: Stack, expected: int) -> dict[str, str | None]:
    """The witness's own checks, once it answers with this status."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                with await asyncio.to_thread(urllib.request.urlopen, f"{stack.address('witness')}/readyz", timeout=5) as answer:
                    status, text = answer.status, answer.read()
            except urllib.error.HTTPError as error:
                status, text = error.code, error.read()
            except OSError:
                status = 0
            if status == expected and (status == 200 or json.loads(text)["checks"].get("pool-a")):
                found: dict[str, str | None] = json.loads(text)["checks"]
                return found
            await asyncio.sleep(0.1)


@pytest.mark.timeout(600)
async def test_what_is_cut_on_the_broker_s_disk_is_found_because_a_witness_remembers(stack: Stack, tmp_path: Path) -> None:
    wires = displaced()[0].wires
    whole = len(wires) // SEALED * SEALED
    kept = whole // 2 // SEALED * SEALED
    old, vkey = tmp_path / "old.jsonl", stack.witness.split(" ")[0]
    bus = KafkaBus(stack.kafka.bootstrap)
    try:
        await grow(bus, wires[:kept])
        await until_cosigned(stack, kept)
        command(stack, "audit", "export", str(old))
        await grow(bus, wires[kept:whole])
        await until_cosigned(stack, whole)
        await until_row(stack, "SELECT FROM cosignatures WHERE size = $1", whole)
    finally:
        await bus.close()

    # Everybody agrees, wherever the log is read.
    for arguments in ((), ("--archive", stack.postgres.dsn)):
        for named in (vkey, stack.witness):
            found = bailiff(stack, "audit", "verify", *arguments, "--witnesses", "1", "--witness-key", named)
            assert (found["ok"], found["witnesses"]["cosigned"], found["witnesses"]["problems"]) == (True, whole, [])
    await readiness(stack, 200)

    # An older copy is consistent by itself, with its seals and cosignatures. The witness knows more.
    assert bailiff(None, "audit", "verify", "--file", str(old), "--witnesses", "1", "--witness-key", vkey)["ok"]
    found = bailiff(None, "audit", "verify", "--file", str(old), "--witnesses", "1", "--witness-key", stack.witness, code=1)
    assert f"bailiff-witness cosigned {whole} records" in found["witnesses"]["problems"][0]
    assert found["witnesses"]["problems"][1] == f"the last cosigned position that this log has is {kept}"

    # The broker's disk loses the tail of the log and the seals over it.
    for name in ("auditor", "witness"):
        await asyncio.to_thread(stack.processes.stop, name)
    await asyncio.to_thread(stack.kafka.stop)
    assert cut_tail(stack.kafka.data_dir / f"{topics.AUDIT.name}-0", kept) <= kept
    cut_tail(stack.kafka.data_dir / f"{topics.SEALS.name}-0", 1 + kept // SEALED - 1)
    await asyncio.to_thread(stack.kafka.start)
    found = bailiff(stack, "audit", "verify", code=1)  # the cosignatures are still there
    assert "its tail was cut" in found["witnesses"]["problems"][0]
    assert f"bailiff-witness cosigned {whole} records" in found["witnesses"]["problems"][0]

    # The witness itself refuses to go on, says so, and is not ready.
    stack.start_service("witness")
    checks = await readiness(stack, 503)
    assert f"it has cosigned {whole} records" in (checks["pool-a"] or "")
    async with asyncio.timeout(PATIENCE_S):
        while not isinstance(refused := (await published(stack))[-1], CheckpointRefused):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.1)
    assert "the seals end with" in refused.reason
    assert "refuses to go on: the seals end with" in command(stack, "doctor", code=1)

    # Without the cosignatures nothing in Kafka shows it any more; the witness remembers.
    await asyncio.to_thread(stack.processes.stop, "witness")
    await asyncio.to_thread(stack.kafka.stop)
    cut_tail(stack.kafka.data_dir / f"{topics.COSIGNATURES.name}-0", 1)
    await asyncio.to_thread(stack.kafka.start)
    assert bailiff(stack, "audit", "verify")["ok"]
    stack.start_service("witness")
    await readiness(stack, 503)
    found = bailiff(stack, "audit", "verify", "--witnesses", "1", "--witness-key", stack.witness, code=1)
    assert f"bailiff-witness cosigned {whole} records" in found["witnesses"]["problems"][0]


@pytest.mark.timeout(600)
async def test_topics_of_seals_and_cosignatures_made_anew_lose_nothing(stack: Stack) -> None:
    """While auditor and witness read them; the new ones soon hold more than their positions, from somebody else."""
    wires = displaced()[0].wires
    whole = len(wires) // SEALED * SEALED
    kept, named = whole // 2 // SEALED * SEALED, (topics.SEALS.name, topics.COSIGNATURES.name)
    bus = KafkaBus(stack.kafka.settings("operator"))
    try:
        await grow(bus, wires[:kept])
        await until_cosigned(stack, kept)
        await until_row(stack, "SELECT FROM cosignatures WHERE size = $1", kept)
        trust = bailiff(stack, "audit", "verify")["seal_keys"][0]
        before = [(await bus.spans(name))[0].topic_id for name in named]
        async with connected_admin(stack.kafka.settings("operator")) as admin:
            await admin.delete_topics([*named])
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with contextlib.suppress(BusUnavailable):
                    await create_topics(stack.kafka.settings("operator"), pools=1)
                    now = [(await bus.spans(name))[0].topic_id for name in named]
                    if not set(now) & set(before):
                        break
                await asyncio.sleep(0.1)
        for topic in named:
            producer = await bus.producer()
            for batch in await producer.send_many(topic, [(b"x", (), b"junk")] * 50, partition=0):
                await batch.first
            await producer.close()
        await grow(bus, wires[kept:whole])
        await until_cosigned(stack, whole)
        await until_row(stack, "SELECT FROM cosignatures WHERE size = $1", whole)
    finally:
        await bus.close()
    vkey = stack.witness.split(" ")[0]
    for arguments in ((), ("--archive", stack.postgres.dsn)):
        found = bailiff(stack, "audit", "verify", "--trust", trust, *arguments, "--witnesses", "1", "--witness-key", vkey)
        assert (found["ok"], found["sealed"], found["witnesses"]["cosigned"]) == (True, whole, whole)
        assert found["seals"] == whole // SEALED
    assert "topic-made-anew" in command(stack, "doctor", code=1)
    said = stack.processes.log("auditor").read_text()
    assert all(f"{topic} was cut or made anew" in said for topic in named)
