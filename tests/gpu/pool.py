"""A whole pool in this process, on the in-memory bus: admission, victim selection, the executor, and a node agent on this
machine's GPUs. It needs neither Kafka nor Java, so it runs on a machine that nothing can be fetched to. Jobs are real processes.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tests.kits.memory_bus import MemoryCluster

from bailiff.client.client import Client
from bailiff_admission.service import AdmissionService
from bailiff_admission.settings import AdmissionSettings
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.state import ENDED, PoolState
from bailiff_core.records import Record
from bailiff_core.records.payload import Payload
from bailiff_eviction_executor.executor import Executor
from bailiff_node_agent.service import NodeAgentService
from bailiff_node_agent.settings import NodeAgentSettings, NodeDeclaration
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.metrics import Metrics
from bailiff_service.pool_ownership import PoolService
from bailiff_service.settings import ServiceSettings
from bailiff_victim_selection.selector import compute_in_thread, run_selector

POOL, NODE = "pool-a", "node-1"
PATIENCE_S = float(os.environ.get("BAILIFF_TEST_PATIENCE_S", "60"))
INHERITED = ("PATH", "HOME", "LD_LIBRARY_PATH", "CUDA_HOME")
"""Variables of this process that jobs get: jobs inherit none, and the driver's libraries may be found by them alone."""


class Waited(Exception):
    """Something did not happen in time."""


@dataclass
class Pool:
    """A running pool, followed record by record."""

    client: Client
    folder: Path
    state: PoolState = field(default_factory=PoolState)
    records: list[Record] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self) -> None:
        """Read the log until cancelled."""
        while not await self.client.pools():  # noqa: ASYNC110 - the first record comes from another task
            await asyncio.sleep(0.01)
        async for entry in self.client.follow(POOL, state=self.state):
            self.records.append(entry.record)
            self._changed.set()

    async def until(self, what: str, condition: Callable[[], Any], within_s: float = PATIENCE_S) -> Any:
        """The condition's value, once it is true. It is checked at every record, and every 10 ms."""
        deadline = time.monotonic() + within_s
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise Waited(f"waited {within_s:.0f} s for this: {what}\n{self.report()}")
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), 0.01)
            except TimeoutError:
                continue
        return value

    def find(self, kind: type[Payload], since: int = 0, **values: object) -> Record | None:
        """The first record of this kind with these values, at or after this sequence number."""
        for record in self.records[since:]:
            if isinstance(record.data, kind) and all(getattr(record.data, name) == value for name, value in values.items()):
                return record
        return None

    async def submit(
        self, job: str, command: tuple[str, ...], *, gpus: int = 1, kind: str = "train", grace_s: float = 60, **group: Any
    ) -> None:
        """Submit a job with so many GPUs, or the part of one that `group` names."""
        part = group or {"gpu_milli": gpus * 1000}
        demand = JobDemand(
            job=job,
            tasks=(TaskGroup(cpu_milli=100, memory_bytes=1 << 28, **part),),
            priority_class=kind,
            grace=int(grace_s * 1_000_000),
            restart_backoff=100_000,
            max_failures=0,
        )
        env = {name: os.environ[name] for name in INHERITED if name in os.environ}
        env["GLOO_SOCKET_IFNAME"] = "lo"  # a machine without a network cannot resolve its own name
        env["MEASURED_JOB_LIBRARY"] = str(Path(__file__).parents[2] / "libs" / "job")
        await self.client.submit(demand, JobSpec(command=command, env=env, working_dir=str(self.folder)), pool=POOL)

    async def end(self, job: str) -> None:
        """Cancel the job, and wait until it has ended."""
        await self.client.cancel(job, pool=POOL)
        await self.until(f"{job} has ended", lambda: self.phase(job) in ENDED)

    def report(self) -> str:
        """The newest records, and the ends of the jobs' output."""
        records = [f"  #{record.seq} {record.type} {str(record.data)[:300]}" for record in self.records[-12:]]
        logs = [f"--- {log.name}\n{log.read_text(errors='replace')[-1000:]}" for log in self.folder.rglob("logs/*.log")]
        return "\n".join([*records, *logs[-4:]])

    def phase(self, job: str) -> str:
        """The job's phase; empty before it is known."""
        return self.state.jobs[job].phase if job in self.state.jobs else ""


@asynccontextmanager
async def running_pool(folder: Path, gpus: str = "nvml") -> AsyncIterator[Pool]:
    """Start everything, wait until the node has joined; stop everything."""
    (folder / "pools.yaml").write_text(yaml.safe_dump({"pools": [{"name": POOL, "partition": 0}]}))
    cluster, clock_and_ids, stop = MemoryCluster(lambda: time.time_ns() // 1000), ClockAndIds(), asyncio.Event()
    cluster.create_topics(1)

    def common(name: str) -> dict[str, Any]:
        return {"pools": folder / "pools.yaml", "state_dir": folder / name, "instance": name}

    node = NodeDeclaration(name=NODE, pool=POOL, gpus=gpus, cpu_milli=64_000)
    agent = NodeAgentSettings(
        **common("agent"),
        nodes=(node,),
        release_poll_s=0.002,
        release_timeout_s=30,
        device_poll_s=0.5,
        run_as="agent",
        ship_logs=False,
        telemetry_s=1,
        master_address="127.0.0.1",
    )
    services = [
        AdmissionService(AdmissionSettings(**common("admission")), Metrics(), cluster.client("admission"), clock_and_ids),
        PoolService(
            "victim-selection",
            ServiceSettings(**common("selection")),
            Metrics(),
            cluster.client("selection"),
            lambda projection: run_selector(projection, clock_and_ids, compute_in_thread),
        ),
        PoolService(
            "eviction-executor",
            ServiceSettings(**common("executor")),
            Metrics(),
            cluster.client("executor"),
            lambda projection: Executor(projection, clock_and_ids, Metrics()).run(),
        ),
        NodeAgentService(agent, Metrics(), cluster.client("agent"), clock_and_ids),
    ]
    running = [asyncio.ensure_future(service.run(stop)) for service in services]
    async with Client(cluster.client("client"), source="/measurements") as client:
        pool = Pool(client, folder)
        following = asyncio.ensure_future(pool.follow())
        try:
            await pool.until("the node has joined", lambda: bool(pool.state.nodes) or _failed(running))
            yield pool
        finally:
            following.cancel()
            stop.set()
            await asyncio.wait([*running, following], timeout=10)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, following, return_exceptions=True)


def _failed(running: "list[asyncio.Future[None]]") -> bool:
    """Raises what a service raised."""
    for task in running:
        if task.done():
            task.result()
    return False
