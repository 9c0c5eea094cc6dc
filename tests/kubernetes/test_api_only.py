"""One agent process that speaks for many nodes by the API alone, on nodes that kwok plays: real Kafka and services.

Nothing runs on these nodes; what is tested is what the agent makes of the API server's word, and what it does not believe.
"""

import json
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.kits.kubernetes_cluster import IMAGE, Cluster
from tests.kits.system import POLICY, System, Watch

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.policy import KubernetesRules
from bailiff_core.model.state import Node
from bailiff_core.records import facts
from bailiff_core.records.decisions import PreemptionDecided
from bailiff_core.records.job_requests import EvictJob, SubmitJob
from bailiff_core.records.node_requests import ClearQuarantine
from bailiff_kubernetes import Api, pod_name
from bailiff_kubernetes.names import LAST_CHECKPOINT_STEP, LAST_CHECKPOINT_TIME
from bailiff_kubernetes.resources import NODES, PODS, annotations_of
from bailiff_log.credentials import issued_credentials
from bailiff_node_agent.runtime.port import TaskKey

pytestmark = [pytest.mark.kafka, pytest.mark.kubernetes, pytest.mark.timeout(600)]

AGENT = "node-agent-api"
LABELS = {"offline-kubernetes/node": "fake"}
PLACEMENT_TIMEOUT_S = 5
LATE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "fake-late",
        "annotations": {"kwok.x-k8s.io/node": "fake"},
        "labels": LABELS
        | {"nvidia.com/mig-3g.40gb.product": "NVIDIA-H100-MIG-3g.40gb", "nvidia.com/mig-3g.40gb.memory": "40320"},
    },
    "status": {
        kind: {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/mig-3g.40gb": "2"} for kind in ("capacity", "allocatable")
    },
}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    system = System(tmp_path_factory.mktemp("api-only"), pools={"other": 1, "pods": 0})
    system.start()
    yield system
    system.stop()


