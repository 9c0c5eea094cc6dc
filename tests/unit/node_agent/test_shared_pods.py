"""Pods with a part of a GPU: which nodes offer it, and what is checked before the job starts."""

import asyncio
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.node_agent.resource_slices import device, published_by, resource_slice

from bailiff_bus.messages.devices import ShareExceededReport
from bailiff_bus.messages.reports import TaskReleasedReport
from bailiff_core.model.job_spec import runtime_label, sharing_label
from bailiff_node_agent import mps
from bailiff_node_agent.agent import Agent
from bailiff_node_agent.agent_context import AgentContext
from bailiff_node_agent.devices import Device, DeviceUsage
from bailiff_node_agent.devices.ledger import ShareLedger
from bailiff_node_agent.disk import MemoryStorage
from bailiff_node_agent.kubernetes_settings import KubernetesSettings
from bailiff_node_agent.runtime import Capabilities, Pod, TaskKey
from bailiff_node_agent.runtime.kubernetes import KubernetesRuntime
from bailiff_node_agent.runtime.kubernetes.follow import PodFollower
from bailiff_node_agent.runtime.kubernetes.published import PublishedDevices
from bailiff_node_agent.runtime.kubernetes.task_files import TaskFiles, TaskOrder
from bailiff_node_agent.settings import NodeDeclaration
from bailiff_node_agent.tasks.release import Releaser
from bailiff_node_agent.tasks.start import TaskStarter
from bailiff_node_agent.tasks.task_table import LocalTask, TaskTable
from bailiff_node_agent.tasks.watchdogs import watch_shares
from bailiff_service.logs import logger

Object = dict[str, Any]
NEW, RUNNING, WHOLE = TaskKey("new", 1, "0"), TaskKey("running", 1, "0"), TaskKey("whole", 1, "0")
SETTINGS = KubernetesSettings()


def runtime(folder: Path, published: PublishedDevices, cluster_node: Any = None) -> KubernetesRuntime:
    return KubernetesRuntime(folder, "n1", SETTINGS, cluster_node, published)


def test_pods_share_gpus_where_a_driver_publishes_them_to_an_agent_on_the_node(tmp_path: Path) -> None:
    published = published_by()
    pods = runtime(tmp_path / "on", published)
    assert pods.capabilities == Capabilities(images=True, host_resources=False, shares_gpus=False, starts_slowly=True)
    published.update([resource_slice(device(0))])
    assert pods.capabilities == Capabilities(images=True, host_resources=False, shares_gpus=True, starts_slowly=True)
    away = runtime(tmp_path / "away", published, SimpleNamespace()).capabilities
    assert (away.shares_gpus, away.outlives_agent, away.sees_release) == (False, False, False)


@pytest.mark.parametrize("by_driver", [True, False])
def test_the_nodes_labels_say_whether_its_pods_share_gpus_and_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, by_driver: bool
) -> None:
    monkeypatch.setattr(mps, "daemon_runs", lambda: True)  # of the node, which pods do not reach
    published = published_by(resource_slice(device(0))) if by_driver else published_by()
    runtimes = {"process": SimpleNamespace(capabilities=Capabilities()), "kubernetes": runtime(tmp_path, published)}
    node = NodeDeclaration(name="n1", pool="p", gpus="kubernetes", runtimes=("process", "kubernetes"))
    inventory = SimpleNamespace(chooser="kubernetes")
    context: Any = SimpleNamespace(node=node, runtimes=runtimes, inventory=inventory, is_on_node=True)
    context.shares_by_mps = AgentContext.shares_by_mps.__get__(context)
    agent: Any = SimpleNamespace(context=context)
    shares = {sharing_label("kubernetes"): "true", mps.LABEL: "time-slicing"}
    assert Agent._offers(agent) == {runtime_label("kubernetes"): "true"} | (shares if by_driver else {})


def refusal(key: TaskKey, **parts: Fraction) -> str | None:
    """What the agent says to the devices that the kubelet has given to this task, beside a running one that has a half."""
    tasks, shares = TaskTable(), ShareLedger(MemoryStorage())
    for task in (LocalTask(RUNNING, "kubernetes", ("GPU-1",)), LocalTask(key, "kubernetes", ())):
        tasks.add(task)
    for name, part in {"running": Fraction(1, 2), **parts}.items():
        shares.add(str(TaskKey(name, 1, "0")), part)
    quarantine: Any = SimpleNamespace(refusal=lambda *_, **__: None)
    rest: Any = None
    starter = TaskStarter(rest, tasks, quarantine, shares, rest, rest, rest, rest, rest, rest)
    found = starter._refuse_chosen(key, ("GPU-1",))
    assert tasks[key].devices == (() if found else ("GPU-1",))
    return found


def test_a_task_starts_beside_others_as_far_as_its_gpu_reaches() -> None:
    assert refusal(NEW, new=Fraction(1, 2)) is None
    too_much = "the kubelet chose GPU-1, which is still in use by running, attempt 1"
    assert refusal(NEW, new=Fraction(3, 5)) == too_much
    assert refusal(WHOLE) == too_much


