"""The auditor as a process on a real Kafka and a real PostgreSQL: it survives outages of both, and the archive equals the log.

It is killed at random places while the log grows (5 times; 50 in the long run, in two parts), PostgreSQL is killed
meanwhile, and a second replica is on standby.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.bench.synthetic import plain_log
from tests.kits.archive import archived, displaced, query
from tests.kits.archived_pool import SLICE, bailiff, command, everything, grow, until_archived, until_row
from tests.kits.kafka_disk import cut_tail
from tests.kits.system import PATIENCE_S

from bailiff_bus import topics
from bailiff_bus.kafka import KafkaBus
from bailiff_devstack.stack import Plan, Stack

BEGUN = 1_000
AWAY_S = 60.0
OFTEN = {"BAILIFF_SEAL_RECORDS": "500", "BAILIFF_KAFKA__SESSION_TIMEOUT_MS": "2000"}

pytestmark = pytest.mark.kafka


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Stack]:
    """Kafka with the topics of one pool, and PostgreSQL; no service yet."""
    stack = Stack(tmp_path, Plan(env=OFTEN), progress=print)
    try:
        await asyncio.to_thread(stack.start_kafka)
        await asyncio.to_thread(stack.postgres.start)
        yield stack
    finally:
        await asyncio.to_thread(stack.close)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("kills", "seed"), [(5, 1), *(pytest.param(25, seed, marks=pytest.mark.long) for seed in (2, 3))])
async def test_killed_at_random_under_load_the_archive_equals_the_log(
    stack: Stack, kills: int, seed: int, tmp_path: Path
) -> None:
    dice = random.Random(seed)
    wires = list(plain_log(700 * kills))
    places = sorted(dice.sample(range(BEGUN, len(wires) - 500), kills))
    bus = KafkaBus(stack.kafka.bootstrap)
    try:
        stack.start_service("auditor")
        stack.start_service("auditor", replica="-2")
        await grow(bus, wires[:BEGUN])
        await until_sealed(stack)
        growing = asyncio.create_task(grow(bus, wires[BEGUN:]))
        for number, place in enumerate(places):
            victim = ("auditor", "auditor-2")[number % 2]
            await until_archived(stack, place)
            await asyncio.to_thread(stack.processes.kill9, victim)
            if number == kills // 2:
                await asyncio.to_thread(stack.postgres.kill9)
                await asyncio.to_thread(stack.postgres.start)
            stack.start_service("auditor", replica=victim.removeprefix("auditor"))
        await growing
        await until_archived(stack, len(wires) - 1)
        log = await everything(bus)
    finally:
        await bus.close()
    assert await archived(stack.postgres.dsn) == log
    assert [message.value for message in log] == [wire.value for wire in wires]
    await asyncio.to_thread(stack.processes.wait_ready, "auditor", "auditor-2", timeout_s=PATIENCE_S)

    # The command finds the same: in Kafka, in the archive, and for one record with nothing but a file.
    assert bailiff(stack, "audit", "verify")["ok"]
    found = bailiff(stack, "audit", "verify", "--archive", stack.postgres.dsn)
    assert (found["ok"], found["records"]) == (True, len(wires))
    assert found["sealed"] >= len(wires) - 1_000
    assert bailiff(stack, "audit", "seals")["ok"]
    for requested in (("321",), ("node-1/gpu0@2027-01-15T08:05:00Z",)):
        assert bailiff(stack, "explain", *requested, "--archive", stack.postgres.dsn) == bailiff(stack, "explain", *requested)
    replayed = bailiff(stack, "audit", "replay", "--to", "#1", "--archive", stack.postgres.dsn)  # not decided by an engine
    assert (replayed["ok"], replayed["to_seq"]) == (True, 1)
    proof = tmp_path / "proof.json"
    command(stack, "audit", "prove", "321", "--to", str(proof))
    checked = bailiff(None, "audit", "check-proof", str(proof), "--trust", found["seal_keys"][0])
    assert (checked["ok"], checked["seq"]) == (True, 321)
    command(stack, "audit", "export", str(tmp_path / "kept"), "--segment", "1000", "--archive", stack.postgres.dsn)
    kept = bailiff(None, "audit", "verify", "--file", str(tmp_path / "kept"), "--trust", found["seal_keys"][0])
    assert kept["ok"]
    assert kept["records"] >= len(wires) - 2_000


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_a_postgresql_outage_of_a_minute_loses_nothing_and_delays_no_job(stack: Stack) -> None:
    wires = list(plain_log(6_000))
    bus = KafkaBus(stack.kafka.bootstrap)
    try:
        stack.start_service("auditor")
        await grow(bus, wires[:BEGUN])
        await until_archived(stack, BEGUN - 1)
        await asyncio.to_thread(stack.postgres.kill9)
        back = asyncio.get_running_loop().time() + AWAY_S
        for begin in range(BEGUN, len(wires), SLICE):  # the log grows during the outage
            await grow(bus, wires[begin : begin + SLICE])
        while asyncio.get_running_loop().time() < back:  # noqa: ASYNC110 - the minute is what this is about
            await asyncio.sleep(1)
        stack.processes.check("auditor")
        await asyncio.to_thread(stack.postgres.start)
        await until_archived(stack, len(wires) - 1)
        assert await archived(stack.postgres.dsn) == await everything(bus)
        await asyncio.to_thread(stack.processes.wait_ready, "auditor", timeout_s=PATIENCE_S)
    finally:
        await bus.close()


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_a_log_whose_tail_the_disk_lost_is_followed_again_after_an_operator_accepts(stack: Stack) -> None:
    story = displaced()[0]
    keep = len(story.wires) - 8
    bus = KafkaBus(stack.kafka.bootstrap)
    try:
        stack.start_service("auditor", env={"BAILIFF_SEAL_RECORDS": "4"})
        await grow(bus, story.wires[:keep])
        await grow(bus, story.wires[keep:])
        await until_archived(stack, len(story.wires) - 1)
        await until_row(stack, "SELECT FROM seals WHERE size > $1", keep)
        before = await archived(stack.postgres.dsn)
    finally:
        await bus.close()
    await asyncio.to_thread(stack.kafka.stop)
    end = cut_tail(stack.kafka.data_dir / f"{topics.AUDIT.name}-0", keep)
    assert 0 < end <= keep
    await asyncio.to_thread(stack.kafka.start)
    left = story.resumed(end)
    left.restart(after=1_000_000)
    for number in range(12):  # it becomes longer than before
        left.submit(f"later-{number}")
    bus = KafkaBus(stack.kafka.bootstrap)
    try:
        await grow(bus, left.wires[end:])
        await until_row(stack, "SELECT FROM pools WHERE broken LIKE '%no longer holds%'")
        assert await archived(stack.postgres.dsn) == before  # nothing changes before the command
        command(stack, "audit", "fork", "--archive", stack.postgres.dsn, "--reason", "the disk was replaced")
        await until_row(stack, "SELECT FROM pools WHERE next_seq = $1", len(left.wires))
        await until_row(stack, "SELECT FROM seals WHERE size > $1", len(left.wires) - 4)
        assert await archived(stack.postgres.dsn) == await everything(bus)
    finally:
        await bus.close()
    (fork,) = await query(stack.postgres.dsn, "SELECT from_seq, head_seq, reason FROM forks")
    assert tuple(fork.values()) == (end, len(story.wires) - 1, "the disk was replaced")
    lost = await query(stack.postgres.dsn, "SELECT value FROM fork_records ORDER BY seq")
    assert [row["value"] for row in lost] == [wire.value for wire in story.wires[end:]]
    for arguments in ((), ("--archive", stack.postgres.dsn), ("--archive", stack.postgres.dsn, "--derived")):
        found = bailiff(stack, "audit", "verify", *arguments)
        assert (found["ok"], found["records"], len(found["forked"]), found["derived"]) == (True, len(left.wires), 1, [])


async def until_sealed(stack: Stack) -> None:
    """Wait for the first seal."""
    await until_archived(stack, BEGUN - 1)
    async with asyncio.timeout(PATIENCE_S):
        while not await query(stack.postgres.dsn, "SELECT size FROM seals"):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.02)