@pytest.fixture
async def pool(system: System, kubernetes: Cluster, kubernetes_namespace: str) -> AsyncIterator[Watch]:
    """All fake nodes have joined; their agent is one process."""
    root = system.folder / "credentials" / "root.key"
    for name in (*kubernetes.fake_nodes, LATE["metadata"]["name"]):
        issued_credentials(root.parent / AGENT / str(name), root, role="node", name=str(name), now=time.time_ns() // 1000)
    declared = {"name": "fakes", "pool": "pods", "gpus": "kubernetes", "runtimes": ["process", "kubernetes"], "selector": LABELS}
    settings = {
        "kubeconfig": str(kubernetes.kubeconfig),
        "namespace": kubernetes_namespace,
        "api_only": True,
        "placement_timeout_s": PLACEMENT_TIMEOUT_S,
    }
    env = {
        "BAILIFF_NODES": json.dumps([declared]),
        "BAILIFF_KUBERNETES": json.dumps(settings),
        "BAILIFF_DEVICE_POLL_S": "0.5",
        "BAILIFF_RELEASE_TIMEOUT_S": "2",
    }
    async with system.watch("pods") as pool:
        agent = system.stack.start_service("node-agent", replica="-api", env=env)
        names = {*kubernetes.fake_nodes}
        await pool.until("the nodes are there", lambda state: names <= {*state.node_numbers})
        await pool.until("and ready", lambda state: all(node_named(state, name).schedulable for name in names))
        yield pool
        system.stack.processes.stop(agent)
        system.machines["pods"] = len(pool.state.nodes)  # the next test's watch finds them in the log


async def submit(pool: Watch, job: str, gpus: int, kind: str = "train", grace: int = 5_000_000, **demand: Any) -> None:
    group = TaskGroup(**({"gpu_milli": gpus * 1000} | demand), cpu_milli=10, memory_bytes=32 << 20)
    request = JobDemand(job=job, priority_class=kind, grace=grace, tasks=(group,))
    await pool.request(SubmitJob(demand=request, spec=JobSpec(command="exec sleep 3000", runtime="kubernetes", image=IMAGE)))


def node_of(pool: Watch, job: str) -> Node:
    return pool.state.nodes[pool.state.jobs[job].tasks[0].node]


def pod_of(job: str, attempt: int = 1) -> str:
    return pod_name(str(TaskKey(job, attempt, "0")))


async def test_many_nodes_one_process_and_every_release_says_that_only_the_api_proves_it(
    pool: Watch, kubernetes: Cluster, kubernetes_api: Api, kubernetes_namespace: str
) -> None:
    joined = {fact.node: fact for fact in pool.facts(facts.NodeJoined)}
    assert {len(joined[name].devices) for name in kubernetes.fake_nodes} == {8}
    assert len({joined[name].incarnation for name in kubernetes.fake_nodes}) == len(kubernetes.fake_nodes)
    await submit(pool, "a", 8)
    await submit(pool, "b", 8)
    await submit(pool, "c", 8)
    await pool.until_running("a", "b", "c")
    for job in "abc":
        pod = await kubernetes_api.get(PODS, pod_of(job), kubernetes_namespace)
        assert pod["spec"]["nodeName"] == node_of(pool, job).name
        assert "livenessProbe" not in pod["spec"]["containers"][0], "nobody would renew the lease that it reads"

    # Annotations of the pod tell the last checkpoint; it is priced like a checkpoint that a job reports itself.
    note = {LAST_CHECKPOINT_STEP: "120", LAST_CHECKPOINT_TIME: datetime.now(UTC).isoformat()}
    await kubernetes_api.patch(PODS, pod_of("b"), {"metadata": {"annotations": note}}, kubernetes_namespace)
    progress = await pool.record(facts.TaskProgressed, job="b")
    assert progress.checkpoint is not None
    assert progress.checkpoint.step == 120

    # A more urgent job preempts the one that loses least: the one with a checkpoint.
    await submit(pool, "serve", 8, kind="inference")
    decided = await pool.record(PreemptionDecided)
    assert [victim.job for victim in decided.victims] == ["b"]
    await pool.until_running("serve")
    released = await pool.record(facts.TaskReleased, job="b")
    assert released.evidence == "api"
    await pool.cancel("serve")
    await pool.until("b is back", lambda state: pool.running("b") and state.jobs["b"].attempt == 2)
    assert annotations_of(await kubernetes_api.get(PODS, pod_of("b", 2), kubernetes_namespace))
    await pool.clear()


async def test_a_pod_that_was_removed_without_a_reported_end_leaves_its_slots_in_doubt(
    pool: Watch, kubernetes: Cluster, kubernetes_api: Api, kubernetes_namespace: str
) -> None:
    for job in ("forced", "forced-again"):
        await submit(pool, job, 2)
        await pool.until_running(job)
        node = node_of(pool, job).name
        await kubernetes_api.patch(PODS, pod_of(job), {"metadata": {"finalizers": None}}, kubernetes_namespace)
        kubernetes.kubectl("delete", "pod", pod_of(job), "-n", kubernetes_namespace, "--grace-period=0", "--force")
        exited = await pool.record(facts.TaskExited, job=job)
        assert exited.unobserved
        quarantined = await pool.record(facts.DeviceQuarantined, node=node, job=job)
        assert "was removed without a reported end" in quarantined.detail
        await pool.until("its slots are out of use", lambda state: node_named(state, node).quarantined.bit_count() == 2)  # noqa: B023
        if job == "forced":  # another boot of the node proves that nothing of it runs any more
            info = {"status": {"nodeInfo": {**(await node_info(kubernetes_api, node)), "bootID": (boot := uuid.uuid4().hex)}}}
            kubernetes.kubectl("patch", "node", node, "--subresource=status", "-p", json.dumps(info))
            await pool.until("they are back", lambda state: node_named(state, node).quarantined == 0)  # noqa: B023
            await pool.until("it has joined anew", lambda state: node_named(state, node).boot_id == boot)  # noqa: B023
        else:  # or an operator vouches for them
            dirty = [fact.device for fact in pool.facts(facts.DeviceQuarantined, node=node)][-2:]
            for device in dirty:
                await pool.request(ClearQuarantine(node=node, device=device, reason="seen idle with nvidia-smi"))
            await pool.until("they are back", lambda state: node_named(state, node).quarantined == 0)  # noqa: B023
            assert {fact.device for fact in pool.facts(facts.DeviceCleared, node=node)} >= {*dirty}
        await pool.clear()


async def test_a_node_is_added_fills_with_pods_of_others_is_deleted_and_returns(
    pool: Watch, kubernetes: Cluster, kubernetes_namespace: str
) -> None:
    name = str(LATE["metadata"]["name"])
    kubernetes.kubectl("create", "-f", "-", stdin=json.dumps(LATE))
    kubernetes.kubectl("patch", "node", name, "--subresource=status", "-p", json.dumps({"status": LATE["status"]}))
    try:
        # MIG devices are devices of their own kind: counted, placed by profile, reclaimed, and no fractions of them.
        await pool.until("its MIG devices are known", lambda state: name in state.node_numbers and len(mig(state, name)) == 2)
        await pool.until("it is ready", lambda state: node_named(state, name).schedulable)
        await submit(pool, "mig-a", 0, gpu_milli=0, mig_profile="3g.40gb", gpu_devices=2)
        await pool.until_running("mig-a")
        assert node_of(pool, "mig-a").name == name
        await submit(pool, "mig-b", 0, kind="inference", gpu_milli=0, mig_profile="3g.40gb", gpu_devices=1)
        await pool.until_running("mig-b")
        assert pool.facts(facts.TaskReleased, job="mig-a")
        await pool.cancel("mig-a")
        await pool.cancel("mig-b")
        await pool.until("both are over", lambda state: not state.active)

        # A pod that is not Bailiff's: what it uses is subtracted, and comes back.
        limits = {"nvidia.com/mig-3g.40gb": "1", "cpu": "2"}
        spec = {"nodeName": name, "containers": [{"name": "main", "image": IMAGE, "resources": {"limits": limits}}]}
        foreign = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "foreign"}, "spec": spec}
        kubernetes.kubectl("apply", "-n", kubernetes_namespace, "-f", "-", stdin=json.dumps(foreign))
        await pool.until("its device is out of use", lambda state: node_named(state, name).quarantined.bit_count() == 1)
        await pool.until("and its processors", lambda state: node_named(state, name).capacity.cpu_milli == 6000)
        kubernetes.kubectl("delete", "pod", "foreign", "-n", kubernetes_namespace)
        await pool.until("the device is back", lambda state: node_named(state, name).quarantined == 0)
        await pool.until("and the processors", lambda state: node_named(state, name).capacity.cpu_milli == 8000)
    finally:
        kubernetes.kubectl("delete", "node", name)
    await pool.record(facts.NodeDrained, node=name)
    kubernetes.kubectl("create", "-f", "-", stdin=json.dumps(LATE))
    try:
        await pool.record(facts.NodeUndrained, node=name)
        await pool.until("it is ready again", lambda state: node_named(state, name).schedulable)
    finally:
        kubernetes.kubectl("delete", "node", name)
    await pool.until("it is gone", lambda state: node_named(state, name).drain is not None)


