"""The inventory of a Kubernetes node while its kubelet or its device plugin is away: no device of it is broken."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bailiff_node_agent.devices.kubernetes import KubernetesInventory
from bailiff_node_agent.runtime.kubernetes.pod_resources import KubeletUnavailable
from bailiff_node_agent.tasks.watchdogs import watch_devices
from bailiff_service.logs import logger

GRACE_S = 40.0
GPUS = {"GPU-1": "nvidia.com/gpu", "GPU-2": "nvidia.com/gpu"}
MIG = {"MIG-1": "nvidia.com/mig-3g.40gb"}


class Kubelet:
    """Offers devices, or does not answer."""

    def __init__(self) -> None:
        self.now, self.answers = 1000.0, True
        self.offers = GPUS | {"NIC-1": "example.com/nic", "part": "nvidia.com/gpu.shared"}

    def allocatable(self) -> dict[str, str]:
        if not self.answers:
            raise KubeletUnavailable("it is stopped")
        return self.offers


@pytest.fixture
def kubelet() -> Kubelet:
    return Kubelet()


@pytest.fixture
def inventory(kubelet: Kubelet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KubernetesInventory:
    monkeypatch.setattr("bailiff_node_agent.devices.kubernetes.PodResources", lambda *_: kubelet)
    monkeypatch.setattr("bailiff_node_agent.devices.kubelet_offers.time.monotonic", lambda: kubelet.now)
    return KubernetesInventory(tmp_path / "kubelet.sock", "nvidia.com/gpu", GRACE_S)


def healthy(inventory: KubernetesInventory) -> list[str]:
    return [device.id for device in inventory.list() if device.healthy]


def details(inventory: KubernetesInventory) -> dict[str, str]:
    return {device: problem.detail for device, problem in inventory.problems().items()}


def test_the_devices_of_a_kubelet_that_restarts_stand(inventory: KubernetesInventory, kubelet: Kubelet) -> None:
    before = inventory.list()
    assert healthy(inventory) == ["GPU-1", "GPU-2"]
    kubelet.answers = False
    kubelet.now += GRACE_S - 1
    assert inventory.list() == before
    assert (inventory.problems(), inventory.away()) == ({}, "")

    kubelet.now += 2
    assert inventory.list() == before
    assert (inventory.problems(), inventory.away()) == ({}, "its kubelet has not answered for 40 s")

    kubelet.answers = True
    assert inventory.list() == before
    assert (inventory.problems(), inventory.away()) == ({}, "")


def test_an_answer_begins_the_time_anew(inventory: KubernetesInventory, kubelet: Kubelet) -> None:
    inventory.list()
    for _ in range(3):
        kubelet.answers = False
        kubelet.now += GRACE_S - 1
        assert (inventory.problems(), inventory.away()) == ({}, "")
        kubelet.answers = True
        assert healthy(inventory) == ["GPU-1", "GPU-2"]


def test_a_kubelet_that_answers_before_its_device_plugin_has_registered_keeps_its_devices_as_long(
    inventory: KubernetesInventory, kubelet: Kubelet
) -> None:
    kubelet.offers = GPUS | MIG
    assert healthy(inventory) == ["GPU-1", "GPU-2", "MIG-1"]
    kubelet.offers = {}
    assert healthy(inventory) == ["GPU-1", "GPU-2", "MIG-1"]
    kubelet.offers = MIG  # one resource is back before the other
    kubelet.now += GRACE_S - 1
    assert healthy(inventory) == ["GPU-1", "GPU-2", "MIG-1"]
    assert (inventory.problems(), inventory.away()) == ({}, "")
    kubelet.now += 2
    assert healthy(inventory) == ["GPU-1", "GPU-2", "MIG-1"]
    assert (inventory.problems(), inventory.away()) == ({}, "no device plugin has offered nvidia.com/gpu for 40 s")


def test_a_device_that_is_missing_among_others_of_its_resource_is_unhealthy_at_once(
    inventory: KubernetesInventory, kubelet: Kubelet
) -> None:
    inventory.list()
    kubelet.offers = {"GPU-2": "nvidia.com/gpu"}
    assert healthy(inventory) == ["GPU-2"]
    assert details(inventory) == {"GPU-1": "the device plugin reports it as unhealthy"}


def test_a_kubelet_that_has_never_answered_is_an_error(inventory: KubernetesInventory, kubelet: Kubelet) -> None:
    kubelet.answers = False
    with pytest.raises(KubeletUnavailable, match=r"it is stopped$"):
        inventory.list()


async def test_the_node_is_announced_when_its_kubelet_is_away_for_too_long_and_when_it_is_back(
    inventory: KubernetesInventory, kubelet: Kubelet
) -> None:
    inventory.list()
    announced: asyncio.Queue[str] = asyncio.Queue()
    context: Any = SimpleNamespace(inventory=inventory, device_poll_s=0, log=logger)
    quarantine: Any = SimpleNamespace(reported=("GPU-1", "GPU-2"))
    watching = asyncio.create_task(watch_devices(context, quarantine, lambda: announced.put_nowait(inventory.away())))
    kubelet.answers = False
    kubelet.now += GRACE_S + 1
    assert await announced.get() == "its kubelet has not answered for 40 s"
    kubelet.answers = True
    assert await announced.get() == ""
    assert announced.empty()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