async def test_devices_of_several_claims_count_once_all_of_them_are_prepared(tmp_path: Path) -> None:
    order = TaskOrder(NEW, "jobs", "pod-1", own_pod=True, devices=("GPU-1", "GPU-2"), ordered_by=7, is_only_task=True, uid="u1")
    files, looks = TaskFiles(tmp_path), asyncio.Semaphore(0)
    files.write_order(order)
    held, pod = ["GPU-1"], {"metadata": {"uid": "u1"}, "spec": {}, "status": {"phase": "Pending"}}

    def devices_of(*_: str) -> tuple[str, ...]:
        return tuple(held)

    node: Any = SimpleNamespace(
        files=files,
        changed={},
        lease=None,
        reaches_node=True,
        settings=SETTINGS,
        find=lambda *_: pod,
        resources=SimpleNamespace(devices_of=devices_of),
    )
    follower = PodFollower(node, order, None, None, lambda _: None)

    async def wait(_: float) -> None:
        looks.release()
        await asyncio.sleep(0)

    follower._wait = wait  # type: ignore[method-assign]
    found = asyncio.create_task(follower._devices())
    await looks.acquire()
    assert not found.done()
    held.append("GPU-2")
    assert await found == ("GPU-1", "GPU-2")


GIB = 1 << 30


class Kubelet:
    """Has given GPU-1 to the pods of two tasks. used: bytes on it by the pid of each task's process."""

    blocking, chooser = False, "kubernetes"

    def __init__(self) -> None:
        self.pods = {("jobs", str(NEW)), ("jobs", str(RUNNING))}
        self.used = {7: 40 * GIB, 8: 40 * GIB}
        self.looks = asyncio.Semaphore(0)

    def list(self) -> list[Device]:
        return [Device(0, "GPU-1", "gpu", "H100", 80 * GIB, None, healthy=True)]

    def usage(self, _: str) -> DeviceUsage:
        self.looks.release()
        return DeviceUsage(sum(self.used.values()), tuple(self.used), self.used, pods=tuple(self.pods))


class Pods:
    """The runtime: the cgroup of each task's pod has one process."""

    capabilities = Capabilities(images=True, host_resources=False, starts_slowly=True)

    def __init__(self) -> None:
        self.processes: dict[TaskKey, tuple[int, ...]] = {NEW: (7,), RUNNING: (8,)}

    def pids(self, key: TaskKey) -> tuple[int, ...]:
        return self.processes[key]

    def task_pods(self) -> set[Pod]:
        return set()

    def pod_of(self, key: TaskKey) -> Pod:
        return "jobs", str(key)

    async def may_be_task(self, *_: str) -> bool:
        return False

    async def kill(self, key: TaskKey) -> None:
        pass


class TwoTasks:
    """Two tasks with a half of GPU-1 each. reports: what the agent says about them."""

    def __init__(self) -> None:
        self.kubelet, self.pods = Kubelet(), Pods()
        self.tasks, self.shares = TaskTable(), ShareLedger(MemoryStorage())
        self.reports: asyncio.Queue[tuple[TaskKey, type, dict[str, Any]]] = asyncio.Queue()
        for key in (NEW, RUNNING):
            self.tasks.add(LocalTask(key, "kubernetes", ("GPU-1",)))
            self.shares.add(str(key), Fraction(1, 2))
        self.context: Any = SimpleNamespace(
            inventory=self.kubelet,
            runtimes={"kubernetes": self.pods},
            device_poll_s=0,
            release_timeout_s=600,
            release_poll_s=0,
            log=logger,
            shares_by_mps=False,
        )
        self.reporter: Any = SimpleNamespace(report_task=self._report)

    def _report(self, key: TaskKey, _: int | None, kind: type, **content: Any) -> int:
        self.reports.put_nowait((key, kind, content))
        return 1


async def test_a_pod_that_exceeds_its_share_is_reported_by_the_memory_of_its_processes() -> None:
    node = TwoTasks()
    node.kubelet.used[7] += GIB
    watching = asyncio.create_task(watch_shares(node.context, node.tasks, node.shares, node.reporter))
    key, kind, exceeded = await node.reports.get()
    watching.cancel()
    assert (key, kind) == (NEW, ShareExceededReport)
    assert exceeded == {"device": "GPU-1", "used_bytes": 41 * GIB, "share_bytes": 40 * GIB}


@pytest.mark.parametrize("last", ["cgroup", "gpu", "kubelet"])
async def test_a_pods_part_is_released_once_it_is_gone_everywhere_and_the_other_pod_keeps_its_own(last: str) -> None:
    """Its process from the cgroup, and from the GPU, and the pod from the kubelet's list."""
    node = TwoTasks()
    rest: Any = SimpleNamespace(spawn=lambda work: work.close())
    quarantine: Any = SimpleNamespace(baseline={})
    releaser = Releaser(node.context, node.tasks, quarantine, node.shares, rest, node.reporter, rest)
    task = node.tasks[NEW]
    task.state, task.exit_code = "exited", 0
    releasing = asyncio.create_task(releaser.release(task))

    async def is_looked_at_again() -> None:
        node.kubelet.looks = asyncio.Semaphore(0)
        for _ in range(2):
            await asyncio.wait([releasing, asyncio.create_task(node.kubelet.looks.acquire())], return_when="FIRST_COMPLETED")
        assert not releasing.done()

    gone = {
        "cgroup": lambda: node.pods.processes.update({NEW: ()}),
        "gpu": lambda: node.kubelet.used.pop(7),
        "kubelet": lambda: node.kubelet.pods.remove(("jobs", str(NEW))),
    }
    await is_looked_at_again()
    for where in [*gone.keys() - {last}]:
        gone[where]()
    await is_looked_at_again()
    gone[last]()
    await releasing
    key, kind, _ = node.reports.get_nowait()
    assert (key, kind, task.state) == (NEW, TaskReleasedReport, "released")
    assert node.tasks[RUNNING].state == "running"
