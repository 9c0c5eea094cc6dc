"""What breaks on a real cluster while a Job is preempted: nothing is lost, no GPU is given twice, and the log replays.

Each has the story of story.py.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.kubernetes.bridge_system import BridgeSystem
from tests.kubernetes.line import Line, port_of, through
from tests.kubernetes.story import Story

pytestmark = [pytest.mark.kubernetes, pytest.mark.long, pytest.mark.timeout(1500)]
AWAY_S = 60


async def test_the_api_server_is_away_for_a_minute_in_the_middle_of_a_preemption(story: Story, system: BridgeSystem) -> None:
    story.create_train()
    train = await story.train_runs()
    story.create_serve()
    await story.users.until_phase("serve", "reserved", "starting")
    with system.cluster.paused("apiserver"):
        await asyncio.sleep(AWAY_S)
        await story.watch.projection.advance(1)
        assert not story.is_running("serve"), "no pod of it can have been started"
    await story.serve_runs()
    story.delete_serve()
    await story.train_is_back(train)


async def test_the_agent_is_killed_at_every_stage(story: Story, system: BridgeSystem) -> None:
    """Each wait is for something that the agent does, or that follows from it; it is killed before each."""
    system.restart_kubelet_agent()
    story.create_train()
    await story.users.until_phase("train", "starting", "running")
    system.restart_kubelet_agent()
    train = await story.train_runs()
    system.restart_kubelet_agent()
    story.create_serve()
    await story.users.until_phase("serve", "reserved", "starting", "running")
    system.restart_kubelet_agent()
    await story.users.until_phase("train", "pending")
    system.restart_kubelet_agent()
    await story.serve_runs()
    system.restart_kubelet_agent()
    story.delete_serve()
    system.restart_kubelet_agent()
    await story.train_is_back(train)


@pytest.fixture
async def cut_off(system: BridgeSystem, tmp_path: Path) -> AsyncIterator[Line]:
    """Agent and bridge reach the API server through this line."""
    async with Line(port_of(system.cluster)) as line:
        system.stop_kubelet_agent()
        system.start_kubelet_agent(kubeconfig=through(line, system.cluster.kubeconfig, tmp_path / "agent.kubeconfig"))
        system.stack.processes.kill9("kubernetes-bridge")
        system.start_bridge(kubeconfig=through(line, system.bridge_kubeconfig(), tmp_path / "bridge.kubeconfig"))
        yield line
        system.restart_bridge()
        system.restart_kubelet_agent()


async def test_watches_are_cut_and_etcd_forgets_what_they_missed(story: Story, system: BridgeSystem, cut_off: Line) -> None:
    @contextlib.contextmanager
    def unseen() -> Iterator[None]:
        """What happens now is missed: the connections are cut, and etcd has compacted its history when they come back."""
        cut_off.cut()
        yield
        system.cluster.compact()
        cut_off.is_cut = False

    with unseen():
        story.create_train()
    train = await story.train_runs()
    with unseen():
        story.create_serve()
    await story.serve_runs()
    with unseen():
        story.delete_serve()
    await story.train_is_back(train)


async def test_an_administrator_removes_pods_and_finalizers_by_force_all_the_while(story: Story, system: BridgeSystem) -> None:
    story.create_train()
    train = await story.train_runs()
    story.create_serve()
    with by_force(system, story.users.namespace):
        await story.users.until_phase("serve", "running")
    await story.serve_runs()
    story.delete_serve()
    with by_force(system, story.users.namespace):
        await story.users.until_phase("serve", "cancelled")
    await story.train_is_back(train)


@contextlib.contextmanager
def by_force(system: BridgeSystem, namespace: str) -> Iterator[None]:
    """Until the block ends, somebody takes the finalizers of every pod that is being deleted, and deletes it by force."""
    over = threading.Event()
    kubectl = system.cluster.kubectl

    def remove() -> None:
        while not over.wait(0.5):
            for pod in system.cluster.get("pods", "-n", namespace)["items"]:
                if pod["spec"].get("nodeName") and pod["metadata"].get("deletionTimestamp"):
                    at = ("pod", pod["metadata"]["name"], "-n", namespace)
                    for command in (
                        ("patch", *at, "--type=merge", "-p", '{"metadata":{"finalizers":null}}'),
                        ("delete", *at, "--force", "--grace-period=0", "--wait=false"),
                    ):
                        with contextlib.suppress(AssertionError):  # it has gone meanwhile
                            kubectl(*command)

    thread = threading.Thread(target=remove)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
