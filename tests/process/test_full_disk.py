"""A full disk under each service, in turn: what docs/concepts/fault-tolerance.md#full-disks says about it.

Each service has a small file system of its own for its state. Control services, roll-up, console and auditor go on without their
snapshots; an agent ends and its tasks run on; Kafka's broker ends and nothing that it acknowledged is lost.
"""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.bench.synthetic import plain_log
from tests.kits.archive import archived
from tests.kits.archived_pool import everything, grow, until_archived
from tests.kits.small_disk import SmallDisk
from tests.kits.system import PATIENCE_S, System, Watch
from tests.kits.waiting import until

from bailiff_bus.kafka import KafkaBus
from bailiff_bus.port import BusUnavailable
from bailiff_core.records.facts import JobSubmitted, NodeLost, StateDigest
from bailiff_devstack.kafka import EmbeddedKafka
from bailiff_devstack.stack import Plan, Stack
from bailiff_service.exit_code import ExitCode

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

POOL = "pool-a"
UNWRITTEN = "bailiff_snapshots_unwritten_total"
FOLLOWERS = ("rollup", "console", "auditor")
SERVICES = ("admission", "victim-selection", "eviction-executor", *FOLLOWERS)
SAMPLE = ("admission",)


class SmallDisks(System):
    """A system with a small disk under each service."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, pools={POOL: 1}, env={"BAILIFF_DIGEST_EVERY": "30"})
        self.disks = {name: SmallDisk(folder / "disks" / name) for name in SERVICES}
        self.disks["node-agent"] = SmallDisk(folder / "state" / "node-agent")

    def start_service(self, name: str) -> None:
        """Start or restart this service on its disk."""
        if name == "auditor" and not (self.folder / "postgres").exists():
            self.stack.postgres.start()
        own = {} if name == "node-agent" else {"BAILIFF_STATE_DIR": str(self.disks[name].folder)}
        self.stack.start_service(name, env=own)

    def stop(self) -> None:
        """End everything, and unmount the disks."""
        try:
            super().stop()
        finally:
            for disk in self.disks.values():
                disk.close()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallDisks]:
    """A running system on small disks."""
    with SmallDisks(tmp_path_factory.mktemp("small")) as system:
        yield system


@pytest.mark.parametrize("service", [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.long) for name in SERVICES])
async def test_a_service_continues_without_its_snapshots(small: SmallDisks, service: str) -> None:
    async with small.watch(POOL) as pool:
        if service in FOLLOWERS:
            small.start_service(service)
            await asyncio.to_thread(small.wait_ready)
        await digest(pool)
        with small.disks[service].full():
            before = await small.metric(service, UNWRITTEN, pool=POOL)
            await digest(pool)

            async def counted() -> bool:
                return await small.metric(service, UNWRITTEN, pool=POOL) > before

            await pool.until_true("a snapshot is missing", counted)
            assert "cannot write a snapshot" in small.log_of(service)
            small.kill_and_restart(service)
            await asyncio.to_thread(small.wait_ready)
            await digest(pool)
        small.kill_and_restart(service)
        await asyncio.to_thread(small.wait_ready)
        await digest(pool)
        assert await small.metric(service, UNWRITTEN, pool=POOL) == 0
        assert "Traceback" not in small.log_of(service)
        await pool.verify(orphans=True)


async def test_an_agent_ends_its_tasks_run_on_and_the_next_one_continues(small: SmallDisks) -> None:
    async with small.watch(POOL) as pool:
        await pool.submit("runs-on")
        await pool.until_running("runs-on")
        await pool.noted("runs-on", 1)
        with small.disks["node-agent"].full():
            await pool.submit("waits", "true")
            code = await asyncio.to_thread(small.stack.processes.wait, "node-agent")
            assert code == ExitCode.DISK, small.log_of("node-agent")
            assert re.search(r"a file cannot be written: .*No space left on device: '/\S+'", small.log_of("node-agent"))
            small.start_service("node-agent")
            assert await asyncio.to_thread(small.stack.processes.wait, "node-agent") == ExitCode.DISK
            assert pool.running("runs-on")
        small.start_service("node-agent")
        await pool.until_ended("waits")
        assert pool.running("runs-on")
        assert pool.job("runs-on").attempt == 1
        assert pool.facts(NodeLost) == []
        pool.assert_started_once("runs-on")
        await pool.verify(orphans=True)


async def digest(pool: Watch) -> None:
    """Run small jobs until admission has appended one more state digest."""
    before, number = len(pool.facts(StateDigest)), len(pool.state.jobs)
    while len(pool.facts(StateDigest)) == before:
        number += 1
        await pool.submit(f"small-{number}", "true")
        await pool.until_ended(f"small-{number}")


# --- Kafka


@pytest.mark.long
async def test_a_broker_whose_disk_is_full_ends_and_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "broker", "64m")
    system = System(tmp_path / "system", kafka=EmbeddedKafka(disk.folder, progress=print), pools={POOL: 1})
    try:
        await asyncio.to_thread(system.start)
        async with system.watch(POOL) as pool:
            await pool.submit("runs-on")
            await pool.until_running("runs-on")
            with disk.full():
                acknowledged = await submit_until_refused(pool)
            await asyncio.to_thread(system.stack.kafka.restart)
            pool.producer = await pool.bus.producer()
            await pool.submit("after", "true")
            await until_ended_after_an_outage(pool, "after")
            for job in acknowledged:
                await pool.until_ended(job)
            assert {fact.demand.job for fact in pool.facts(JobSubmitted)} >= set(acknowledged)
            assert pool.job("runs-on").attempt == 1
            assert pool.running("runs-on")
            await asyncio.to_thread(system.wait_ready)
            await pool.verify(orphans=True)
            for service in system.services:
                assert "Traceback" not in system.log_of(service)
    finally:
        with contextlib.closing(disk):
            await asyncio.to_thread(system.stop)


async def submit_until_refused(pool: Watch) -> list[str]:
    """Submit jobs until the broker acknowledges no more; those that it has acknowledged."""
    acknowledged: list[str] = []
    while True:
        name = f"small-{len(acknowledged)}"
        try:
            await pool.submit(name, "true")
        except BusUnavailable:
            return acknowledged
        acknowledged.append(name)


async def until_ended_after_an_outage(pool: Watch, name: str) -> None:
    """Wait until the job has ended; the outage may show once more to who reads."""
    try:
        await pool.until_ended(name)
    except BusUnavailable:
        await pool.until_ended(name)


# --- the archive


@pytest.mark.long
async def test_the_archive_continues_once_postgresql_has_space_again(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "postgres", "160m")
    stack = Stack(tmp_path, Plan(), progress=print)
    wires = list(plain_log(12_000))
    try:
        await asyncio.to_thread(stack.start_kafka)
        await asyncio.to_thread(stack.postgres.start)
        bus = KafkaBus(stack.kafka.bootstrap)
        try:
            stack.start_service("auditor")
            await grow(bus, wires[:1_000])
            await until_archived(stack, 999)
            with disk.full():
                await grow(bus, wires[1_000:])
                await until_logged(stack, "PostgreSQL is unavailable")
                stack.processes.check("auditor")
            await asyncio.to_thread(restart_postgres, stack)
            await until_archived(stack, len(wires) - 1)
            assert await archived(stack.postgres.dsn) == await everything(bus)
            await asyncio.to_thread(stack.processes.wait_ready, "auditor", timeout_s=PATIENCE_S)
        finally:
            await bus.close()
        assert "Traceback" not in stack.processes.log("auditor").read_text()
    finally:
        with contextlib.closing(disk):
            await asyncio.to_thread(stack.close)


async def until_logged(stack: Stack, text: str) -> None:
    """Wait until the auditor's log has this text."""
    await until(lambda: text in stack.processes.log("auditor").read_text())


def restart_postgres(stack: Stack) -> None:
    """Start PostgreSQL again, which ends by itself if it has no space for its log."""
    stack.postgres.close()
    stack.postgres.start()
