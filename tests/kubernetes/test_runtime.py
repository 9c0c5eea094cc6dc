"""What a pod has that a process has, too: notice and checkpoint hand-shake, lease, eviction with both sides, proof of its end.

On a real kubelet. The contract of all runtimes is in tests/contract.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.kits.kubernetes_cluster import IMAGE, PATIENCE_S, Cluster, RealNode
from tests.kits.shell import Shell
from tests.kits.waiting import exit_of

from bailiff.attach.frames import resize
from bailiff_kubernetes import Api, pod_name, task_hash
from bailiff_kubernetes.names import FINALIZER, GATE, NOTICE, TASK, TASK_HASH
from bailiff_kubernetes.resources import PODS, Object, condition_of
from bailiff_node_agent.kubernetes_settings import KubernetesSettings
from bailiff_node_agent.runtime import Exit, Launch, Running, TaskKey, WorkloadRef
from bailiff_node_agent.runtime.kubernetes import KubernetesRuntime
from bailiff_node_agent.runtime.kubernetes.manifest import affinity
from bailiff_node_agent.runtime.kubernetes.placement import Placement
from bailiff_node_agent.runtime.kubernetes.pod_resources import PodResources
from bailiff_node_agent.runtime.supervisor.host import boottime_us

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]
KEY = TaskKey("train-7", 1, "0")
SECOND = 1_000_000
HOST = tuple(path for path in map(Path, ("/lib", "/lib64", "/usr", sys.base_prefix)) if path.exists())
"""What a job in an empty image needs to run this machine's Python."""
LIBRARY = Path(__file__).parents[2] / "libs" / "job"
TRAIN = """
import time
from bailiff_job import attach

job = attach()
saved = []

def save(folder):
    (folder / "weights").write_text("42")

for step in range(job.restore(lambda folder: None), 100_000):
    time.sleep(0.02)
    job.progress(step, 100_000)
    if job.should_checkpoint(step):
        job.checkpoint(step, save)
    if job.preempted:
        job.exit()
"""


class Node:
    """A kubelet, and agents that come and go on it."""

    def __init__(self, folder: Path, cluster: Cluster, namespace: str) -> None:
        self.folder, self.real, self.namespace = folder, cluster.node(), namespace
        self.settings = KubernetesSettings(
            kubeconfig=cluster.kubeconfig,
            namespace=namespace,
            kubelet_dir=self.real.kubelet,
            placement_timeout_s=PATIENCE_S,
            shells=True,
        )
        self.agents: list[KubernetesRuntime] = []

    def agent(self, placement_timeout_s: float = PATIENCE_S) -> KubernetesRuntime:
        settings = self.settings.model_copy(update={"placement_timeout_s": placement_timeout_s})
        self.agents.append(KubernetesRuntime(self.folder / "agent", self.real.name, settings))
        return self.agents[-1]

    def launch(self, script: str, key: TaskKey = KEY, **fields: Any) -> Launch:
        folders = (self.folder,)
        return Launch(key, script, working_dir=str(self.folder), device_ids=("any",), image=IMAGE, folders=folders, **fields)

    def trains(self) -> Launch:
        """A job that uses the job library."""
        script = self.folder / "train.py"
        script.write_text(TRAIN)
        env = {
            "PYTHONPATH": str(LIBRARY),
            "BAILIFF_CHECKPOINT_DIR": str(self.folder / "checkpoints"),
            "BAILIFF_JOB_ID": KEY.job,
            "BAILIFF_ATTEMPT": "1",
            "RANK": "0",
            "WORLD_SIZE": "1",
        }
        (self.folder / "checkpoints").mkdir(exist_ok=True)
        launch = self.launch("", env=env)
        return replace(launch, command=[f"{sys.base_prefix}/bin/python3", str(script)], folders=(self.folder, LIBRARY, *HOST))

    def holders(self) -> dict[str, str]:
        held = PodResources(self.real.pod_resources).pod_devices()
        return {device: each.pod for each in held for device in each.devices}


@pytest.fixture
async def node(tmp_path: Path, kubernetes: Cluster, kubernetes_namespace: str) -> AsyncIterator[Node]:
    node = Node(tmp_path, kubernetes, kubernetes_namespace)
    yield node
    for agent in node.agents:
        await agent.close()


async def until(condition: Any) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        while not (found := condition()):  # noqa: ASYNC110 - what is awaited happens in another process
            await asyncio.sleep(0.05)
        return found


async def pod_of(api: Api, node: Node, key: TaskKey = KEY) -> Object:
    return await api.get(PODS, pod_name(str(key)), node.namespace)


