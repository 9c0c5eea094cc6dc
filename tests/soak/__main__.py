"""`make soak HOURS=2`: hours of a real trace at twenty times its speed, all services, a `kill -9` every few minutes.

Ends with 1 if memory, file handles, disk per job or latency are at the end more than 10 % above what they were after the first
hour, if the log does not verify, or if a decision is not repeated.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import yaml
from aiokafka import ConsumerRecord
from tests.bench.disk import log_sizes
from tests.bench.system import Watch, all_joined, job_of, watching
from tests.bench.weight import pss

from bailiff.client.client import Client
from bailiff_bus import topics
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.port import BusUnavailable
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_devstack.stack import AUDITOR, CONSOLE, ROLLUP, SERVICES, WITNESS, Plan, Stack

from .load import GPUS_PER_NODE, NODES, POOL, Arrival, arrivals, probe
from .samples import Comparison, Sample, compare, disk_by_topic

SAMPLE_EVERY_S, PROBE_EVERY_S = 10.0, 5.0
KILL_EVERY_S = 240.0
KILLED = (*SERVICES, AUDITOR, ROLLUP, CONSOLE, WITNESS)
RESTS_WITHIN_S = 1800.0
REMEMBERED_US = 20 * 60 * 1_000_000
"""So long the state remembers what has ended, so that within the first hour it has its full size."""


class Soak:
    """One run. seconds: for so long jobs are submitted; afterwards all of them end."""

    def __init__(self, stack: Stack, client: Client, seconds: float, seed: int) -> None:
        self._stack, self._client, self._seconds, self._random = stack, client, seconds, Random(f"soak/{seed}")
        self._began = time.monotonic()
        self._sent: dict[str, float] = {}
        self._samples: list[Sample] = []
        self._latencies: list[tuple[float, float]] = []
        self._kills = 0
        self.audit: Watch

    def take(self, kind: str, record: ConsumerRecord) -> None:
        """One more record of the log. The broker's clock is this machine's."""
        job = job_of(record)
        if kind == "bailiff.audit.JobSubmitted.v1" and job.startswith("probe-"):
            self._latencies.append((self._now(), record.timestamp - 1000 * self._sent[job]))

    async def run(self) -> list[Comparison]:
        """Submit, kill and measure; then wait for the end of all jobs."""
        probes = [probe(number, number * PROBE_EVERY_S) for number in range(int(self._seconds / PROBE_EVERY_S))]
        async with asyncio.TaskGroup() as group:
            group.create_task(self._submit(sorted([*arrivals(self._seconds), *probes], key=lambda arrival: arrival.at)))
            group.create_task(self._kill())
            group.create_task(self._measure())
        seen = self.audit.seen
        await self.audit.until("all jobs have ended", lambda: seen["JobEnded"] >= len(self._sent), RESTS_WITHIN_S)
        print(
            f"{len(self._sent)} jobs, {seen['JobPlaced']} placements, {seen['PreemptionDecided']} preemptions, "
            f"{seen['WriterStarted']} takeovers, {sum(seen.values())} records, {self._kills} kills"
        )
        print("disk of Kafka per job by topic, kB, first hour and end:")
        for topic, first, end in disk_by_topic(self._samples, self._seconds):
            print(f"  {topic:<44}{first:>10.2f} {end:>10.2f}")
        return compare(self._samples, self._latencies, self._seconds)

    def _now(self) -> float:
        return time.monotonic() - self._began

    async def _submit(self, planned: list[Arrival]) -> None:
        for arrival in planned:
            await asyncio.sleep(max(0.0, arrival.at - self._now()))
            self._sent[arrival.demand.job] = time.time()
            await self._until_acknowledged(arrival)

    async def _until_acknowledged(self, arrival: Arrival) -> None:
        """A submission that Kafka has not acknowledged in time is sent again."""
        while True:
            try:
                await arrival.submit(self._client)
            except BusUnavailable as late:
                print(f"{self._now():6.0f} s: {arrival.demand.job} is submitted again: {late}", flush=True)
            else:
                return

    async def _kill(self) -> None:
        while self._now() + KILL_EVERY_S < self._seconds:
            await asyncio.sleep(KILL_EVERY_S)
            name = self._random.choice(KILLED)
            print(f"{self._now():6.0f} s: kill -9 {name}", flush=True)
            self._stack.processes.kill9(name)
            await asyncio.to_thread(self._stack.start_service, name)
            self._kills += 1

    async def _measure(self) -> None:
        while self._now() < self._seconds:
            self._samples.append(await asyncio.to_thread(self._sample))
            await asyncio.sleep(SAMPLE_EVERY_S)

    def _sample(self) -> Sample:
        pids = [self._stack.processes.pid(name) for name in self._stack.processes.running()]
        return Sample(
            self._now(),
            sum(pss(pid) for pid in pids),
            sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids),
            disk_of(self._stack.kafka.data_dir),
            len(self._sent),
        )


def disk_of(data: Path) -> dict[str, int]:
    """Bytes of each topic's log segments."""
    found = Counter[str]()
    for partition, size in log_sizes(data).items():
        found[partition.rpartition("-")[0]] += size
    return found


def forgetful_policy(folder: Path) -> Path:
    """The default policy, but for how long what has ended is remembered."""
    policy = DEFAULT_POLICY.model_dump(mode="json")
    policy["retention"] = {"ended_jobs": REMEMBERED_US, "request_ids": REMEMBERED_US, "job_specs": REMEMBERED_US}
    file = folder / "policy.yaml"
    file.write_text(yaml.safe_dump(policy))
    return file


async def soak(stack: Stack, seconds: float, seed: int) -> list[Comparison]:
    """Run on this system, once all its nodes have joined."""
    await all_joined(stack, POOL, NODES)
    async with AsyncExitStack() as open_clients:
        client = await open_clients.enter_async_context(Client(KafkaBus(stack.kafka.settings("operator")), source="/soak"))
        run = Soak(stack, client, seconds, seed)
        run.audit = await open_clients.enter_async_context(watching(stack.kafka.bootstrap, topics.AUDIT.name, on=run.take))
        return await run.run()


def checked(stack: Stack, folder: Path) -> bool:
    """Whether the log verifies, and every decision is repeated."""
    env = {**os.environ, **stack.kafka_environment("operator"), "BAILIFF_POOL": POOL, "BAILIFF_CACHE": str(folder / "cache")}
    commands = [[sys.executable, "-m", "bailiff", "audit", what] for what in ("verify", "replay")]
    return all(subprocess.run(command, env=env, check=False).returncode == 0 for command in commands)


def main() -> int:
    """0 if all figures hold, and log and decisions are whole."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1, help="of the kills")
    given = parser.parse_args()
    node = {"name": "node", "pool": POOL, "gpus": f"{GPUS_PER_NODE}xH100-80GB", "count": NODES}
    with tempfile.TemporaryDirectory(prefix="bailiff-soak-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        policy = forgetful_policy(folder)
        plan = Plan(nodes=[node], policy=policy, archive=True, api=True, rollup=True, console=True, witness=True)
        with Stack(folder / "system", plan) as stack:
            found = asyncio.run(soak(stack, given.hours * 3600, given.seed))
            whole = checked(stack, folder)
    print(f"{'':<46}{'first hour':>10} {'end':>10}", *found, sep="\n")
    return int(not whole or not all(each.holds for each in found))


if __name__ == "__main__":
    sys.exit(main())
