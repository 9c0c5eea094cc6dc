"""An auditor under test: the real service on the in-memory bus, and a real PostgreSQL."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import asyncpg
from tests.kits.log_builder import Story
from tests.kits.memory_bus import MemoryCluster

from bailiff_auditor.alarms import AlarmKey
from bailiff_auditor.service import AuditorService
from bailiff_auditor.settings import AuditorSettings
from bailiff_bus import topics
from bailiff_bus.envelope import unwrap
from bailiff_bus.messages.dead_letters import Alarm
from bailiff_bus.port import Bus, Message
from bailiff_core.records import Wire
from bailiff_log.archive import open_archive
from bailiff_service.metrics import Metrics

PATIENCE_S = 60.0
POLL_S = 0.02


class Log:
    """The topics of one pool on the in-memory bus."""

    partition = 0

    def __init__(self, pool: str = "pool-a") -> None:
        self.pool, self._time = pool, 1_800_000_000_000_000
        self.cluster = MemoryCluster(self._clock)
        self.cluster.create_topics(1)

    def bus(self, name: str) -> Bus:
        """A connection."""
        return self.cluster.client(name)

    def append(self, wires: Iterable[Wire]) -> None:
        """Append the records to the audit topic."""
        for wire in wires:
            self.cluster.store(topics.AUDIT.name, 0, self.pool.encode(), wire.headers, wire.value)

    def messages(self) -> list[Message]:
        """All messages of the audit partition."""
        return self.cluster.messages(topics.AUDIT.name, 0)

    def seals(self) -> list[Message]:
        """All messages of the seals topic."""
        return self.cluster.messages(topics.SEALS.name, 0)

    def alarms(self) -> list[str]:
        """Codes of all alarms."""
        found = [unwrap(message).body for message in self.cluster.messages(topics.ALARMS.name, 0)]
        return [body.code for body in found if isinstance(body, Alarm)]

    def wait(self, seconds: int) -> None:
        """As time passes for the broker."""
        self._time += seconds * 1_000_000

    def _clock(self) -> int:
        self._time += 1000
        return self._time


class Auditor:
    """One replica."""

    def __init__(self, log: Log, dsn: str, folder: Path, name: str = "auditor", **settings: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        pools = folder / "pools.yaml"
        pools.write_text(f"pools:\n  - {{name: {log.pool}, partition: {log.partition}}}\n")
        values = {"postgres": dsn, "pools": pools, "state_dir": folder / "state", "instance": name, **settings}
        self.metrics, self.raised_alarms = Metrics(), set[AlarmKey]()
        self.bus = log.bus(name)
        self.service = AuditorService(AuditorSettings(**values), self.metrics, self.bus, self.raised_alarms)
        self.stop = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Auditor"]:
        """Run the auditor inside the context."""
        work = self.work = asyncio.create_task(self.service.run(self.stop))
        try:
            yield self
        finally:
            if work.done():
                work.result()
            self.stop.set()
            await work

    async def until(self, what: str, condition: Callable[[], Any]) -> None:
        """Wait until the condition holds."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if self.work.done():
                    self.work.result()
                found = condition()
                if asyncio.iscoroutine(found):
                    found = await found
                if found:
                    return
                await asyncio.sleep(POLL_S)

    def value(self, metric: str) -> float:
        """The value of a metric of this pool."""
        lines = self.metrics.text().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{metric}{{"))


async def query(dsn: str, sql: str, *arguments: Any) -> list[dict[str, Any]]:
    """Rows."""
    connection = await asyncpg.connect(dsn)
    try:
        return [dict(row) for row in await connection.fetch(sql, *arguments)]
    finally:
        await connection.close()


async def archived(dsn: str, pool: str = "pool-a") -> list[Message]:
    """Every message of the archive, in its order."""
    async with open_archive(dsn, pool) as log:
        return [message async for message in log.messages()]


async def head(dsn: str) -> int:
    """The seq of the last archived record; -1 before there is any, or an archive."""
    try:
        rows = await query(dsn, "SELECT next_seq FROM pools")
    except asyncpg.UndefinedTableError:
        return -1
    return rows[0]["next_seq"] - 1 if rows else -1


def busy() -> Story:
    """Two jobs on one node; a third preempts one of them, which resumes."""
    story = Story(pool="pool-a")
    story.node("n1", gpus=2)
    for name in ("train-1", "train-2"):
        story.submit(name, gpus=1, cls="train", project="research", user="u-7")
        story.started(name)
    story.submit("serve-1", gpus=1, cls="inference")
    return story


def displaced() -> tuple[Story, str]:
    """Evicts a job for another, stage by stage, and resumes it; returns the victim."""
    story = busy()
    story.propose()
    victim = story.expect("PreemptionDecided").victims[0].job
    story.begin(victim, after=1_000_000)
    story.staged(victim, "noticed")
    story.staged(victim, "checkpoint_committed")
    story.yields(victim, after=3_000_000)
    story.started("serve-1")
    story.ends("serve-1", after=60_000_000)
    story.started(victim)
    return story, victim


def alarms(log: Log) -> list[Alarm]:
    found = [unwrap(message).body for message in log.cluster.messages(topics.ALARMS.name, 0)]
    return [body for body in found if isinstance(body, Alarm)]
