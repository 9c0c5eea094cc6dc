"""Exact devices by dynamic resource allocation, on a real kubelet with Kubernetes' example driver.

A pod gets the devices that its task was placed on and no others, by the word of the log, the kubelet and the container.
"""

import asyncio
import json

import pytest
from tests.kits.dra import DraCluster
from tests.kits.kubernetes_cluster import IMAGE
from tests.kits.system import Watch
from tests.kubernetes.dra_story import (  # noqa: F401
    JOBS,
    KEY,
    OTHER,
    Node,
    die_before,
    dra_namespace,
    dra_node,
    dra_pool,
    dra_system,
    exit_of,
    until,
)
from tests.kubernetes.kubelet_jobs import allocated, submit

from bailiff_core.records.decisions import PreemptionDecided
from bailiff_core.records.facts import DeviceCleared, DeviceQuarantined, NodeJoined, TaskReleased, TaskStarted
from bailiff_kubernetes import Api, pod_name, task_hash
from bailiff_kubernetes.names import TASK, TASK_HASH
from bailiff_node_agent.devices.kubernetes import KubernetesInventory
from bailiff_node_agent.runtime import Exit, Launch, Running, TaskKey, WorkloadRef
from bailiff_node_agent.runtime.kubernetes import claims
from bailiff_node_agent.runtime.kubernetes.manifest import affinity
from bailiff_node_agent.runtime.kubernetes.pod_resources import PodResources
from bailiff_node_agent.runtime.kubernetes.published import EXACT_LABEL, PublishedDevices

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]


async def test_a_pod_has_exactly_the_devices_that_it_was_placed_on(node: Node) -> None:
    first, second, third, fourth = node.devices
    agent = node.agent()
    running = await agent.start(node.launch(fourth, third))  # kube-scheduler by itself would take the first ones
    assert isinstance(running, Running)
    assert running.device_ids == (fourth, third)
    other = await agent.start(node.launch(second, first, key=OTHER))
    assert isinstance(other, Running)
    assert await node.given() == node.held() == {third, fourth}
    assert await node.given(OTHER) == node.held(OTHER) == {first, second}

    await agent.close()
    following = node.agent()
    assert await following.adopt() == [running, other]
    await following.kill(KEY)
    end = await exit_of(following)
    assert (end.key, end.device_ids) == (KEY, (fourth, third))
    await until(lambda: not node.held())  # the kubelet reports the end before it has given the devices back
    assert node.held(OTHER) == {first, second}
    await following.forget(KEY)
    await until(lambda: node.cluster.claims(node.namespace) == [pod_name(str(OTHER))])
    await following.kill(OTHER)
    await exit_of(following)
    await following.forget(OTHER)
    await node.until_no_claim()


async def test_an_agent_that_dies_before_its_claim_leaves_none_and_its_successor_makes_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    await die_before("_own_claims", node, monkeypatch, node.launch(node.devices[2]))
    assert node.cluster.claims(node.namespace) == []

    second = node.agent()
    [found] = await second.adopt()
    assert found.key == KEY
    end = await exit_of(second)
    assert end.device_ids == (node.devices[2],), "the claim that was ordered"
    assert end.error is not None
    assert "agent was replaced before it had checked the devices" in end.error
    assert not (node.folder / KEY.job).exists()
    await second.forget(KEY)
    await node.until_no_claim()


async def test_an_agent_that_loses_its_disk_before_its_claim_leaves_nothing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    await die_before("_own_claims", node, monkeypatch, node.launch(node.devices[2]))
    (node.folder / "agent").rename(node.folder / "lost")
    assert await node.agent().adopt() == []
    await until(lambda: not node.cluster.get("pods", "-n", node.namespace)["items"])
    assert node.cluster.claims(node.namespace) == []


async def test_an_agent_that_dies_after_its_claim_leaves_one_that_goes_with_its_pod(node: Node) -> None:
    agent = node.agent()
    await agent.start(node.launch(node.devices[0]))
    await agent.close()
    (node.folder / "agent").rename(node.folder / "lost")
    second = node.agent()
    [found] = await second.adopt()
    assert isinstance(found, Running)
    assert found.device_ids == (node.devices[0],)
    await second.kill(KEY)
    await exit_of(second)
    await second.forget(KEY)
    await node.until_no_claim()


