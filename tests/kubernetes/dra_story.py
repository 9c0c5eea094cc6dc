"""A kubelet whose DRA driver gives out its devices: agents that come and go on it, and a pool whose one machine it is."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.kits.dra import DraCluster
from tests.kits.kubernetes_cluster import IMAGE, PATIENCE_S
from tests.kits.system import System, Watch

from bailiff_kubernetes import Api, pod_name
from bailiff_node_agent.runtime import Exit, Launch, TaskKey
from bailiff_node_agent.runtime.kubernetes import KubernetesRuntime
from bailiff_node_agent.runtime.kubernetes.placement import Placement
from bailiff_node_agent.runtime.kubernetes.pod_resources import PodResources
from bailiff_node_agent.runtime.kubernetes.published import PublishedDevices

POOL, JOBS = "pool-dra", "bailiff-dra-jobs"
KEY, OTHER = TaskKey("train-7", 1, "0"), TaskKey("train-8", 1, "0")
RUNS = "env > $JOB.new; mv $JOB.new $JOB; exec sleep 300"
"""A job that writes its environment into a file, and then runs on."""


@pytest.fixture(name="namespace")
def dra_namespace(dra_cluster: DraCluster) -> Iterator[str]:
    """Gone with the test, pods and claims with it."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    dra_cluster.kubectl("create", "namespace", name)
    dra_cluster.kubectl("wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=60s")
    yield name
    for pod in dra_cluster.get("pods", "-n", name)["items"]:
        with contextlib.suppress(AssertionError):  # it may have gone meanwhile
            no_finalizers = json.dumps({"metadata": {"finalizers": None}})
            dra_cluster.kubectl("patch", "pod", pod["metadata"]["name"], "-n", name, "--type=merge", "-p", no_finalizers)
    dra_cluster.kubectl("delete", "namespace", name, f"--timeout={PATIENCE_S:.0f}s")


class Node:
    """The kubelet, its devices as the driver publishes them, and agents that come and go."""

    def __init__(self, folder: Path, cluster: DraCluster, namespace: str, published: PublishedDevices) -> None:
        self.folder, self.cluster, self.namespace, self.published = folder, cluster, namespace, published
        self.devices = tuple(cluster.published().values())
        self.resources = PodResources(cluster.node().pod_resources, published)
        self.agents: list[KubernetesRuntime] = []

    def agent(self, **settings: Any) -> KubernetesRuntime:
        wanted = self.cluster.settings(self.namespace).model_copy(update=settings)
        self.agents.append(KubernetesRuntime(self.folder / "agent", self.cluster.node().name, wanted, published=self.published))
        return self.agents[-1]

    def launch(self, *devices: str, key: TaskKey = KEY, part: Fraction | None = None) -> Launch:
        env, folder = {"JOB": key.job}, self.folder
        rest: dict[str, Any] = {"image": IMAGE, "folders": (folder,), "check_devices": lambda _: None, "part": part}
        return Launch(key, RUNS, env, str(folder), devices, **rest)

    async def given(self, key: TaskKey = KEY) -> set[str]:
        """The devices that the task's container finds."""
        path = self.folder / key.job
        await until(path.exists)
        return self.cluster.given(path.read_text())

    def held(self, key: TaskKey = KEY) -> set[str]:
        """The devices that the task's pod has, by the kubelet's word."""
        return set(self.resources.devices_of(self.namespace, pod_name(str(key))))

    async def until_no_claim(self) -> None:
        await until(lambda: not self.cluster.claims(self.namespace))


@pytest.fixture(name="node")
async def dra_node(tmp_path: Path, dra_cluster: DraCluster, namespace: str) -> AsyncIterator[Node]:
    settings = dra_cluster.settings(namespace)
    published = PublishedDevices(settings, dra_cluster.node().name)
    async with await Api.connect(settings.kubeconfig) as api:
        assert await published.read(api)
    found = Node(tmp_path, dra_cluster, namespace, published)
    yield found
    for agent in found.agents:
        await agent.close()
    found.resources.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - what is awaited happens in another process
            await asyncio.sleep(0.05)


async def exit_of(agent: KubernetesRuntime) -> Exit:
    return await asyncio.wait_for(agent.wait_exit(), PATIENCE_S)


async def die_before(step: str, node: Node, monkeypatch: pytest.MonkeyPatch, launch: Launch) -> None:
    """An agent has made the task's pod, and ends before this step of its placement."""
    agent, reached = node.agent(), asyncio.Event()

    async def die(_: Placement) -> None:
        reached.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(Placement, step, die)
        starting = asyncio.create_task(agent.start(launch))
        await asyncio.wait_for(reached.wait(), PATIENCE_S)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await agent.close()


# --- the whole system


class DraSystem(System):
    """A pool whose one machine is the kubelet with the driver."""

    def __init__(self, folder: Path, cluster: DraCluster) -> None:
        super().__init__(folder, pools={POOL: 1})
        self.cluster, self.services = cluster, ("admission", "victim-selection", "eviction-executor")

    def start(self) -> None:
        self.start_kafka()
        self.start_services()
        self.start_agent()
        self.wait_ready()

    def start_agent(self) -> None:
        runtimes = ["process", "kubernetes"]
        node = {"name": self.cluster.node().name, "pool": POOL, "gpus": "kubernetes", "runtimes": runtimes, "cpu_milli": 1000}
        env = {
            "BAILIFF_NODES": json.dumps([node]),
            "BAILIFF_KUBERNETES": self.cluster.settings(JOBS).model_dump_json(),
            "BAILIFF_DEVICE_POLL_S": "0.5",
        }
        self.stack.start_service("node-agent", env=env)


@pytest.fixture(name="system")
def dra_system(dra_cluster: DraCluster, tmp_path: Path) -> Iterator[DraSystem]:
    """Started without an event loop: `System` runs its own."""
    dra_cluster.kubectl("create", "namespace", JOBS)
    dra_cluster.kubectl("wait", "--for=create", "serviceaccount/default", "-n", JOBS, "--timeout=60s")
    with DraSystem(tmp_path / "system", dra_cluster) as system:
        yield system
        dra_cluster.kubectl("delete", "namespace", JOBS, f"--timeout={PATIENCE_S:.0f}s")


@pytest.fixture(name="pool")
async def dra_pool(system: DraSystem) -> AsyncIterator[Watch]:
    async with system.watch(POOL) as watch:
        yield watch
