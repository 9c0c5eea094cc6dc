"""A cluster of fake nodes (kwok): how fast jobs become running pods, and what that costs; beside the cluster without Bailiff.

The API server, etcd, kube-scheduler, controllers and kwok run on this machine as well, from the program that
`BAILIFF_TEST_KUBERNETES` names. `BAILIFF_BENCH_NODES` is the number of nodes; each has eight GPUs, and runs as many pods as
`BAILIFF_BENCH_PODS_PER_NODE` says, which share them. Baselines, before Bailiff is started: pods that this process creates and
binds itself, which is what the API server sustains, and pods for kube-scheduler.
"""

import asyncio
import contextlib
import json
import os
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from aiokafka import ConsumerRecord

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.port import Headers
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.records.job_requests import SubmitJob
from bailiff_devstack.ports import free_port
from bailiff_devstack.stack import Plan, Stack
from bailiff_kubernetes import Api
from bailiff_kubernetes.names import POOL
from bailiff_kubernetes.resources import NAMESPACES, SERVICE_ACCOUNTS
from bailiff_log.credentials import issued_credentials
from bailiff_log.keys import existing_or_new_key, key_id

from .fake_cluster import PATIENCE_S, FakeCluster, fake_cluster
from .fake_pods import NAMESPACE, NOBODY, create_and_bind, delete, pod, watched
from .system import Watch, all_joined, cpu_seconds, job_of, megabytes, publishing, spent, watching
from .table import Row, Run

NAME = "pool-k"
AGENT, BRIDGE = "node-agent-api", "kubernetes-bridge"
OTHER = {"name": "other", "pool": "other", "gpus": "1xH100-80GB"}
LABELS = {"offline-kubernetes/node": "fake"}
PODS_PER_NODE = int(os.environ.get("BAILIFF_BENCH_PODS_PER_NODE", "4"))
GPUS = 8 // PODS_PER_NODE
MOST_ALONE = 1000  # pods of each baseline: its rate does not change after that
URGENT = 40
MANIFESTS = Path(__file__).parents[2] / "deploy" / "kubernetes"


def measure(run: Run) -> list[Row]:
    """The same pods without Bailiff, then by Bailiff."""
    nodes = int(os.environ.get("BAILIFF_BENCH_NODES", "20" if run.quick else "1000"))
    run.folder.mkdir(parents=True, exist_ok=True)
    with fake_cluster(run.folder / "c", nodes, GPUS * PODS_PER_NODE) as cluster:
        alone = asyncio.run(_without_bailiff(run, cluster))
        with _stack(run.folder / "s", cluster) as stack:
            return _rows(cluster, *alone, asyncio.run(_with_bailiff(run, cluster, stack)))


