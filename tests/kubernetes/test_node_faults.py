"""What happens to a node while a Job is preempted: its kubelet is away, it loses its power, it is deleted. Each has the story of
story.py.
"""

import os
import uuid

import pytest
from tests.kubernetes.bridge_system import BridgeSystem
from tests.kubernetes.story import Story

from bailiff_core.records.facts import DeviceUnhealthy, NodeDrained, NodeUndrained, TaskExited
from bailiff_kubernetes.resources import uid_of
from bailiff_node_agent.runtime.kubernetes.pod_processes import PodProcesses

pytestmark = [pytest.mark.kubernetes, pytest.mark.long, pytest.mark.timeout(1500)]
AWAY = "the kubelet does not answer"


async def test_a_kubelet_that_restarts_keeps_its_gpus(story: Story, system: BridgeSystem) -> None:
    """No device is taken for unhealthy, and what is requested meanwhile starts once it is back."""
    story.create_train()
    train = await story.train_runs()
    with system.cluster.stopped_kubelet():

        async def noticed() -> bool:
            return AWAY in system.log_of_kubelet_agent()

        await story.watch.until_true("the agent has asked the kubelet in vain", noticed)
        story.create_serve()
        await story.users.until_phase("serve", "reserved")
    await story.serve_runs()
    assert story.watch.facts(DeviceUnhealthy) == []
    story.delete_serve()
    await story.train_is_back(train)


async def test_on_a_node_whose_kubelet_stays_away_jobs_run_on_and_none_is_placed(story: Story, system: BridgeSystem) -> None:
    system.restart_kubelet_agent(kubelet_grace_s=1)
    story.create_train()
    train = await story.train_runs()
    with system.cluster.stopped_kubelet():
        drained = await story.watch.record(NodeDrained)
        assert drained.reason == "cordoned in Kubernetes: its kubelet has not answered for 1 s"
        story.create_serve()
        await story.users.until_phase("serve", "pending")
        assert story.is_running("train")
    await story.watch.record(NodeUndrained)
    await story.serve_runs()
    assert story.watch.facts(DeviceUnhealthy) == []
    story.delete_serve()
    await story.train_is_back(train)


async def test_the_kubelet_is_stopped_past_its_lease(story: Story, system: BridgeSystem) -> None:
    """The control plane takes the node for lost. Its containers and Bailiff's agent run on, but no release can be proven."""
    story.create_train()
    train = await story.train_runs()
    with system.cluster.paused("kubelet-1"):

        async def lost() -> bool:
            conditions = system.cluster.get("node", system.cluster.node().name)["status"]["conditions"]
            return next(each["status"] for each in conditions if each["type"] == "Ready") == "Unknown"

        await story.watch.until_true("the node is lost", lost)
        story.create_serve()
        await story.users.until_phase("serve", "pending", "reserved")
        assert not story.is_running("serve")
    await story.serve_runs()
    story.delete_serve()
    await story.train_is_back(train)


async def test_a_machine_that_lost_its_power_proves_by_its_next_boot_that_nothing_runs(
    story: Story, system: BridgeSystem
) -> None:
    """Agent, kubelet and containers are gone at once. The job is lost, which is no failure of its own."""
    story.create_train()
    train = await story.train_runs()
    (pod,) = story.users.pods("job-name=train")
    system.kill_kubelet_agent()
    with system.cluster.paused("kubelet-1"):
        for pid in PodProcesses().pids(uid_of(pod)):
            os.kill(pid, 9)
        story.create_serve()
        await story.users.until_phase("serve", "reserved")
    boot_id = str(uuid.uuid4())
    system.start_kubelet_agent(boot_id=boot_id)
    await story.serve_runs()
    assert story.watch.state.nodes[0].boot_id == boot_id
    (exited,) = [fact for fact in story.watch.facts(TaskExited, job=train.id) if fact.attempt == train.attempt]
    assert (exited.unobserved, exited.reason) == (True, "its node has booted anew since it was started")
    story.delete_serve()
    await story.train_is_back(train)


async def test_the_node_is_deleted_and_comes_back(story: Story, system: BridgeSystem) -> None:
    story.create_train()
    train = await story.train_runs()
    node = system.cluster.node().name
    system.cluster.kubectl("delete", "node", node)
    await story.watch.until("its node takes no jobs", lambda state: bool(state.nodes[0].drain))
    with system.cluster.stopped_kubelet():
        pass
    system.cluster.kubectl("wait", "--for=create", f"node/{node}", "--timeout=120s")
    system.cluster.kubectl("label", "node", node, "offline-kubernetes/node=real", "--overwrite")
    await story.watch.until("its node takes jobs again", lambda state: not state.nodes[0].drain)
    again = await story.train_runs()
    assert again.id == train.id
    await story.watch.verify()
