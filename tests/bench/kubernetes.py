"""A cluster of fake nodes (kwok): how fast jobs become running pods, and what that costs; beside kube-scheduler alone.

The API server, etcd, kube-scheduler, controllers and kwok run on this machine as well, from the program that
`BAILIFF_TEST_KUBERNETES` names. `BAILIFF_BENCH_NODES` is the number of nodes; each has eight GPUs, and runs as many pods as
`BAILIFF_BENCH_PODS_PER_NODE` says, which share them.
"""

import asyncio
import contextlib
import json
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiokafka import ConsumerRecord

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.messages import JobSpec, SubmitJob
from bailiff_bus.port import Headers
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_devstack import free_port
from bailiff_devstack.stack import Plan, Stack
from bailiff_kubernetes import AlreadyExists, Api, LocalView, TooManyRequests, Unreachable
from bailiff_kubernetes.names import POOL
from bailiff_kubernetes.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS, Object, without_managed_fields
from bailiff_log.credentials import issued_credentials
from bailiff_log.keys import existing_or_new_key, key_id

from .fake_cluster import PATIENCE_S, FakeCluster, fake_cluster
from .system import Watch, all_joined, megabytes, publishing, watching
from .table import Row, Run

NAME, NAMESPACE = "pool-k", "bench"
AGENT, BRIDGE = "node-agent-api", "kubernetes-bridge"
OTHER = {"name": "other", "pool": "other", "gpus": "1xH100-80GB"}
LABELS = {"offline-kubernetes/node": "fake"}
PODS_PER_NODE = int(os.environ.get("BAILIFF_BENCH_PODS_PER_NODE", "4"))
GPUS = 8 // PODS_PER_NODE
AT_ONCE = 64
MANIFESTS = Path(__file__).parents[2] / "deploy" / "kubernetes"


def measure(run: Run) -> list[Row]:
    """The same pods for kube-scheduler alone, then by Bailiff."""
    nodes = int(os.environ.get("BAILIFF_BENCH_NODES", "20" if run.quick else "1000"))
    run.folder.mkdir(parents=True, exist_ok=True)
    with fake_cluster(run.folder / "c", nodes, GPUS * PODS_PER_NODE) as cluster, _stack(run.folder / "s", cluster) as stack:
        return asyncio.run(_measure(run, cluster, stack))


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
    cluster.kubectl("apply", "-f", str(MANIFESTS / "admission-policies.yaml"))
    with Stack(folder, Plan(pools=(NAME, "other"), nodes=[OTHER], policy=folder / "policy.yaml")) as stack:
        stack.start_service("node-agent", replica="-api", env=env | {"BAILIFF_NODES": json.dumps([declared])})
        stack.processes.wait_ready(AGENT, timeout_s=PATIENCE_S)  # very many nodes take longer than the stack waits
        port = free_port()
        settings = {
            **stack.environment(BRIDGE, port), "BAILIFF_KEY": str(key_file), "BAILIFF_CLUSTER": "bench",
            "BAILIFF_LEASE_NAMESPACE": "default", "BAILIFF_STATE_DIR": str(folder / "bridge"),
            "BAILIFF_KUBECONFIG": str(cluster.kubeconfig),
        }  # fmt: skip
        command, url = [sys.executable, "-m", "bailiff_kubernetes_bridge"], f"http://127.0.0.1:{port}/readyz"
        stack.processes.start(BRIDGE, command, env=settings, ready_url=url)
        stack.processes.wait_ready(BRIDGE, timeout_s=PATIENCE_S)
        yield stack


class PodWatch:
    """When each pod of the namespace was first seen running. gone: how many were deleted."""

    def __init__(self, api: Api, labels: str) -> None:
        self._view = LocalView(api, PODS, NAMESPACE, labels, trim=without_managed_fields)
        self.running: dict[str, float] = {}
        self.gone = 0
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        async for change in self._view.changes():
            name = change.object["metadata"]["name"]
            if change.kind == "deleted":
                self.gone += 1
            elif change.object["status"].get("phase") == "Running":
                self.running.setdefault(name, time.perf_counter())
            self._changed.set()

    async def until(self, what: str, condition: Any) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"{what}: {len(self.running)} ran, {self.gone} are gone") from None