@dataclass
class Phase:
    """Some pods from the first request until all run. requests: to the API server. processor_s: by program.

    stages: when half of the jobs or pods had reached each of them, s.
    """

    pods: int
    began: float = 0.0
    seconds: float = 0.0
    requests: Counter[str] = field(default_factory=Counter)
    processor_s: dict[str, float] = field(default_factory=dict)
    delays: list[float] = field(default_factory=list)
    stages: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return self.pods / self.seconds

    @property
    def requests_per_s(self) -> float:
        return self.requests.total() / self.seconds

    def delay(self, share: float) -> float:
        return sorted(self.delays)[min(len(self.delays) - 1, int(share * len(self.delays)))]

    def say(self, run: Run, what: str) -> None:
        requests = {name: round(count / self.pods, 2) for name, count in self.requests.most_common(12) if count * 20 > self.pods}
        processor = {name: round(1000 * seconds / self.pods, 1) for name, seconds in self.processor_s.items()}
        run.say(f"{what}: {self.rate:.1f} pods/s, {self.requests_per_s:.0f} requests/s, half after {self.stages} s")
        run.say(f"  for each pod {requests}; processor time {processor} ms")

    def reached(self, stages: dict[str, dict[str, float]], names: Iterable[str] = ()) -> None:
        """Note when half of these had reached each stage; those of the last one are the delays."""
        for stage, at in stages.items():
            times = sorted(at[name] - self.began for name in names or at if name in at)
            if times:
                self.stages[stage] = round(times[len(times) // 2], 1)
                self.delays = times


@dataclass
class Result:
    """What was measured with Bailiff. placed_s: until all jobs were placed. given_s: from an eviction's decision until the GPUs
    were given to the preemptor."""

    submitted: Phase
    placed_s: float
    gated: Phase
    urgent: Phase
    given_s: list[float]
    memory: dict[str, float]


@contextlib.asynccontextmanager
async def _measured(phase: Phase, cluster: FakeCluster, stack: Stack | None = None) -> AsyncIterator[None]:
    """Until the block ends. The counts are taken outside of the measured time."""

    def processor_s() -> dict[str, float]:
        return cluster.processor_s() | ({} if stack is None else cpu_seconds(stack))

    before, used = cluster.requests(), processor_s()
    phase.began = time.perf_counter()
    yield
    phase.seconds = time.perf_counter() - phase.began
    phase.processor_s, phase.requests = spent(used, processor_s()), cluster.requests() - before


async def _without_bailiff(run: Run, cluster: FakeCluster) -> tuple[Phase, Phase]:
    """Pods that this process creates and binds, and pods that kube-scheduler binds. Afterwards they are deleted."""
    pods = min(MOST_ALONE, cluster.nodes * PODS_PER_NODE // 2)
    async with await Api.connect(cluster.kubeconfig) as api:
        await api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        async with asyncio.timeout(120):
            while await api.find(SERVICE_ACCOUNTS, "default", NAMESPACE) is None:  # noqa: ASYNC110 - a controller makes it
                await asyncio.sleep(0.1)
        run.say(f"{cluster.nodes} nodes; load {os.getloadavg()[0]:.1f}")
        nodes = [f"fake-{1 + number % cluster.nodes}" for number in range(pods)]
        raw = await _until_running(cluster, api, [(pod(f"raw-{n}", GPUS, NOBODY), node) for n, node in enumerate(nodes)])
        raw.say(run, "created and bound by this process")
        alone = await _until_running(cluster, api, [(pod(f"alone-{n}", GPUS), "") for n in range(pods)])
        alone.say(run, "kube-scheduler alone")
    return raw, alone


async def _until_running(cluster: FakeCluster, api: Api, pods: Sequence[tuple[dict[str, object], str]]) -> Phase:
    phase = Phase(len(pods))
    async with watched(api) as watch:
        async with _measured(phase, cluster):
            await create_and_bind(api, pods)
            await watch.until("all run", lambda: len(watch.running) >= len(pods), PATIENCE_S)
        phase.reached(watch.stages)
        await delete(api, [*watch.running])
        await watch.until("all are gone", lambda: watch.gone >= len(pods), PATIENCE_S)
    return phase


@contextlib.contextmanager
def _stack(folder: Path, cluster: FakeCluster) -> Iterator[Stack]:
    """The services, one agent for all nodes, which keeps its fences in memory, and a bridge."""
    folder.mkdir(parents=True)
    key_file, root = folder / "bridge.key", folder / "credentials" / "root.key"
    policy = DEFAULT_POLICY.model_dump(mode="json")
    policy["identity"] = {"keys": {key_id(existing_or_new_key(key_file)): "kubernetes"}, "sign_ins": ["kubernetes"]}
    policy["kubernetes"] = {"bridges": ["kubernetes"]}
    (folder / "policy.yaml").write_text(yaml.safe_dump(policy))
    for number in range(1, cluster.nodes + 1):
        name = f"fake-{number}"
        issued_credentials(root.parent / AGENT / name, root, role="node", name=name, now=time.time_ns() // 1000)
    access = {"kubeconfig": str(cluster.kubeconfig), "namespace": NAMESPACE, "api_only": True, "placement_timeout_s": 600}
    declared = {"name": "fakes", "pool": NAME, "gpus": "kubernetes", "runtimes": ["process", "kubernetes"], "selector": LABELS}
    env = {"BAILIFF_KUBERNETES": json.dumps(access), "BAILIFF_TELEMETRY_S": "0", "BAILIFF_DURABLE": "false"}
    cluster.install_policies(MANIFESTS / "admission-policies.yaml", pod("warm", GPUS, labels={POOL: NAME}), NAMESPACE)
    with Stack(folder, Plan(pools=(NAME, "other"), nodes=[OTHER], policy=folder / "policy.yaml")) as stack:
        stack.start_service("node-agent", replica="-api", env=env | {"BAILIFF_NODES": json.dumps([declared])})
        stack.processes.wait_ready(AGENT, timeout_s=PATIENCE_S)  # very many nodes take longer than the stack waits
        port = free_port()
        settings = {
            **stack.environment(BRIDGE, port),
            "BAILIFF_KEY": str(key_file),
            "BAILIFF_CLUSTER": "bench",
            "BAILIFF_LEASE_NAMESPACE": "default",
            "BAILIFF_STATE_DIR": str(folder / "bridge"),
            "BAILIFF_KUBECONFIG": str(cluster.kubeconfig),
        }
        command, url = [sys.executable, "-m", "bailiff_kubernetes_bridge"], f"http://127.0.0.1:{port}/readyz"
        stack.processes.start(BRIDGE, command, env=settings, ready_url=url)
        stack.processes.wait_ready(BRIDGE, timeout_s=PATIENCE_S)
        yield stack


class Times:
    """When each kind of record was first seen for each job. evicted: when an eviction for the job was decided."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, float]] = {
            kind: {} for kind in ("JobSubmitted", "JobPlaced", "JobStarting", "TaskStarted")
        }
        self.evicted: dict[str, float] = {}

    def note(self, kind: str, record: ConsumerRecord) -> None:
        name, now = kind.removeprefix("bailiff.audit.").removesuffix(".v1"), time.perf_counter()
        if name == "PreemptionDecided":
            self.evicted.setdefault(json.loads(record.value)["preemptor"]["job"], now)
        elif name in self.seen:
            self.seen[name].setdefault(job_of(record), now)

    def have_started(self, jobs: Sequence[str]) -> bool:
        return all(job in self.seen["TaskStarted"] for job in jobs)

    def given_s(self) -> list[float]:
        return [self.seen["JobStarting"][job] - at for job, at in self.evicted.items() if job in self.seen["JobStarting"]]


async def _with_bailiff(run: Run, cluster: FakeCluster, stack: Stack) -> Result:
    """Half of the pods by `SubmitJob`, the other half gated and opened by the bridge; then some are preempted."""
    half, times = cluster.nodes * PODS_PER_NODE // 2, Times()
    async with await Api.connect(cluster.kubeconfig) as api:
        await all_joined(stack, NAME, cluster.nodes, within_s=PATIENCE_S)
        run.say(f"Bailiff is there; load {os.getloadavg()[0]:.1f}")
        async with watching(stack.kafka.bootstrap, topics.AUDIT.name, on=times.note) as audit:
            mine = await _submitted(cluster, stack, api, audit, times, [f"job-{number}" for number in range(half)], "train")
            mine.say(run, "submitted")
            placed_s = max(times.seen["JobPlaced"].values()) - mine.began
            gated = await _gated(cluster, stack, api, times, half)
            gated.say(run, "gated")
            memory = megabytes(stack)
            urgent = [f"urgent-{number}" for number in range(min(URGENT, half))]
            given_on = await _submitted(cluster, stack, api, audit, times, urgent, "inference")
            given_on.say(run, "by preemption")
    return Result(mine, placed_s, gated, given_on, times.given_s(), memory)


async def _submitted(
    cluster: FakeCluster, stack: Stack, api: Api, audit: Watch, times: Times, jobs: Sequence[str], priority_class: str
) -> Phase:
    """Jobs by requests on Kafka, until their pods run."""
    phase = Phase(len(jobs))
    async with watched(api, "app.kubernetes.io/managed-by=bailiff") as watch:
        async with _measured(phase, cluster, stack):
            async with publishing(stack.kafka.bootstrap) as producer:
                for job in jobs:
                    headers, value = _submit(job, priority_class)
                    await producer.send(topics.REQUESTS.name, value, key=NAME.encode(), headers=list(headers))
            await watch.until("all run", lambda: watch.running.keys() >= set(jobs), PATIENCE_S)
        await audit.until("all are reported", lambda: times.have_started(jobs), PATIENCE_S)
        phase.reached(times.seen | watch.stages, jobs)
    return phase


async def _gated(cluster: FakeCluster, stack: Stack, api: Api, times: Times, pods: int) -> Phase:
    """Labelled pods, which the admission policies gate and the bridge opens."""
    phase, labels = Phase(pods), {POOL: NAME}
    async with watched(api, f"{POOL}={NAME}") as watch:
        async with _measured(phase, cluster, stack):
            await create_and_bind(api, [(pod(f"gated-{number}", GPUS, labels=labels), "") for number in range(pods)])
            await watch.until("all run", lambda: len(watch.running) >= pods, PATIENCE_S)
        phase.reached(times.seen | watch.stages, [job for job in times.seen["JobSubmitted"] if job.startswith(f"{NAMESPACE}.")])
    return phase


def _submit(job: str, priority_class: str) -> tuple[Headers, bytes]:
    group = TaskGroup(gpu_milli=GPUS * 1000, cpu_milli=100, memory_bytes=256 << 20)
    demand = JobDemand(job=job, tasks=(group,), priority_class=priority_class, grace=5_000_000)
    spec = JobSpec(command=("sleep", "infinity"), image="busybox", runtime="kubernetes")
    body = SubmitJob(demand=demand, spec=spec)
    return wrap(body, source="/bench", id=uuid.uuid4().hex, pool=NAME, time_us=time.time_ns() // 1000)


def _rows(cluster: FakeCluster, raw: Phase, alone: Phase, found: Result) -> list[Row]:
    mine, gated, urgent, given = found.submitted, found.gated, found.urgent, sorted(found.given_s)
    what = f"{cluster.nodes:,} nodes, {cluster.nodes * GPUS * PODS_PER_NODE:,} GPUs, {mine.pods + gated.pods:,} pods"
    base, raw_base = "kube-scheduler alone", "created and bound by one client"
    at_once = f"{mine.pods:,} at once"
    return [
        Row(f"{what}: jobs submitted until Running", mine.rate, "pods/s", "≥ 80 %", raw.rate, raw_base, _detail(mine)),
        Row("the same", mine.rate, "pods/s", "-", alone.rate, base, _detail(alone)),
        Row(
            "gated pods created until Running, by the bridge", gated.rate, "pods/s", "≥ 80 %", raw.rate, raw_base, _detail(gated)
        ),
        Row("the same", gated.rate, "pods/s", "-", alone.rate, base),
        Row("placements, in the log", mine.pods / found.placed_s, "/s"),
        Row(f"request published → pod Running, {at_once}, p50", mine.delay(0.5), "s", "-", alone.delay(0.5), base),
        Row("the same, p99", mine.delay(0.99), "s", "-", alone.delay(0.99), base),
        Row(f"eviction decided → GPUs given to the preemptor, {len(given)} at once, p50", given[len(given) // 2], "s"),
        Row("the same, p99", given[min(len(given) - 1, int(0.99 * len(given)))], "s"),
        Row("urgent request → its pod Running, p50", urgent.delay(0.5), "s", "-", None, "", _detail(urgent)),
        Row("the same, p99", urgent.delay(0.99), "s"),
        Row("requests to the API server, jobs submitted", mine.requests_per_s, "per s", "≥ 80 %", raw.requests_per_s, raw_base),
        Row("requests to the API server, by the bridge", gated.requests_per_s, "per s", "≥ 80 %", raw.requests_per_s, raw_base),
        *(Row(f"memory of {name}", found.memory[name], "MB", "≤ 300 MB") for name in (BRIDGE, AGENT, "admission")),
    ]


def _detail(phase: Phase) -> dict[str, object]:
    """For the JSON: what each pod cost."""
    return {
        "requests_per_pod": {name: round(count / phase.pods, 3) for name, count in phase.requests.most_common()},
        "processor_ms_per_pod": {name: round(1000 * each / phase.pods, 2) for name, each in phase.processor_s.items()},
    }
