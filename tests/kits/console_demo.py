"""`python -m tests.kits.console_demo [--nodes N]`: a complete system with running jobs, and its console.

Real services on a real Kafka, an archive with the query API, simulated machines. Jobs of several projects run, are pending,
evicted and resumed; one node is drained and one GPU quarantined; --churn submits further jobs. Runs until Ctrl-C.
"""

import argparse
import asyncio
import contextlib
import random
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import yaml
from tests.kits.console import ConsoleProcess
from tests.kits.log_builder import policy

from bailiff.client.client import Client
from bailiff.client.settings import ClientSettings
from bailiff_bus.kafka import KafkaBus
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.state import PoolState
from bailiff_core.records.job_requests import SubmitJob
from bailiff_core.records.node_requests import DrainNode
from bailiff_devstack.simulated_node.__main__ import main as make_it_fail
from bailiff_devstack.stack import API, Plan, Stack

POOL = "pool-a"
SECOND = 1_000_000
GIB = 1 << 30
NAMES = ("llama", "vision", "speech", "sweep", "tokens", "eval", "rank", "embed")
LOOK_S = 0.2
PATIENCE_S = 180.0
UNNAMED = ""  # the sender of jobs, which are those of the users that they name


def projects(gpus: int) -> list[dict[str, Any]]:
    """Two teams with two projects each, one that serves, and one without a quota. gpus: of the whole pool."""
    return [
        {"name": "research", "description": "everything that trains", "quota": {"gpus": gpus // 2}, "over_quota_weight": 2},
        {"name": "research-language", "parent": "research", "quota": {"gpus": gpus // 4}},
        {"name": "research-vision", "parent": "research", "quota": {"gpus": gpus // 4}},
        {"name": "product", "quota": {"gpus": gpus * 3 // 8}},
        {"name": "product-serving", "parent": "product", "quota": {"gpus": gpus // 4}, "priority": 1},
        {"name": "product-batch", "parent": "product", "quota": {"gpus": gpus // 8}},
        {"name": "guests", "description": "what is left over"},
    ]


class Demo:
    """The system, and a client that submits jobs."""

    def __init__(self, folder: Path, nodes: int, say: Callable[[str], None] = print, port: int | None = None) -> None:
        self.nodes, self.gpus, self.say = nodes, nodes * 8, say
        rules = policy(projects=projects(self.gpus))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "policy.yaml").write_text(yaml.safe_dump(rules.model_dump(mode="json")))
        plan = Plan(
            nodes=[{"name": "node", "pool": POOL, "gpus": "8xH100-80GB", "count": nodes}],
            policy=folder / "policy.yaml",
            env={"BAILIFF_DURABLE": "false", "BAILIFF_RELEASE_TIMEOUT_S": "2", "BAILIFF_DEVICE_POLL_S": "1"},
            archive=True,
            api=True,
        )
        self.stack = Stack(folder, plan, progress=lambda text: say(f"• {text}"))
        self.console = ConsoleProcess(self.stack, port)
        self.random = random.Random(8)
        self._count = 0

    def start(self) -> None:
        """Start all services; submits nothing."""
        self.stack.start()
        self.console.start()
        self.stack.processes.wait_ready(API, timeout_s=60)

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A client for requests."""
        settings = ClientSettings(source="console-demo", actor="demo", cache=self.stack.folder / "cache")
        async with Client.connect(settings, KafkaBus(self.stack.kafka.bootstrap)) as client:
            yield client

    def job(
        self, project: str, kind: str = "train", gpus: int = 1, tasks: int = 1, run_for: float | None = None, name: str = ""
    ) -> SubmitJob:
        """A simulated job that reports steps and saves checkpoints."""
        self._count += 1
        env = {"BAILIFF_SIM_CHECKPOINTS": "2:1"}
        if run_for is not None:
            env["BAILIFF_SIM_RUN_FOR"] = f"{run_for:.1f}"
        group = TaskGroup(count=tasks, gpu_milli=gpus * 1000, cpu_milli=gpus * 4000, memory_bytes=gpus * 16 * GIB)
        demand = JobDemand(
            job=name or f"{self.random.choice(NAMES)}-{self._count}",
            tasks=(group,),
            priority_class=kind,
            project=project,
            grace=20 * SECOND,
            user=self.random.choice(("ada", "grace", "alan", "edsger")),
        )
        return SubmitJob(demand=demand, spec=JobSpec(command=("true",), env=env, runtime="simulated"))

    def some(self, gpus: int) -> list[SubmitJob]:
        """Training jobs of all teams on about this number of GPUs."""
        found, left = [], gpus
        while left > 0:
            size = min(left, self.random.choice((1, 1, 2, 2, 4, 8)))
            tasks = 2 if size == 8 and self.nodes > 4 and self.random.random() < 0.3 else 1
            project = self.random.choice(("research-language", "research-vision", "product-batch", "guests"))
            kind = self.random.choice(("train", "train", "train", "interactive"))  # classes that may exceed the project's quota
            found.append(self.job(project, kind, size, tasks))
            left -= size * tasks
        return found

    async def play(self, client: Client) -> None:
        """Fill the pool, preempt, drain a node, quarantine a GPU; some jobs stay pending."""
        await self._until(client, "all nodes have joined", lambda state: len(state.nodes) == self.nodes)
        self.say(f"• filling {self.gpus} GPUs")
        talker = JobSpec(command=("sh", "-c", "n=0; while :; do n=$((n+1)); echo step $n; sleep 1; done"))
        demand = JobDemand(
            job="talks",
            tasks=(TaskGroup(gpu_milli=1000, cpu_milli=1000, memory_bytes=GIB),),
            priority_class="inference",
            project="product-serving",
            user="ada",
            grace=5 * SECOND,
        )
        leaks = self.job("guests", "interactive", 1, name="leaks")
        jobs = [SubmitJob(demand=demand, spec=talker), leaks, *self.some(self.gpus - 2)]
        await client.requests(POOL, jobs, actor=UNNAMED)
        await self._until(client, "the pool is busy", lambda state: self._held(state) >= self.gpus * 9 // 10)
        self.say("• serving preempts training; other jobs are pending")
        await client.requests(
            POOL, [self.job("product-serving", "inference", 4, name=f"serve-{n}") for n in range(1, 3)], actor=UNNAMED
        )
        await client.requests(POOL, self.some(max(8, self.gpus // 8)), actor=UNNAMED)
        await self._until(
            client, "serving runs", lambda state: "serve-1" in state.jobs and state.jobs["serve-1"].phase == "running"
        )
        self.say("• one GPU is quarantined, one node is drained")
        state = (await client.projection(POOL)).state
        job = state.jobs["leaks"]
        if job.tasks:
            node = state.nodes[job.tasks[0].node].name  # nodes are numbered in the order in which they joined
            faults = self.stack.folder / "state" / "node-agent" / POOL / node / "faults.json"
            faults.parent.mkdir(parents=True, exist_ok=True)
            make_it_fail([str(faults), str(job.tasks[0].devices.bit_length() - 1), f"leak={2 << 30}"])
            await client.cancel("leaks", reason="done with it", pool=POOL)
            await self._until(client, "it is quarantined", lambda state: any(node.quarantined for node in state.nodes.values()))
        if self.nodes > 1:
            await client.request(POOL, DrainNode(node=f"node-{self.nodes - 1}", mode="quick", reason="new driver"))

    async def churn(self, client: Client, a_second: float) -> None:
        """Submit jobs continuously."""
        while True:
            began = time.monotonic()
            batch = max(1, round(a_second))
            kinds = self.random.choices(("train", "interactive", "inference"), (6, 2, 1), k=batch)
            await client.requests(
                POOL,
                [
                    self.job(
                        "product-serving" if kind == "inference" else self.random.choice(("research-vision", "guests")),
                        kind,
                        self.random.choice((1, 1, 2, 4)),
                        run_for=self.random.uniform(10, 60),
                    )
                    for kind in kinds
                ],
                actor=UNNAMED,
            )
            await asyncio.sleep(max(0.0, began + batch / a_second - time.monotonic()))

    async def _until(self, client: Client, what: str, condition: Callable[[PoolState], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while POOL not in await client.pools() or not condition((await client.projection(POOL)).state):
            if time.monotonic() > deadline:
                raise TimeoutError(f"timed out after {PATIENCE_S:g} s: {what}")
            await asyncio.sleep(LOOK_S)

    def _held(self, state: PoolState) -> int:
        return sum(node.allocated.devices.bit_count() for node in state.nodes.values())


async def _play(demo: Demo, churn: float) -> None:
    async with demo.client() as client:
        await demo.play(client)
        demo.console.wait_ready()
        print(f"\nThe console: {demo.console.link}\nThe archive: {demo.stack.api}\nKafka: {demo.stack.kafka.bootstrap}")
        print("Ctrl-C stops everything.", flush=True)
        if churn > 0:
            await demo.churn(client, churn)
        await asyncio.Event().wait()


def main() -> None:
    """Until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.kits.console_demo")
    parser.add_argument("--nodes", type=int, default=4, help="machines of eight GPUs (default 4; 1000 is fine)")
    parser.add_argument("--churn", type=float, default=0.2, help="jobs submitted per second (default 0.2; 0: none)")
    parser.add_argument("--port", type=int, default=None, help="port of the console (default: a free one)")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell makes background processes ignore SIGINT
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="bailiff-console-demo-") as folder, contextlib.suppress(KeyboardInterrupt):
        demo = Demo(Path(folder), options.nodes, lambda text: print(text, flush=True), options.port)
        try:
            demo.start()
            asyncio.run(_play(demo, options.churn))
        finally:
            demo.stack.close()


if __name__ == "__main__":
    main()