async def test_other_devices_than_it_was_placed_on_are_a_failed_start(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, *_ = node.devices
    only = claims._only
    monkeypatch.setattr(claims, "_only", lambda _, settings: only([second], settings))  # as if somebody had edited the claim
    agent = node.agent()
    await agent.start(node.launch(first))
    end = await exit_of(agent)
    assert end.error == f"the kubelet gave its pod {second}, where it was placed on {first}"
    assert not (node.folder / KEY.job).exists(), "its command never ran"


async def test_a_device_that_another_claim_has_is_a_start_that_failed_with_the_schedulers_reason(node: Node) -> None:
    [wanted, *_] = node.devices
    node.cluster.foreign_pod("foreign", node.namespace, [wanted])
    inventory = KubernetesInventory(node.cluster.node().pod_resources, "nvidia.com/gpu", 40.0, node.published)
    assert inventory.holders() == {wanted: {(node.namespace, "foreign")}}
    assert inventory.usage(wanted).memory_used
    end = await node.agent(placement_timeout_s=5).start(node.launch(wanted))
    assert isinstance(end, Exit)
    assert end.error is not None
    assert end.error.startswith("not placed within 5 s: Unschedulable: ")
    assert "cannot allocate all claims" in end.error
    await until(lambda: node.cluster.claims(node.namespace) == ["foreign"])
    node.cluster.delete_foreign_pod("foreign", node.namespace)
    await until(lambda: not inventory.holders())


async def test_the_pod_of_a_workload_has_what_kube_scheduler_claims_for_its_template(node: Node) -> None:
    """Its template requests the device plugin's resource, which the DeviceClass stands for; the true device is reported."""
    key = str(KEY)
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "trainer", "image": IMAGE, "command": ["sh", "-c", "env; exec sleep 300"], "resources": resources}
    spec = {"restartPolicy": "Never", "affinity": {"nodeAffinity": affinity(node.cluster.node().name)}, "containers": [container]}
    metadata = {"name": "train", "labels": {TASK_HASH: task_hash(key)}, "annotations": {TASK: key}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    agent = node.agent()
    workload = WorkloadRef("batch/v1", "Job", node.namespace, "train", "uid")
    starting = asyncio.create_task(
        agent.start(Launch(KEY, [], device_ids=(node.devices[3],), workload=workload, check_devices=lambda _: None))
    )
    node.cluster.kubectl("apply", "-n", node.namespace, "-f", "-", stdin=json.dumps(pod))
    running = await starting
    assert isinstance(running, Running)
    assert set(running.device_ids) == set(node.resources.devices_of(node.namespace, "train"))
    log = agent.log_path(KEY)
    assert log is not None
    await until(lambda: log.exists() and set(running.device_ids) == node.cluster.given(log.read_text()))
    await agent.kill(KEY)
    assert (await exit_of(agent)).device_ids == running.device_ids
    await agent.forget(KEY)
    await node.until_no_claim()


async def test_without_a_device_class_the_reason_is_the_schedulers(node: Node) -> None:
    end = await node.agent(placement_timeout_s=3, dra_device_class="no-such-class").start(node.launch(node.devices[0]))
    assert isinstance(end, Exit)
    assert end.error is not None
    assert "no-such-class" in end.error
    await node.until_no_claim()


# --- the whole system


@pytest.mark.kafka
async def test_jobs_run_on_the_devices_of_their_placement_are_preempted_and_give_them_on(
    pool: Watch, dra_cluster: DraCluster, namespace: str
) -> None:
    settings = dra_cluster.settings(JOBS)
    published = PublishedDevices(settings, dra_cluster.node().name)
    async with await Api.connect(settings.kubeconfig) as api:
        await published.read(api)
    resources = PodResources(dra_cluster.node().pod_resources, published)
    devices = [*dra_cluster.published().values()]

    def held(job: str, attempt: int = 1) -> set[str]:
        return set(resources.devices_of(JOBS, pod_name(str(TaskKey(job, attempt, "0")))))

    joined = pool.facts(NodeJoined)[-1]
    assert sorted(device.id for device in joined.devices) == sorted(devices)
    assert {(device.model, device.memory_bytes) for device in joined.devices} == {("LATEST-GPU-MODEL", 80 << 30)}
    assert joined.labels[EXACT_LABEL] == "true"

    # A pod of somebody else, in a namespace of its own, claims a device: it leaves the pool.
    dra_cluster.foreign_pod("foreign", namespace, devices[1:2])
    quarantined = await pool.record(DeviceQuarantined)
    assert (quarantined.device, quarantined.reason) == (devices[1], "foreign")
    for job in ("a", "b", "c"):
        await submit(pool, job, 1)
    await pool.until_running("a", "b", "c")
    assert set.union(*(allocated(pool, job) for job in ("a", "b", "c"))) == {*devices} - {devices[1]}
    for job in ("a", "b", "c"):
        assert allocated(pool, job) == held(job)
    assert {fact.devices for fact in pool.facts(TaskStarted)} == {()}, "all have what they were placed on"

    # It goes, and one of the jobs: the next job gets exactly these two, which are not the first that are free in any order.
    dra_cluster.delete_foreign_pod("foreign", namespace)
    await pool.record(DeviceCleared)
    [freed] = allocated(pool, "c")
    await pool.cancel("c")
    await pool.record(TaskReleased, job="c")
    await submit(pool, "d", 2)
    await pool.until_running("d")
    assert allocated(pool, "d") == held("d") == {devices[1], freed}

    # A more urgent job preempts: its victims' devices are proven free, and their claims are gone, before it has its own.
    await submit(pool, "serve", 4, kind="inference")
    await pool.record(PreemptionDecided)
    await pool.until_running("serve")
    assert allocated(pool, "serve") == held("serve") == {*devices}
    assert {fact.job for fact in pool.facts(TaskReleased)} == {"a", "b", "c", "d"}
    await until(lambda: dra_cluster.claims(JOBS) == [pod_name(str(TaskKey("serve", 1, "0")))])
    for job in ("serve", "a", "b", "d"):
        await pool.cancel(job)
    await pool.until("all are over", lambda state: not state.active)
    await until(lambda: not dra_cluster.claims(JOBS))
    await pool.verify()