@dataclass
class Phase:
    """Some pods from the first request until all run. requests: per second. delays: of each pod."""

    began: float
    seconds: float
    requests: float
    delays: list[float] = field(default_factory=list)

    def delay(self, share: float) -> float:
        return sorted(self.delays)[min(len(self.delays) - 1, int(share * len(self.delays)))] if self.delays else 0.0


class Times:
    """When each kind of record was first seen for each job."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, float]] = {kind: {} for kind in ("JobPlaced", "TaskStarted")}

    def note(self, kind: str, record: ConsumerRecord) -> None:
        by_job = self.seen.get(kind.removeprefix("bailiff.audit.").removesuffix(".v1"))
        if by_job is not None:
            by_job.setdefault(str(json.loads(record.value)["job"]), time.perf_counter())

    def delays(self, began: float, jobs: Iterable[str]) -> list[float]:
        """From then until each of these jobs ran."""
        return [self.seen["TaskStarted"][job] - began for job in jobs]

    def have_started(self, jobs: Sequence[str]) -> bool:
        return all(job in self.seen["TaskStarted"] for job in jobs)


async def _measure(run: Run, cluster: FakeCluster, stack: Stack) -> list[Row]:
    """Half of the room is filled by `SubmitJob`, the other half by gated pods through the bridge; then some are preempted."""
    half, times = cluster.nodes * PODS_PER_NODE // 2, Times()
    async with await Api.connect(cluster.kubeconfig) as api:
        await api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        await _service_account(api)
        await all_joined(stack, NAME, cluster.nodes, within_s=PATIENCE_S)
        run.say(f"{cluster.nodes} nodes; load {os.getloadavg()[0]:.1f}")
        alone = await _alone(cluster, api, half)
        run.say(f"kube-scheduler alone: {half / alone.seconds:.1f} pods/s, {alone.requests:.0f} requests/s")
        async with watching(stack.kafka.bootstrap, topics.AUDIT.name, on=times.note) as audit:
            mine = await _submitted(cluster, stack, audit, times, [f"job-{number}" for number in range(half)], "train")
            placed = max(times.seen["JobPlaced"].values()) - mine.began
            run.say(f"Bailiff: {half / mine.seconds:.1f} pods/s, placed after {placed:.1f} s, {mine.requests:.0f} requests/s")
            gated = await _gated(cluster, api, half)
            run.say(f"through the bridge: {half / gated.seconds:.1f} pods/s, {gated.requests:.0f} requests/s")
            memory = megabytes(stack)
            urgent = [f"urgent-{number}" for number in range(min(40, half))]
            given_on = await _submitted(cluster, stack, audit, times, urgent, "inference")
    what = f"{cluster.nodes:,} nodes, {cluster.nodes * GPUS * PODS_PER_NODE:,} GPUs, {2 * half:,} pods"
    base = "kube-scheduler alone"
    return [
        Row(f"{what}: jobs submitted until Running", half / mine.seconds, "pods/s", "≥ 80 %", half / alone.seconds, base),
        Row("gated pods created until Running, by the bridge", half / gated.seconds, "pods/s", "-", half / alone.seconds, base),
        Row("placements, in the log", half / placed, "/s"),
        Row(f"request published → pod Running, {half:,} at once, p50", mine.delay(0.5), "s", "-", alone.delay(0.5), base),
        Row("the same, p99", mine.delay(0.99), "s", "-", alone.delay(0.99), base),
        Row(f"urgent request → pod Running by preemption, {len(urgent)} at once, p50", given_on.delay(0.5), "s"),
        Row("the same, p99", given_on.delay(0.99), "s"),
        Row("requests to the API server, jobs submitted", mine.requests, "per s", "-", alone.requests, base),
        Row("requests to the API server, by the bridge", gated.requests, "per s", "-", alone.requests, base),
        *(Row(f"memory of {name}", memory[name], "MB", "≤ 300 MB") for name in (BRIDGE, AGENT, "admission")),
    ]


async def _submitted(
    cluster: FakeCluster, stack: Stack, audit: Watch, times: Times, jobs: Sequence[str], priority_class: str
) -> Phase:
    """Jobs by requests on Kafka, until all run."""
    before, began = cluster.requests(), time.perf_counter()
    async with publishing(stack.kafka.bootstrap) as producer:
        for job in jobs:
            headers, value = _submit(job, priority_class)
            await producer.send(topics.REQUESTS.name, value, key=NAME.encode(), headers=list(headers))
    await audit.until("all run", lambda: times.have_started(jobs), PATIENCE_S)
    seconds = time.perf_counter() - began
    return Phase(began, seconds, (cluster.requests() - before) / seconds, times.delays(began, jobs))


async def _gated(cluster: FakeCluster, api: Api, pods: int) -> Phase:
    """Labelled pods, which the admission policies gate and the bridge opens."""
    async with _watched(api, f"{POOL}={NAME}") as watch:
        before, began = cluster.requests(), time.perf_counter()
        labels = {POOL: NAME}
        await _create(api, [_pod(f"gated-{number}", labels=labels) for number in range(pods)])
        await watch.until("all run", lambda: len(watch.running) >= pods)
        seconds = time.perf_counter() - began
        return Phase(began, seconds, (cluster.requests() - before) / seconds, [at - began for at in watch.running.values()])


async def _service_account(api: Api) -> None:
    async with asyncio.timeout(120):
        while await api.find(SERVICE_ACCOUNTS, "default", NAMESPACE) is None:  # noqa: ASYNC110 - a controller makes it
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def _watched(api: Api, labels: str = "") -> AsyncIterator[PodWatch]:
    watch = PodWatch(api, labels)
    following = asyncio.ensure_future(watch.follow())
    try:
        yield watch
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _alone(cluster: FakeCluster, api: Api, pods: int) -> Phase:
    """Pods for kube-scheduler alone, created by this process; afterwards they are deleted."""
    async with _watched(api) as watch:
        before, began = cluster.requests(), time.perf_counter()
        await _create(api, [_pod(f"alone-{number}") for number in range(pods)])
        await watch.until("all run", lambda: len(watch.running) >= pods)
        seconds = time.perf_counter() - began
        phase = Phase(began, seconds, (cluster.requests() - before) / seconds, [at - began for at in watch.running.values()])
        await _delete_all(api, watch, pods)
        return phase


async def _create(api: Api, pods: list[Object]) -> None:
    slots = asyncio.Semaphore(AT_ONCE)

    async def create(pod: Object) -> None:
        async with slots:
            while True:
                try:
                    await api.create(PODS, pod, NAMESPACE)
                except (Unreachable, TooManyRequests):
                    continue  # the machine is overloaded, which is what is measured
                except AlreadyExists:
                    return
                return

    await asyncio.gather(*map(create, pods))


async def _delete_all(api: Api, watch: PodWatch, pods: int) -> None:
    slots, gone = asyncio.Semaphore(AT_ONCE), watch.gone

    async def delete(name: str) -> None:
        async with slots:
            await api.delete(PODS, name, NAMESPACE, grace_s=1)

    await asyncio.gather(*map(delete, [*watch.running]))
    await watch.until("all are gone", lambda: watch.gone - gone >= pods)


def _pod(name: str, **metadata: Any) -> Object:
    resources = {"limits": {"nvidia.com/gpu": str(GPUS), "cpu": "100m", "memory": "256Mi"}}
    container = {"name": "main", "image": "busybox", "resources": resources}
    spec = {"restartPolicy": "Never", "nodeSelector": {}, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def _submit(job: str, priority_class: str) -> tuple[Headers, bytes]:
    group = TaskGroup(gpu_milli=GPUS * 1000, cpu_milli=100, memory_bytes=256 << 20)
    demand = JobDemand(job=job, tasks=(group,), priority_class=priority_class, grace=5_000_000)
    spec = JobSpec(command=("sleep", "infinity"), image="busybox", runtime="kubernetes")
    body = SubmitJob(demand=demand, spec=spec)
    return wrap(body, source="/bench", id=uuid.uuid4().hex, pool=NAME, time_us=time.time_ns() // 1000)
