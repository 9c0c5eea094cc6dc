"""What breaks on a real cluster while a Job is preempted: nothing is lost, no GPU is given twice, and the log replays.

Each story is the same: `train` has five of the kubelet's eight GPUs, the urgent `serve` takes all eight, and `train` comes back.
Their containers note which GPUs they use, so that two of them on one GPU would be seen.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.kubernetes.bridge_system import BridgeSystem, Users
from tests.kubernetes.kubelet_jobs import URGENT, runs, using
from tests.kubernetes.line import Line, port_of, through

from bailiff_core.model.state import Job

pytestmark = [pytest.mark.kubernetes, pytest.mark.long, pytest.mark.timeout(1500)]
AWAY_S = 60


class Story:
    """`train`, and `serve` in its place."""

    def __init__(self, users: Users, uses: Path) -> None:
        self.users, self.watch, self.uses = users, users.watch, uses

    def create_train(self) -> None:
        self.users.apply(using(self.users, "train", 5, self.uses))

    async def train_runs(self) -> Job:
        return await runs(self.users, "train", self.uses)

    def create_serve(self) -> None:
        self.users.apply(using(self.users, "serve", 8, self.uses, **URGENT))

    async def serve_runs(self) -> Job:
        job = await runs(self.users, "serve", self.uses)
        assert self.users.of("train").phase == "pending"
        return job

    def is_running(self, name: str) -> bool:
        return self.users.of(name).phase == "running"

    def delete_serve(self) -> None:
        self.users.kubectl("delete", "job", "serve", "--wait=false")

    async def train_is_back(self, first: Job) -> None:
        await self.users.until_phase("serve", "cancelled")
        again = await self.train_runs()
        assert (again.id, again.attempt > first.attempt) == (first.id, True)
        await self.watch.verify()


@pytest.fixture
def story(kubelet_users: Users, tmp_path: Path) -> Story:
    return Story(kubelet_users, tmp_path / "uses")


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
