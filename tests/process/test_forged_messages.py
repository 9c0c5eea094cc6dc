"""Somebody who may write to every topic, and has no certified key, attacks a running system: nothing happens, and it is named.

On a real Kafka, with the keys that `make up` makes.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.system import System, Watch

from bailiff_bus import topics
from bailiff_bus.messages import (
    Evict,
    JobSpec,
    NodeHeartbeat,
    StartEviction,
    StartTask,
    TaskAssignment,
    TaskReleasedReport,
)
from bailiff_bus.messages.commands import RecordRef
from bailiff_bus.messages.reports import FenceStatus
from bailiff_core.model.document import MAX_INTEGER
from bailiff_core.records import encode
from bailiff_core.records.facts import ClockAdvanced, InputRejected

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """One machine with eight GPUs. A separate system: its log will contain orphans."""
    made = System(tmp_path_factory.mktemp("forged"), pools={"pool-a": 1})
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
async def pool(system: System) -> AsyncIterator[Watch]:
    async with system.watch("pool-a") as watching:
        yield watching


async def rejected(pool: Watch, code: str) -> InputRejected:
    return await pool.record(InputRejected, code=code)


async def test_a_forged_start_runs_nothing_and_raises_an_alarm(pool: Watch, tmp_path: Path) -> None:
    (node,) = pool.state.nodes.values()
    forged = StartTask(
        node=node.name, incarnation=node.incarnation, sender="admission", sender_epoch=pool.state.epoch,
        ordered_by=RecordRef(epoch=pool.state.epoch, seq=pool.state.seq), job="intruder", attempt=1,
        tasks=(TaskAssignment(task=0),), spec=JobSpec(command=f"touch {tmp_path}/was-here"), grace=1_000_000,
        master_node=node.name,
    )  # fmt: skip
    await pool.publish(topics.NODE_COMMANDS.name, forged)
    assert node.name in await pool.until_alarm("commands-refused")
    # commands to one node are obeyed in order: a job that was started after the forged one shows that it was passed over
    await pool.submit("after-the-forged-start", "true", gpus=0)
    await pool.until_ended("after-the-forged-start")
    assert not (tmp_path / "was-here").exists()


async def test_a_forged_eviction_stops_nobody(pool: Watch) -> None:
    await pool.submit("stays")
    await pool.until_running("stays")
    job, (node,) = pool.job("stays"), pool.state.nodes.values()
    await pool.publish(
        topics.NODE_COMMANDS.name,
        Evict(
            node=node.name,
            incarnation=node.incarnation,
            sender="executor",
            sender_epoch=pool.state.epoch,
            job="stays",
            ordered_by=RecordRef(epoch=pool.state.epoch, seq=MAX_INTEGER),
            attempt=job.attempt,
            tasks=(0,),
            grace=1_000_000,
            cause="preemption",
        ),
    )
    await pool.publish(topics.EVICTION_PROGRESS.name, StartEviction(job="stays", attempt=job.attempt, decided_by=pool.state.seq))
    assert (await rejected(pool, "not-signed")).topic == topics.EVICTION_PROGRESS.name
    await pool.submit("later", "true", gpus=0)
    await pool.until_ended("later")
    assert pool.running("stays")
    await pool.cancel("stays")
    await pool.until_ended("stays", "cancelled")


async def test_a_heartbeat_with_a_huge_epoch_does_not_end_the_pool(pool: Watch) -> None:
    (node,) = pool.state.nodes.values()
    fence = FenceStatus(epoch=MAX_INTEGER, seq=MAX_INTEGER, newest_epoch=MAX_INTEGER)
    await pool.publish(
        topics.NODE_REPORTS.name, NodeHeartbeat(node=node.name, incarnation=node.incarnation, number=MAX_INTEGER, fence=fence)
    )
    await rejected(pool, "not-signed")
    await pool.submit("goes-on", "true")
    await pool.until_ended("goes-on")


async def test_a_forged_release_frees_no_gpu(pool: Watch) -> None:
    await pool.submit("holds", gpus=8)
    await pool.until_running("holds")
    job, (node,) = pool.job("holds"), pool.state.nodes.values()
    report = TaskReleasedReport(
        node=node.name, incarnation=node.incarnation, number=MAX_INTEGER, job="holds", attempt=job.attempt, task=0
    )
    await pool.publish(topics.NODE_REPORTS.name, report)
    assert (await rejected(pool, "not-signed")).topic == topics.NODE_REPORTS.name
    assert pool.running("holds")
    await pool.cancel("holds")
    await pool.until_ended("holds", "cancelled")


async def test_a_forged_record_does_not_continue_the_log(pool: Watch) -> None:
    last = pool.entries[-1]
    forged = replace(
        last.record, seq=last.record.seq + 1, prev=last.hash, type=ClockAdvanced.TYPE, data=ClockAdvanced(), writer="intruder",
        next_content="", signature="",
    )  # fmt: skip
    wire = encode(forged)
    partition = pool.projection.partition
    await pool.publish_raw(topics.AUDIT.name, wire.value, wire.headers, partition=partition)
    await pool.submit("after-the-forged-record", "true", gpus=0)
    await pool.until_ended("after-the-forged-record")
    assert [orphan.reason for orphan in pool.projection.reader.latest_orphans][-1:] == ["it is not signed"]
    await pool.verify(orphans=True)