async def test_a_pod_that_no_scheduler_binds_gives_its_room_back_with_the_schedulers_reason(
    pool: Watch, kubernetes: Cluster
) -> None:
    for name in kubernetes.fake_nodes:
        kubernetes.kubectl("patch", "node", name, "--subresource=status", "-p", '{"status":{"allocatable":{"pods":"0"}}}')
    try:
        await submit(pool, "unbound", 8)
        exited = await pool.record(facts.TaskExited, job="unbound")
        assert f"not placed within {PLACEMENT_TIMEOUT_S} s" in exited.reason
        assert "Too many pods" in exited.reason
        await pool.record(facts.TaskReleased, job="unbound")
    finally:
        for name in kubernetes.fake_nodes:
            kubernetes.kubectl("patch", "node", name, "--subresource=status", "-p", '{"status":{"allocatable":{"pods":"110"}}}')
    await pool.clear()


async def test_a_disruption_budget_is_respected_until_the_end_of_the_grace_and_the_record_says_so(
    pool: Watch, kubernetes: Cluster, kubernetes_namespace: str
) -> None:
    await pool.apply(POLICY.model_copy(update={"kubernetes": KubernetesRules(pdb="respect")}))
    selector = {"matchLabels": {"app.kubernetes.io/managed-by": "bailiff"}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all"},
        "spec": {"minAvailable": 1, "selector": selector},
    }
    kubernetes.kubectl("apply", "-n", kubernetes_namespace, "-f", "-", stdin=json.dumps(budget))
    try:
        # Nothing allows the disruption: the end of the grace is the end of the respect.
        await submit(pool, "guarded", 1, grace=3_000_000)
        await pool.until_running("guarded")
        await pool.request(EvictJob(job="guarded", reason="maintenance"))
        exited = await pool.record(facts.TaskExited, job="guarded")
        assert "deleted at the end of its grace although its disruption budget forbade it" in exited.reason
        assert "would violate the pod's disruption budget" in exited.reason
        await pool.cancel("guarded")

        # The budget allows it within the grace: then it is evicted at once.
        await submit(pool, "patient", 1, grace=600_000_000)
        await pool.until_running("patient")
        await pool.request(EvictJob(job="patient", reason="maintenance"))
        await pool.until_true("the budget forbids it", lambda: budget_refused(pool, "patient"))
        kubernetes.kubectl("delete", "pdb", "all", "-n", kubernetes_namespace)
        exited = await pool.record(facts.TaskExited, job="patient")
        assert exited.reason.startswith("evicted when its disruption budget allowed it")
    finally:
        await pool.apply(POLICY)
    await pool.clear()


async def budget_refused(pool: Watch, job: str) -> bool:
    """The agent has noted it on its disk."""
    tasks = (pool.system.folder / "state" / "node-agent" / "pods").glob(f"*/kubernetes/{TaskKey(job, 1, '0')}/budget.json")
    return next(tasks, None) is not None


def node_named(state: Any, name: str) -> Node:
    node: Node = state.nodes[state.node_numbers[name]]
    return node


def mig(state: Any, name: str) -> list[str]:
    return [device.id for device in node_named(state, name).devices if device.kind == "mig"]


async def node_info(api: Api, name: str) -> dict[str, Any]:
    info: dict[str, Any] = (await api.get(NODES, name))["status"]["nodeInfo"]
    return info