def disruption_of(pod: Object) -> str | None:
    """The message of the condition by which controllers know a preemption; None if it does not hold."""
    condition = condition_of(pod, "DisruptionTarget")
    if condition is None:
        return None
    assert condition["lastTransitionTime"], "without its time, Kubernetes takes it for forgotten, and sets it to False"
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    return str(condition["message"])


async def test_a_training_job_in_a_pod_is_noticed_saves_and_yields(node: Node, kubernetes_api: Api) -> None:
    agent = node.agent()
    await agent.start(node.trains())
    await until(lambda: agent.messages(KEY))
    assert agent.messages(KEY)[0].type == "hello", "the socket works across the container's wall"
    await until(lambda: (agent.steps(KEY).published or 0) > 3)

    now = boottime_us()
    notice = {"reason": "preempted for serve-1", "preemptor": "serve-1", "soft_s": 20, "hard_s": 30}
    await agent.notice(KEY, notice, now + 20 * SECOND, now + 30 * SECOND)
    assert (
        json.loads((await pod_of(kubernetes_api, node))["metadata"]["annotations"]["bailiff.io/notice"])["preemptor"] == "serve-1"
    )
    end = await exit_of(agent)
    assert (end.code, end.error) == (85, None)
    assert disruption_of(await pod_of(kubernetes_api, node)) == "preempted by job serve-1: preempted for serve-1", (
        "a job that obeys the notice has the condition, too: its controller counts no failure"
    )
    types = [message.type for message in agent.messages(KEY)]
    assert "checkpoint_committed" in types
    assert types[-1] == "yielding"
    assert [*(node.folder / "checkpoints").rglob("weights")]


async def test_a_shell_is_in_the_pod_and_nothing_of_it_outlives_its_connection(node: Node) -> None:
    agent = node.agent()
    await agent.start(node.launch("sleep 3000", env={"LR": "0.1"}))
    assert agent.has_shell(KEY)
    shell = Shell(*await agent.open_shell(KEY))
    assert await shell.asks("echo $LR in $BAILIFF_TASK, $PWD") == f"0.1 in {KEY}, {node.folder}"
    shell.writer.write(resize(40, 120))
    async with asyncio.timeout(PATIENCE_S):
        while await shell.asks("stty size") != "40 120":
            pass
    other = Shell(*await agent.open_shell(KEY))
    await other.asks("(trap '' HUP TERM; sleep 4000) & sleep 0.1")
    assert runs(agent, "sleep 4000")
    other.writer.close()
    await until(lambda: not runs(agent, "sleep 4000"))
    assert await shell.asks("echo still here") == "still here"
    await agent.kill(KEY)
    await shell.ended()
    await exit_of(agent)


def runs(agent: KubernetesRuntime, command: str) -> bool:
    commands = [Path(f"/proc/{pid}/cmdline") for pid in agent.pids(KEY)]
    return any(path.exists() and command.split() == path.read_text().split("\0")[:-1] for path in commands)


async def test_a_cancelled_eviction_takes_the_notice_away(node: Node, kubernetes_api: Api) -> None:
    agent = node.agent()
    await agent.start(
        node.launch("until test -e $BAILIFF_CONTROL_DIR/notice.json; do sleep 0.1; done; touch seen; exec sleep 300")
    )
    now = boottime_us()
    await agent.deadlines(KEY, now + 100 * SECOND, now + 200 * SECOND)
    await agent.notice(KEY, {"reason": "r", "preemptor": "p"}, now + 100 * SECOND, now + 200 * SECOND)
    await until((node.folder / "seen").exists)
    assert disruption_of(await pod_of(kubernetes_api, node)) == "preempted by job p: r"
    await agent.cancel_eviction(KEY)
    assert not (agent._control_dir(KEY) / "notice.json").exists()
    assert NOTICE not in (await pod_of(kubernetes_api, node))["metadata"]["annotations"]
    async with asyncio.timeout(PATIENCE_S):
        while disruption_of(await pod_of(kubernetes_api, node)) is not None:  # noqa: ASYNC110 - a follower takes it away
            await asyncio.sleep(0.05)
    assert agent.pids(KEY)


