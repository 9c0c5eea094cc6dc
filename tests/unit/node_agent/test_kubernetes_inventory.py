"""The inventory of a Kubernetes node while its kubelet does not answer."""

from pathlib import Path

import pytest

from bailiff_node_agent.devices.kubernetes import KubernetesInventory
from bailiff_node_agent.runtime.kubernetes.pod_resources import KubeletUnavailable


class Kubelet:
    """Names two GPUs, and answers or does not."""

    answers = True

    def allocatable(self) -> dict[str, str]:
        if not self.answers:
            raise KubeletUnavailable("it is stopped")
        return {"GPU-1": "nvidia.com/gpu", "GPU-2": "nvidia.com/gpu"}


@pytest.fixture
def kubelet() -> Kubelet:
    return Kubelet()


@pytest.fixture
def inventory(kubelet: Kubelet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KubernetesInventory:
    monkeypatch.setattr("bailiff_node_agent.devices.kubernetes.PodResources", lambda *_: kubelet)
    return KubernetesInventory(tmp_path / "kubelet.sock", "nvidia.com/gpu")


def test_while_the_kubelet_is_stopped_the_node_keeps_its_devices_and_says_why(
    inventory: KubernetesInventory, kubelet: Kubelet
) -> None:
    before = inventory.list()
    assert [device.id for device in before] == ["GPU-1", "GPU-2"]
    kubelet.answers = False
    assert inventory.list() == before
    assert {problem.detail for problem in inventory.problems().values()} == {"it is stopped"}
    kubelet.answers = True
    assert inventory.problems() == {}


def test_a_kubelet_that_has_never_answered_is_an_error(inventory: KubernetesInventory, kubelet: Kubelet) -> None:
    kubelet.answers = False
    with pytest.raises(KubeletUnavailable):
        inventory.list()
