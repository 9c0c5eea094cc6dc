"""A log that lacks its newest part. Where agents have obeyed it, nothing is decided until an operator accepts the loss."""

import asyncio
import contextlib
import re
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from tests.kits.kafka_disk import cut_tail
from tests.kits.system import POLICY, System, Watch

from bailiff_admission.startup_records import first_records
from bailiff_bus import topics
from bailiff_bus.envelope import unwrap
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.messages.reports import NodeHeartbeat, ReportBody
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead
from bailiff_core.records.decisions import JobPlaced
from bailiff_core.records.facts import JobSubmitted, LogTruncated, PolicyApplied, PoolCreated, WriterStarted
from bailiff_log.credentials import issued_credentials
from bailiff_log.writer import chain_records
from bailiff_service.clock_and_ids import SYSTEM

LIVES = 'while read up _ < /proc/uptime; do echo "$$ $up" >> {beats}; sleep 0.05; done'


@pytest.fixture
def lone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A separate system: its log will be truncated."""
    with System(tmp_path_factory.mktemp("cut"), env={"BAILIFF_HEARTBEAT_S": "0.3"}, pools={"pool-a": 1}) as system:
        yield system


@pytest.fixture
def unstarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Kafka alone, and two services to start."""
    with contextlib.closing(System(tmp_path_factory.mktemp("unstarted"), pools={"pool-a": 1})) as system:
        system.services = ("admission", "node-agent")
        system.start_kafka()
        yield system


async def test_a_log_that_ends_before_its_first_policy_is_continued_by_another_replica(unstarted: System) -> None:
    await append_pool_created(unstarted)
    unstarted.start_services()
    async with unstarted.watch("pool-a") as pool:
        await pool.submit("first", "true")
        await pool.until_ended("first")
        assert [type(entry.record.data) for entry in pool.entries[:3]] == [PoolCreated, WriterStarted, PolicyApplied]
        assert pool.state.root_key
        assert pool.state.rules.max_rejections_per_minute == POLICY.max_rejections_per_minute
        await pool.verify()


async def append_pool_created(system: System) -> None:
    """What is left of a replica that died while it created the pool."""
    folder, now = system.folder / "credentials", time.time_ns() // 1000
    owner = issued_credentials(folder / "dead", folder / "root.key", role="admission", name="dead", now=now)
    records = first_records(
        PoolState(),
        "pool-a",
        0,
        ChainHead("pool-a"),
        writer="dead",
        time=now,
        first_policy=POLICY,
        clock_and_ids=SYSTEM,
        credentials=owner,
    )
    _, created, _ = chain_records(ChainHead("pool-a"), records, owner)[0]
    bus = KafkaBus(system.stack.kafka.settings("operator"))
    try:
        producer = await bus.producer()
        await (await producer.send(topics.AUDIT.name, created.value, headers=created.headers, partition=0))
    finally:
        await bus.close()


async def test_a_truncated_log_is_detected_and_continues_when_an_operator_accepts_the_loss(lone: System) -> None:
    async with lone.watch("pool-a") as pool:
        await pool.submit("kept", gpus=2)
        await pool.until_running("kept")
        await pool.noted("kept", attempt=1)
        await pool.submit("forgotten", LIVES.format(beats=beats_of(pool)), gpus=4)
        await pool.until_running("forgotten")
        await pool.until("the job has written a note", lambda _: beats_of(pool).exists())
        placed = next(
            entry for entry in pool.entries if isinstance(entry.record.data, JobPlaced) and entry.record.data.job == "forgotten"
        )
        await until_agent_has_obeyed(pool, placed.record.seq)
        pool.keep("kept", "forgotten")

    # The disk loses the records after the request, which agents have obeyed.
    lone.kill("admission")
    await asyncio.to_thread(lone.stack.kafka.stop)
    end = cut_tail(lone.stack.kafka.data_dir / f"{topics.AUDIT.name}-0", placed.offset)
    first_lost = next(entry.record.seq for entry in pool.entries if entry.offset >= end)
    await asyncio.to_thread(lone.stack.kafka.start)

    async with lone.watch("pool-a") as pool:
        assert pool.state.seq == first_lost - 1
        await until_agent_has_obeyed(pool, placed.record.seq, anew=True)
        lone.start_service("admission")
        alarm = await pool.until_alarm("log-truncated")
        assert str(placed.record.epoch) in alarm
        await pool.submit("requested-meanwhile", "true", gpus=0)

        # The writer has started, and decides nothing.
        found = re.search(r"#(?P<seq>\d+) of epoch (?P<epoch>\d+)", alarm)
        assert found
        arguments = ["--epoch", found["epoch"], "--seq", found["seq"], "--reason", "the disk was replaced"]
        await asyncio.to_thread(lone.command, "pool-a", "log", "accept-truncation", *arguments)
        accepted = await pool.record(LogTruncated)
        assert (str(accepted.epoch), str(accepted.seq)) == (found["epoch"], found["seq"])
        since = [type(entry.record.data) for entry in pool.entries if entry.record.seq >= first_lost]
        assert since[: since.index(LogTruncated)] == [WriterStarted], since

        # The pool continues: known tasks keep running, unknown tasks are ended, pending requests are served.
        await pool.until_ended("requested-meanwhile")
        assert pool.state.epoch > accepted.epoch
        await pool.until_running("kept", "forgotten")
        assert pool.job("kept").attempt == 1
        pool.assert_started_once("kept")
        submitted = [fact.demand.job for fact in pool.facts(JobSubmitted)]
        assert sorted(submitted) == ["forgotten", "kept", "requested-meanwhile"]
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        await pool.until("the lost job runs", lambda _: max(last for _, last in lives(pool)) > now)
        times = lives(pool)
        assert all(last < first for (_, last), (first, _) in pairwise(times)), f"it ran twice at the same time: {times}"
        await pool.verify(orphans=True)


async def until_agent_has_obeyed(pool: Watch, seq: int, *, anew: bool = False) -> None:
    """Wait for a heartbeat of an agent that has obeyed this record; anew: only future heartbeats count."""
    reports = await pool.bus.spans(topics.NODE_REPORTS.name)
    ends = {partition: span.end for partition, span in reports.items()} if anew else {}

    async def obeyed() -> bool:
        for message in await pool.everything(topics.NODE_REPORTS.name):
            body = unwrap(message, accept=(ReportBody,)).body
            if isinstance(body, NodeHeartbeat) and body.fence.seq >= seq and message.offset >= ends.get(message.partition, 0):
                return True
        return False

    await pool.until_true(f"an agent reports that it has obeyed #{seq}", obeyed)


def beats_of(pool: Watch) -> Path:
    """The notes of the lost job's processes."""
    return pool.system.marks / "forgotten.beats"


def lives(pool: Watch) -> list[tuple[float, float]]:
    """When each of these processes ran, by its own notes: first and last time, boot clock, in order."""
    notes: dict[str, list[float]] = {}
    for line in beats_of(pool).read_text().splitlines():
        process, at = line.split()
        notes.setdefault(process, []).append(float(at))
    return sorted((times[0], times[-1]) for times in notes.values())