async def test_term_is_a_delete_that_names_both_sides(node: Node, kubernetes_api: Api) -> None:
    agent = node.agent()
    await agent.start(node.launch("trap 'sleep 2; exit 7' TERM; touch ready; while :; do sleep 0.1; done"))
    await until((node.folder / "ready").exists)
    await agent.notice(KEY, {"reason": "it has a higher priority", "preemptor": "serve-1"})
    await agent.terminate(KEY, 20)
    end = await exit_of(agent)
    assert end.code == 7
    pod = await pod_of(kubernetes_api, node)
    assert FINALIZER in pod["metadata"]["finalizers"], "its exit stays readable until its devices are proven free"
    assert disruption_of(pod) == "preempted by job serve-1: it has a higher priority"
    await agent.forget(KEY)
    await until_gone(kubernetes_api, pod_name(str(KEY)), node.namespace)
    assert pod_name(str(KEY)) not in node.holders().values()


async def test_without_its_agent_a_pod_ends_with_the_lease(node: Node) -> None:
    agent = node.agent()
    agent.renew(boottime_us() + 3600 * SECOND, 2 * SECOND)
    running = await agent.start(node.launch("touch ready; exec sleep 300"))
    await until((node.folder / "ready").exists)
    agent.renew(boottime_us() + 2 * SECOND, 2 * SECOND)
    await agent.close()
    following = node.agent()
    assert await following.adopt() == [running]
    assert (await exit_of(following)).code == 143


async def test_a_pod_that_is_not_bound_in_time_is_an_exit_with_the_schedulers_reason(node: Node, kubernetes_api: Api) -> None:
    launch = replace(node.launch("true"), device_ids=tuple(f"any-{n}" for n in range(9)))
    first = node.agent()
    starting = asyncio.create_task(first.start(launch))
    await until_the_scheduler_has_looked(kubernetes_api, node)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await first.close()

    second = node.agent(placement_timeout_s=2)
    await second.adopt()
    end = await exit_of(second)
    assert end.error is not None
    assert end.error.startswith("not placed within 2 s: Unschedulable: ")
    assert "Insufficient nvidia.com/gpu" in end.error
    assert await kubernetes_api.find(PODS, pod_name(str(KEY)), node.namespace) is None


async def until_the_scheduler_has_looked(api: Api, node: Node) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not any(condition_of(pod, "PodScheduled") for pod in (await api.list(PODS, node.namespace)).items):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_command_never_starts_on_devices_that_are_refused(node: Node) -> None:
    asked: list[tuple[str, ...]] = []

    def refuse(devices: tuple[str, ...]) -> str:
        asked.append(devices)
        return f"{devices[0]} is quarantined"

    agent = node.agent()
    await agent.start(replace(node.launch("touch ran"), check_devices=refuse))
    end = await exit_of(agent)
    assert asked == [end.device_ids]
    assert end.error == f"{asked[0][0]} is quarantined"
    assert not (node.folder / "ran").exists()


