"""A full disk under each service, in turn, while jobs preempt others: what docs/concepts/fault-tolerance.md#full-disks says.

Each service has a small file system of its own for its state. Control services, roll-up, console and auditor go on without their
snapshots; an agent ends and its tasks run on; Kafka's broker ends and nothing that it acknowledged is lost.
"""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest
from tests.kits.archive import archived
from tests.kits.archived_pool import everything, until_archived
from tests.kits.load import load, preempted
from tests.kits.small_disk import SmallDisk
from tests.kits.system import System, Watch
from tests.kits.waiting import until

from bailiff_bus.kafka import KafkaBus
from bailiff_bus.port import BusUnavailable
from bailiff_core.records.facts import JobSubmitted, NodeLost, StateDigest
from bailiff_devstack.kafka import EmbeddedKafka
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
    async with small.watch(POOL) as pool, load(small, POOL, service):
        if service in FOLLOWERS:
            small.start_service(service)
            await asyncio.to_thread(small.wait_ready)
        await digest(pool)
        await preempted(pool)
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
            await preempted(pool)
        small.kill_and_restart(service)
        await asyncio.to_thread(small.wait_ready)
        await digest(pool)
        assert await small.metric(service, UNWRITTEN, pool=POOL) == 0
        assert "Traceback" not in small.log_of(service)
        await pool.verify(orphans=True)


async def test_an_agent_ends_its_tasks_run_on_and_the_next_one_continues(small: SmallDisks) -> None:
    async with small.watch(POOL) as pool, load(small, POOL, "agent", gpus=6):
        await pool.submit("runs-on", kind="inference")
        await pool.until_running("runs-on")
        await pool.noted("runs-on", 1)
        await preempted(pool)
        with small.disks["node-agent"].full():
            await pool.submit("waits", "true", gpus=0)
            code = await asyncio.to_thread(small.stack.processes.wait, "node-agent")
            assert code == ExitCode.DISK, small.log_of("node-agent")
            assert re.search(r"a file cannot be written: .*No space left on device: '/\S+'", small.log_of("node-agent"))
            small.start_service("node-agent")
            assert await asyncio.to_thread(small.stack.processes.wait, "node-agent") == ExitCode.DISK
            assert pool.running("runs-on")
        small.start_service("node-agent")
        await pool.until_ended("waits")
        await preempted(pool)
        assert pool.running("runs-on")
        assert pool.job("runs-on").attempt == 1
        assert pool.facts(NodeLost) == []
        pool.assert_started_once("runs-on")
        await pool.verify(orphans=True)


async def digest(pool: Watch) -> None:
    """Wait until admission has appended one more state digest."""
    before = len(pool.facts(StateDigest))
    await pool.until("a state digest", lambda _: len(pool.facts(StateDigest)) > before)


# --- Kafka


@pytest.mark.long
async def test_a_broker_whose_disk_is_full_ends_and_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "broker", "64m")
    system = System(tmp_path / "system", kafka=EmbeddedKafka(disk.folder, progress=print), pools={POOL: 1})
    try:
        await asyncio.to_thread(system.start)
        async with system.watch(POOL) as pool, load(system, POOL, "load", gpus=6) as given:
            await pool.submit("runs-on", kind="inference")
            await pool.until_running("runs-on")
            await preempted(pool)
            with disk.full():
                await given.refused.wait()
                acknowledged = {*given.acknowledged}
            await asyncio.to_thread(system.stack.kafka.restart)
            pool.producer = await pool.bus.producer()
            await after_an_outage(preempted, pool)
            await pool.until("all are read", lambda _: acknowledged <= {fact.demand.job for fact in pool.facts(JobSubmitted)})
            assert pool.job("runs-on").attempt == 1
            assert pool.running("runs-on")
            await asyncio.to_thread(system.wait_ready)
            await pool.verify(orphans=True)
            for service in system.services:
                assert "Traceback" not in system.log_of(service)
    finally:
        with contextlib.closing(disk):
            await asyncio.to_thread(system.stop)


async def after_an_outage(wait: Callable[[Watch], Awaitable[None]], pool: Watch) -> None:
    """The outage may show once more to who reads."""
    try:
        await wait(pool)
    except BusUnavailable:
        await wait(pool)


# --- the archive


@pytest.mark.long
async def test_the_archive_continues_once_postgresql_has_space_again(tmp_path: Path) -> None:
    folder = tmp_path / "system"
    disk = SmallDisk(folder / "postgres", "160m")
    system = System(folder, pools={POOL: 1}, audited=True)
    auditor, postgres = system.stack.processes.log("auditor"), system.stack.postgres
    try:
        await asyncio.to_thread(system.start)
        async with system.watch(POOL) as pool, load(system, POOL, "load"):
            await preempted(pool)
            await until_archived(system.stack, pool.state.seq)
            with disk.full():
                await fill(postgres.dsn)
                await until(lambda: "PostgreSQL is unavailable" in auditor.read_text())
                await preempted(pool)
                system.stack.processes.check()
            await asyncio.to_thread(postgres.close)  # it ends by itself if it has no space for its log
            await asyncio.to_thread(postgres.start)
            await preempted(pool)
            await until_archived(system.stack, pool.state.seq)
            await pool.clear()
            await pool.verify()
            await asyncio.to_thread(system.wait_ready)
        bus = KafkaBus(system.stack.kafka.bootstrap)
        wanted = await everything(bus)
        await bus.close()
        await until_archived(system.stack, pool.state.seq)
        assert (await archived(postgres.dsn))[: len(wanted)] == wanted
        assert "Traceback" not in auditor.read_text()
    finally:
        with contextlib.closing(disk):
            await asyncio.to_thread(system.stop)


async def fill(dsn: str) -> None:
    """Whatever PostgreSQL had still free on its disk is taken by another table."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("CREATE TABLE others (text text)")
        while True:
            await connection.execute("INSERT INTO others SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        pass  # it has no space, or has ended
    finally:
        connection.terminate()
