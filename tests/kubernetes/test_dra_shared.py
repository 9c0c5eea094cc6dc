"""Parts of a GPU for pods: one ResourceClaim for all pods that share a device, on a real kubelet with the example driver."""

import asyncio
import itertools
import json
from fractions import Fraction

import pytest
from tests.kits.dra import DraCluster
from tests.kits.kubernetes_cluster import IMAGE
from tests.kits.system import Watch
from tests.kubernetes.dra_story import (  # noqa: F401
    JOBS,
    KEY,
    OTHER,
    POOL,
    DraSystem,
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

from bailiff_core.model.job_spec import sharing_label
from bailiff_core.records.decisions import PreemptionDecided
from bailiff_core.records.facts import DeviceCleared, DeviceQuarantined, NodeJoined, TaskExited, TaskReleased
from bailiff_kubernetes import pod_name, shared_claim_name
from bailiff_node_agent.runtime import Exit, Running, TaskKey

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]
HALF = Fraction(1, 2)
THIRD = TaskKey("train-9", 1, "0")


def owners(node: Node, device: str) -> set[str]:
    """The pods that own the claim of the device."""
    claim = node.cluster.get("resourceclaim", shared_claim_name(device), "-n", node.namespace)
    return {each["name"] for each in claim["metadata"]["ownerReferences"]}


async def until_owned(node: Node, device: str, *keys: TaskKey) -> None:
    """Until the claim of the device is owned by the pods of these tasks and by no others."""
    await until(lambda: owners(node, device) == {pod_name(str(key)) for key in keys})


async def test_tasks_share_a_device_by_one_claim_that_goes_with_the_last_of_them(node: Node) -> None:
    _, _, third, fourth = node.devices
    agent = node.agent()
    for key, devices in ((KEY, (fourth,)), (OTHER, (fourth,)), (THIRD, (third, fourth))):
        running = await agent.start(node.launch(*devices, key=key, part=Fraction(1, 3)))
        assert isinstance(running, Running)
        assert running.device_ids == devices
        assert await node.given(key) == node.held(key) == {*devices}
    assert {*node.cluster.claims(node.namespace)} == {shared_claim_name(third), shared_claim_name(fourth)}
    assert owners(node, fourth) == {pod_name(str(key)) for key in (KEY, OTHER, THIRD)}

    # One of them ends: its device is its others' as before.
    await agent.kill(KEY)
    assert (await exit_of(agent)).device_ids == (fourth,)
    await until(lambda: not node.held())
    await agent.forget(KEY)
    await until_owned(node, fourth, OTHER, THIRD)
    assert node.held(OTHER) == {fourth}
    assert [running.key for running in await agent_after(node, agent)] == [OTHER, THIRD]
    following = node.agents[-1]
    for key in (OTHER, THIRD):
        await following.kill(key)
        await exit_of(following)
        await following.forget(key)
    await node.until_no_claim()


async def agent_after(node: Node, agent: object) -> list[Running | Exit]:
    """The tasks that the next agent takes over."""
    assert node.agents[-1] is agent
    await node.agents[-1].close()
    return await node.agent().adopt()


async def test_a_whole_device_is_not_given_out_before_kubernetes_has_taken_it_from_those_that_shared_it(node: Node) -> None:
    [device, *_] = node.devices
    agent = node.agent(placement_timeout_s=3)
    await agent.start(node.launch(device, part=HALF))
    refused = await agent.start(node.launch(device, key=OTHER))
    assert isinstance(refused, Exit)
    assert refused.error is not None
    assert "cannot allocate all claims" in refused.error
    assert node.held() == {device}

    await agent.kill(KEY)
    await exit_of(agent)
    await agent.forget(KEY)
    await agent.close()
    patient = node.agent()
    whole = await patient.start(node.launch(device, key=THIRD))  # at once: its claim waits for the other one's end
    assert isinstance(whole, Running)
    assert await node.given(THIRD) == {device}
    await patient.kill(THIRD)
    await exit_of(patient)
    await patient.forget(THIRD)
    await node.until_no_claim()