async def test_a_forced_deletion_proves_nothing(node: Node, kubernetes: Cluster) -> None:
    """The pod's object is taken away, finalizer and all, while its process runs on in a stopped kubelet's care."""
    agent = node.agent()
    running = await agent.start(node.launch("touch ready; exec sleep 300"))
    assert isinstance(running, Running)
    await until((node.folder / "ready").exists)
    name = pod_name(str(KEY))
    with kubernetes.paused("kubelet-1"):
        kubernetes.kubectl("delete", "pod", name, "-n", node.namespace, "--force", "--grace-period=0", "--wait=false")
        kubernetes.kubectl("patch", "pod", name, "-n", node.namespace, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(agent.wait_exit(), 3)
        assert agent.pids(KEY)
    end = await exit_of(agent)
    assert end.supervisor_lost
    assert end.device_ids == running.device_ids
    assert not agent.pids(KEY)


async def test_kill_works_while_the_api_server_is_away(node: Node, kubernetes: Cluster) -> None:
    agent = node.agent()
    await agent.start(node.launch("trap '' TERM; touch ready; while :; do sleep 1; done"))
    await until((node.folder / "ready").exists)
    with kubernetes.paused("apiserver"):
        await agent.kill(KEY)
        await until(lambda: not agent.pids(KEY))
    assert (await exit_of(agent)).code == 137


def workload_pod(node: Node, gated: bool) -> Object:
    """A pod as a Job's controller makes it, and as the bridge opens it."""
    key = str(KEY)
    spec: Object = {
        "restartPolicy": "Never",
        "affinity": {"nodeAffinity": affinity(node.real.name)},
        "containers": [
            {
                "name": "trainer",
                "image": IMAGE,
                "command": ["sh", "-c", "echo hello; exec sleep 300"],
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }
        ],
    }
    if gated:
        spec["schedulingGates"] = [{"name": GATE}]
    metadata = {"generateName": "train-", "labels": {TASK_HASH: task_hash(key)}, "annotations": {TASK: key}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def workload_launch(node: Node) -> Launch:
    workload = WorkloadRef("batch/v1", "Job", node.namespace, "train", "uid")
    return Launch(KEY, [], device_ids=("any",), workload=workload)


async def test_the_pod_of_a_workload_is_taken_over(node: Node, kubernetes_api: Api) -> None:
    agent = node.agent()
    starting = asyncio.create_task(agent.start(workload_launch(node)))
    pod = await kubernetes_api.create(PODS, workload_pod(node, gated=False), node.namespace)
    running = await starting
    assert isinstance(running, Running)
    assert running.instance == pod["metadata"]["uid"]
    assert node.holders()[running.device_ids[0]] == pod["metadata"]["name"]
    log = agent.log_path(KEY)
    assert log is not None
    await until(lambda: log.exists() and log.read_text() == "hello\n")
    await agent.terminate(KEY, 1)
    await exit_of(agent)
    taken = await kubernetes_api.get(PODS, pod["metadata"]["name"], node.namespace)
    assert FINALIZER in taken["metadata"]["finalizers"]
    await agent.forget(KEY)
    await until_gone(kubernetes_api, pod["metadata"]["name"], node.namespace)


async def until_gone(api: Api, name: str, namespace: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await api.find(PODS, name, namespace) is not None:  # noqa: ASYNC110 - another program removes it
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(("gated", "why"), [(True, "scheduling gate bailiff.io/placement"), (None, "no pod of the workload")])
async def test_a_workloads_pod_that_never_comes_is_an_exit_with_the_reason(
    node: Node, kubernetes_api: Api, gated: bool | None, why: str
) -> None:
    if gated is not None:
        await kubernetes_api.create(PODS, workload_pod(node, gated=gated), node.namespace)
    end = await node.agent(placement_timeout_s=2).start(workload_launch(node))
    assert isinstance(end, Exit)
    assert end.error is not None
    assert why in end.error


async def test_an_agent_without_its_disk_adopts_the_pods_of_its_node(node: Node) -> None:
    first = node.agent()
    running = await first.start(node.launch("trap '' TERM; touch ready; exec sleep 300"))
    assert isinstance(running, Running)
    await until((node.folder / "ready").exists)
    await first.close()
    (node.folder / "agent").rename(node.folder / "lost")

    second = node.agent()
    [found] = await second.adopt()
    assert isinstance(found, Running)
    assert (found.key, found.instance, found.device_ids) == (KEY, running.instance, running.device_ids)
    await second.kill(KEY)
    assert (await exit_of(second)).code == 137


async def test_an_agent_that_dies_before_it_has_created_the_pod_starts_nothing(
    node: Node, kubernetes_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its successor creates the pod that was ordered, but lets no job start on devices that nobody checked."""
    with monkeypatch.context() as patch:
        patch.setattr(Placement, "_create", lambda *_: asyncio.Event().wait())
        await _dies_during_start(node, "order.json")
        assert (await kubernetes_api.list(PODS, node.namespace)).items == []

    second = node.agent()
    [found] = await second.adopt()
    assert found.key == KEY
    end = await exit_of(second)
    assert end.error is not None
    assert "agent was replaced before it had checked the devices" in end.error
    assert not (node.folder / "ran").exists()


async def test_an_agent_that_dies_after_a_start_leaves_one_pod(node: Node, kubernetes_api: Api) -> None:
    await _dies_during_start(node, "running.json")

    second = node.agent()
    [found] = await second.adopt()
    assert found.key == KEY
    assert len((await kubernetes_api.list(PODS, node.namespace)).items) == 1
    await until((node.folder / "ran").exists)
    await second.kill(KEY)
    assert (await exit_of(second)).error is None


async def _dies_during_start(node: Node, stage: str) -> None:
    """An agent that ends once this file is on disk."""
    agent = node.agent()
    starting = asyncio.create_task(agent.start(node.launch("touch ran; exec sleep 300")))
    await until((node.folder / "agent" / str(KEY) / stage).exists)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await agent.close()


async def test_output_is_in_the_tasks_log_once(node: Node) -> None:
    agent = node.agent()
    await agent.start(node.launch("for n in 1 2 3; do echo line $n; done; printf end"))
    await exit_of(agent)
    log = agent.log_path(KEY)
    assert log is not None
    assert log.read_text() == "line 1\nline 2\nline 3\nend\n"


def test_a_real_node_is_what_these_tests_need(kubernetes: Cluster) -> None:
    node = kubernetes.node()
    assert isinstance(node, RealNode)
    assert node.pod_resources.is_socket()
