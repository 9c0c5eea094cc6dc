"""A service that reaches its memory limit is killed by the kernel, as by systemd's MemoryMax; restarted, it continues.

The limit is that of a cgroup (version 1 or 2), which only root may make.
"""

import asyncio
import itertools
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kits.system import System, Watch

from bailiff_core.records.facts import JobSubmitted, NodeLost

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(600)]

ROOT = Path("/sys/fs/cgroup")
HEADROOM = 1 << 19
SERVICES = ("admission", "victim-selection", "eviction-executor", "node-agent")

_numbers = itertools.count(1)


class MemoryGroup:
    """A cgroup of a test's own."""

    def __init__(self) -> None:
        v1 = ROOT / "memory"
        self._limit, self._used = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes") if v1.is_dir() else ("memory.max", "memory.current")
        )
        self.folder = (v1 if v1.is_dir() else ROOT) / f"bailiff-test-{uuid.uuid4().hex[:8]}"
        try:
            self.folder.mkdir()
        except OSError as error:
            pytest.skip(f"no permission to make a cgroup: {error}")
        if not (self.folder / self._limit).exists():
            self.folder.rmdir()
            pytest.skip("no cgroup with a memory limit")

    def limit(self, pid: int, more: int) -> None:
        """Move the process here, and let it have this much memory more than it has now, which stays with the old group."""
        (self.folder / "cgroup.procs").write_text(str(pid))
        (self.folder / self._limit).write_text(str(int((self.folder / self._used).read_text()) + more))

    def close(self) -> None:
        """Remove it; its processes have ended."""
        self.folder.rmdir()


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    """A cgroup."""
    made = MemoryGroup()
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("service", SERVICES)
async def test_a_service_at_its_memory_limit_is_killed_and_the_next_one_continues(
    battered: System, group: MemoryGroup, service: str
) -> None:
    async with battered.watch("pool-a") as pool:
        runs_on = f"runs-on-{next(_numbers)}"
        await pool.submit(runs_on, gpus=0)
        await pool.until_running(runs_on)
        group.limit(battered.stack.processes.pid(service), HEADROOM)
        ended = asyncio.create_task(asyncio.to_thread(battered.stack.processes.wait, service))
        acknowledged = await submit_until(pool, ended)
        assert ended.result() == -signal.SIGKILL
        battered.start_service(service)
        for job in acknowledged:
            await pool.until_ended(job)
        assert {fact.demand.job for fact in pool.facts(JobSubmitted)} >= set(acknowledged)
        assert pool.running(runs_on)
        assert pool.job(runs_on).attempt == 1
        assert pool.facts(NodeLost) == []
        await pool.verify(orphans=True)


async def submit_until(pool: Watch, ended: asyncio.Task[int]) -> list[str]:
    """Submit jobs, which all services remember, until this one has ended."""
    acknowledged = []
    while not ended.done():
        name = f"small-{next(_numbers)}"
        await pool.submit(name, "true", gpus=0, cpus=0)
        acknowledged.append(name)
    return acknowledged