async def test_tasks_that_follow_each_other_on_a_device_never_lose_their_claim(node: Node) -> None:
    """Each starts while the claim of the one before, its only owner, is being removed."""
    [device, *_] = node.devices
    agent = node.agent()
    keys = [TaskKey(f"serve-{number}", 1, "0") for number in range(6)]
    await agent.start(node.launch(device, key=keys[0], part=HALF))
    for before, key in itertools.pairwise(keys):
        await agent.kill(before)
        await exit_of(agent)
        _, running = await asyncio.gather(agent.forget(before), agent.start(node.launch(device, key=key, part=HALF)))
        assert isinstance(running, Running), running
        assert await node.given(key) == {device}
        claim = node.cluster.get("resourceclaim", shared_claim_name(device), "-n", node.namespace)
        assert "deletionTimestamp" not in claim["metadata"]
        await until_owned(node, device, key)
    await agent.kill(keys[-1])
    await exit_of(agent)
    await agent.forget(keys[-1])
    await node.until_no_claim()


@pytest.mark.parametrize("step", ["_own_claims", "_open_gate"])
async def test_an_agent_that_dies_before_its_pod_may_be_placed_leaves_it_to_its_successor(
    node: Node, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    [device, *_] = node.devices
    first = node.agent()
    await first.start(node.launch(device, key=OTHER, part=HALF))
    await first.close()
    await die_before(step, node, monkeypatch, node.launch(device, part=HALF))
    assert (pod_name(str(KEY)) in owners(node, device)) == (step == "_open_gate")

    second = node.agent()
    assert {found.key for found in await second.adopt()} == {KEY, OTHER}
    end = await exit_of(second)
    assert (end.key, end.device_ids) == (KEY, (device,))
    assert end.error is not None
    assert "agent was replaced before it had checked the devices" in end.error
    assert not (node.folder / KEY.job).exists()
    await second.forget(KEY)
    await until_owned(node, device, OTHER)
    assert node.held(OTHER) == {device}


async def test_an_agent_that_loses_its_disk_leaves_neither_a_pod_nor_a_share_behind(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    [device, *_] = node.devices
    first = node.agent()
    await first.start(node.launch(device, key=OTHER, part=HALF))
    await first.close()
    await die_before("_open_gate", node, monkeypatch, node.launch(device, part=HALF))
    (node.folder / "agent").rename(node.folder / "lost")
    second = node.agent()
    [found] = await second.adopt()
    assert isinstance(found, Running)
    assert (found.key, found.device_ids, found.part) == (OTHER, (device,), HALF)
    await until_owned(node, device, OTHER)
    await second.kill(OTHER)
    await exit_of(second)
    await second.forget(OTHER)
    await node.until_no_claim()


async def test_a_device_class_carries_the_drivers_own_configuration_for_shared_devices(node: Node) -> None:
    driver = node.cluster.driver
    shared = f"shared-{driver}"
    parameters = {
        "apiVersion": "gpu.resource.example.com/v1alpha1",
        "kind": "GpuConfig",
        "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}},
    }
    spec = {
        "selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}],
        "config": [{"opaque": {"driver": driver, "parameters": parameters}}],
    }
    device_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": shared}, "spec": spec}
    node.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(device_class))
    agent = node.agent(dra_shared_device_class=shared)
    await agent.start(node.launch(node.devices[1], part=HALF))
    assert await node.given() == {node.devices[1]}
    assert "_TIMESLICE_INTERVAL=Long" in (node.folder / KEY.job).read_text()
    await agent.start(node.launch(node.devices[2], key=OTHER))
    assert await node.given(OTHER) == {node.devices[2]}
    assert "_TIMESLICE_INTERVAL=Long" not in (node.folder / OTHER.job).read_text(), "it has the device to itself"
    node.cluster.kubectl("delete", "deviceclass", shared)


# --- the whole system


SCRIPT = "cd $BAILIFF_CHECKPOINT_DIR; env > env.new; mv env.new env; exec sleep 3000"


async def submit_part(system: DraSystem, job: str, fraction: str, *, kind: str = "train") -> None:
    """What a user types: a job with a part of a GPU. It writes its environment into its checkpoint folder and then runs on."""
    size = ("--fraction", fraction, "--cpu", "10m", "--memory", "32MiB")
    options = ("--name", job, "--image", IMAGE, "--class", kind, "--grace", "5s", *size)
    await asyncio.to_thread(system.command, POOL, "submit", *options, "--", "sh", "-c", SCRIPT)


async def environment_of(job: str, system: DraSystem) -> str:
    """What the job's container has in its environment."""
    await until(lambda: [*system.folder.rglob(f"checkpoints/{job}/env")])
    [found] = system.folder.rglob(f"checkpoints/{job}/env")
    return found.read_text()


@pytest.mark.kafka
async def test_jobs_with_parts_of_a_gpu_share_it_and_one_is_preempted_beside_another(
    pool: Watch, system: DraSystem, dra_cluster: DraCluster
) -> None:
    labels = pool.facts(NodeJoined)[-1].labels
    assert (labels[sharing_label("kubernetes")], labels["bailiff.gpu/sharing"]) == ("true", "time-slicing")

    for job, fraction in (("a", "0.4"), ("b", "0.5")):
        await submit_part(system, job, fraction)
        await pool.until_running(job)
    [device] = allocated(pool, "a")
    assert allocated(pool, "b") == {device}, "parts are put together"
    seen = await environment_of("b", system)
    assert {"BAILIFF_GPU_FRACTION=0.500", f"BAILIFF_GPU_MEMORY_BYTES={40 << 30}"} <= {*seen.splitlines()}
    assert dra_cluster.given(seen) == {device}
    assert dra_cluster.claims(JOBS) == [shared_claim_name(device)]

    # A pod of somebody else refers to the same claim: what runs there runs on, and nothing more is placed there.
    dra_cluster.pod_with_claim("foreign", JOBS, shared_claim_name(device))
    quarantined = await pool.record(DeviceQuarantined)
    assert (quarantined.device, quarantined.reason) == (device, "foreign")
    assert f"the pod {JOBS}/foreign" in quarantined.detail
    await submit_part(system, "elsewhere", "0.1")
    await pool.until_running("elsewhere")
    assert allocated(pool, "elsewhere") != {device}
    await pool.cancel("elsewhere")
    await pool.record(TaskReleased, job="elsewhere")
    dra_cluster.kubectl("delete", "pod", "foreign", "-n", JOBS)
    assert (await pool.record(DeviceCleared)).device == device

    # The agent is killed, and another one takes both over.
    await asyncio.to_thread(system.kill, "node-agent")
    await asyncio.to_thread(system.start_agent)
    await asyncio.to_thread(system.wait_ready)

    # Whole GPUs never come from the shared one; and who preempts a part takes it from one of the two, which the other survives.
    await submit(pool, "whole", 3)
    await pool.until_running("whole")
    assert device not in allocated(pool, "whole")
    await submit_part(system, "urgent", "0.4", kind="inference")
    decided = await pool.record(PreemptionDecided)
    await pool.until_running("urgent")
    assert allocated(pool, "urgent") <= {device} | allocated(pool, "whole")
    assert [victim.job for victim in decided.victims] in (["a"], ["b"])
    [victim] = [victim.job for victim in decided.victims]
    other = {"a": "b", "b": "a"}[victim]
    assert pool.state.jobs[other].phase == "running"
    assert {fact.job for fact in pool.facts(TaskExited)} == {"elsewhere", victim}
    assert len(pool.facts(DeviceQuarantined)) == 1, "nobody else's use was taken for what a task left behind"

    for job in ("urgent", "whole", "a", "b"):
        await pool.cancel(job)
    await pool.until("all are over", lambda state: not state.active)
    await until(lambda: not dra_cluster.claims(JOBS))
    await pool.verify()
