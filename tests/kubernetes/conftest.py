"""One set of services for all files: the bridge, a pool of the cluster's fake nodes, and one whose machine is a real kubelet."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from tests.kits.controllers import jobset_controller, kuberay, lws_controller, trainer, training_operator  # noqa: F401
from tests.kits.kubernetes_cluster import Cluster
from tests.kits.system import Watch, systems
from tests.kubernetes.bridge_system import GANG_POOL, KUBELET_POOL, POOL, BridgeSystem, Users
from tests.kubernetes.story import Story

from bailiff_core.model.state import ENDED


@pytest.fixture(scope="session")
def _bridge_systems(kubernetes: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], BridgeSystem]]:
    with systems(tmp_path_factory, "bridge", BridgeSystem, cluster=kubernetes) as get:
        yield get


@pytest.fixture
def system(_bridge_systems: Callable[[], BridgeSystem]) -> BridgeSystem:
    """The running services; new ones after a failed test."""
    return _bridge_systems()


@pytest.fixture
async def users(system: BridgeSystem, kubernetes_namespace: str) -> AsyncIterator[Users]:
    """A user whose workloads run on the fake nodes."""
    async with system.watch(POOL) as watch:
        async for each in _users(system, kubernetes_namespace, watch):
            yield each


@pytest.fixture
async def kubelet_pool(system: BridgeSystem) -> AsyncIterator[Watch]:
    """The pool of the real kubelet, with its node agent."""
    system.start_kubelet_agent()
    try:
        async with system.watch(KUBELET_POOL) as watch:
            yield watch
    finally:
        system.stop_kubelet_agent()


@pytest.fixture
async def kubelet_users(system: BridgeSystem, kubelet_pool: Watch, kubernetes_namespace: str) -> AsyncIterator[Users]:
    """A user whose workloads run on the real kubelet."""
    async for each in _users(system, kubernetes_namespace, kubelet_pool):
        yield each


@pytest.fixture
async def gang_users(system: BridgeSystem, kubernetes: Cluster, kubernetes_namespace: str) -> AsyncIterator[Users]:
    """A user whose workloads run on both real kubelets."""
    numbers = range(1, 1 + len(kubernetes.real_nodes[:2]))
    kubernetes.node(2)
    for number in numbers:
        system.start_kubelet_agent(number, GANG_POOL)
    try:
        async with system.watch(GANG_POOL) as watch:
            async for each in _users(system, kubernetes_namespace, watch):
                yield each
    finally:
        for number in numbers:
            system.stop_kubelet_agent(number, GANG_POOL)


@pytest.fixture
def story(kubelet_users: Users, tmp_path: Path) -> Story:
    """One preemption on the real kubelet."""
    return Story(kubelet_users, tmp_path / "uses")


async def _users(system: BridgeSystem, namespace: str, watch: Watch) -> AsyncIterator[Users]:
    users = Users(system.cluster, namespace, watch)
    yield users
    users.delete_everything()
    await watch.until("their jobs have ended", lambda state: all(job.phase in ENDED for job in state.jobs.values()))
