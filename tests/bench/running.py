"""Jobs that are real processes with the job library, for a bench: started, evicted, and queried for their times.

They note their times with the wall clock, which is the broker's too: all of it is one machine.
"""

import json
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiokafka import ConsumerRecord

from bailiff.client.client import Client
from bailiff_bus import topics
from bailiff_bus.kafka import KafkaBus
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records.facts import RequestBody
from bailiff_devstack.stack import Stack

from .system import Watch, job_of, watching

POOL = "pool-a"
LIBRARY = Path(__file__).parents[2] / "libs" / "job"


class Jobs:
    """Asks for what a person would, and keeps when which record about which job came into the log.

    at: by job, the records of each type in order, (the broker's time in s, data). bytes: of headers and values of all records.
    """

    def __init__(self, folder: Path, client: Client) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._client = folder, client
        self.at: dict[str, dict[str, list[tuple[float, dict[str, Any]]]]] = defaultdict(lambda: defaultdict(list))
        self.bytes = 0
        self.audit: Watch

    def take(self, kind: str, record: ConsumerRecord) -> None:
        """One more audit record."""
        name = kind.removeprefix("bailiff.audit.").removesuffix(".v1")
        self.bytes += len(record.value) + sum(len(header) + len(value) for header, value in record.headers)
        self.at[job_of(record)][name].append((record.timestamp / 1000, json.loads(record.value)))

    async def submit(self, job: str, script: str, *arguments: str, tasks: int = 1, gpus: int = 1, kind: str = "train") -> None:
        """A script of Python, its checkpoints in a folder that all nodes see."""
        path = self.folder / f"{job}.py"
        path.write_text(script)
        env = [f"BAILIFF_CHECKPOINT_DIR={self.folder / 'checkpoints' / job}", f"PYTHONPATH={LIBRARY}"]
        group = TaskGroup(count=tasks, gpu_milli=gpus * 1000, cpu_milli=100, memory_bytes=1 << 28)
        demand = JobDemand(job=job, tasks=(group,), priority_class=kind, grace=120_000_000)
        command = ("env", *env, sys.executable, str(path), *arguments)
        await self._client.submit(demand, JobSpec(command=command), pool=POOL)

    async def ask(self, body: RequestBody) -> None:
        """Any other request."""
        await self._client.request(POOL, body)

    async def until(self, job: str, record: str, count: int) -> None:
        """Waits until the log has this many records of the type about the job."""
        await self.audit.until(f"{count} × {record} of {job}", lambda: len(self.at[job][record]) >= count)


@asynccontextmanager
async def running(stack: Stack, folder: Path, nodes: int) -> AsyncIterator[Jobs]:
    """Waits until this many nodes have joined."""
    async with Client(KafkaBus(stack.kafka.bootstrap), source="/bench") as client:
        jobs = Jobs(folder, client)
        projection = await client.projection(POOL)
        while len(projection.state.nodes) < nodes:
            await projection.advance(0.2)
        async with watching(stack.kafka.bootstrap, topics.AUDIT.name, on=jobs.take) as jobs.audit:
            yield jobs


def noted(path: Path) -> list[dict[str, Any]]:
    """The lines of JSON that a job has written."""
    return [json.loads(line) for line in path.read_text().splitlines()]
