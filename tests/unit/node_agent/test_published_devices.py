"""What a DRA driver publishes, as the node's devices: which can be claimed, which cannot, and who holds them."""

from typing import Any

import pytest
from pydantic import ValidationError
from tests.unit.node_agent.resource_slices import DRIVER, GPU, MIG, Object, device, published_by, resource_slice

from bailiff_core.records.facts import MAX_DEVICES
from bailiff_kubernetes import Forbidden, NotFound
from bailiff_kubernetes.client import Listing
from bailiff_node_agent.devices.kubernetes import KubernetesInventory
from bailiff_node_agent.kubernetes_settings import KubernetesSettings
from bailiff_node_agent.runtime.kubernetes.pod_resources import PodResources, _messages
from bailiff_node_agent.runtime.kubernetes.published import NOT_PUBLISHED, PublishedDevices


def test_each_gpu_is_known_by_its_uuid_with_what_its_driver_says() -> None:
    found = published_by(resource_slice(device(0), device(1)))
    assert found.are_exact
    assert found.healthy() == {"GPU-0": GPU, "GPU-1": GPU}
    gpu = found.get("GPU-1")
    assert gpu is not None
    assert (gpu.model, gpu.memory, gpu.parent, gpu.is_mig) == ("NVIDIA H100", 80 << 30, None, False)
    assert found.find(DRIVER, "n1", "gpu-1") == (GPU, "GPU-1")
    assert found.fields == "spec.nodeName=n1,spec.driver=gpu.nvidia.com"


def test_mig_devices_are_a_kind_of_their_own() -> None:
    found = published_by(resource_slice(device(0, "MIG-0", type="mig", profile="3g.40gb", parentUUID="GPU-0")))
    mig = found.get("MIG-0")
    assert mig is not None
    assert (mig.resource, mig.parent, mig.is_mig) == (MIG, "GPU-0", True)


def test_without_slices_nothing_is_exact() -> None:
    assert not published_by().are_exact
    assert published_by(resource_slice(device(0))).find("nic.example", "n1", "gpu-0") is None


@pytest.mark.parametrize(
    "left_out",
    [
        device(1, ""),
        device(1, type="vfio"),
        device(1, fields={"allowMultipleAllocations": True}),
        device(1, 'GPU" || true || "'),
        device(1, "G" * 65),
    ],
    ids=["no UUID", "no GPU", "shared by several pods", "CEL in its UUID", "too long"],
)
def test_what_no_claim_could_select_for_sure_is_left_out(left_out: Object) -> None:
    assert published_by(resource_slice(device(0), left_out)).healthy() == {"GPU-0": GPU}


def test_a_card_and_its_partitions_with_one_uuid_are_left_out_wherever_they_are() -> None:
    found = published_by(resource_slice(device(0), device(1, "GPU-0")), resource_slice(device(2), device(3, "GPU-0"), pool="n2"))
    assert found.healthy() == {"GPU-2": GPU}
    assert found.find(DRIVER, "n1", "gpu-1") == (GPU, "GPU-0"), "a pod of others that has it still has that GPU"


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    old, new = resource_slice(device(0), device(1)), resource_slice(device(0), generation=2)
    assert published_by(new, old).healthy() == {"GPU-0": GPU}


def test_a_device_that_is_tainted_or_gone_stays_known_and_says_why() -> None:
    taint = {"taints": [{"key": "gpu.nvidia.com/xid", "effect": "NoSchedule"}, {"key": "note", "effect": "None"}]}
    found = published_by(resource_slice(device(0), device(1)))
    found.update([resource_slice(device(0, fields=taint))])
    assert found.healthy() == {}
    assert found.are_exact
    assert {each.fault for each in map(found.get, ("GPU-0", "GPU-1")) if each is not None} == {
        "its DRA driver taints it: gpu.nvidia.com/xid",
        NOT_PUBLISHED,
    }
    assert found.find(DRIVER, "n1", "gpu-1") == (GPU, "GPU-1")
    found.update([resource_slice(device(0), device(1))])
    assert found.healthy() == {"GPU-0": GPU, "GPU-1": GPU}


def test_a_node_has_no_more_devices_than_a_report_may_have() -> None:
    assert len(published_by(resource_slice(*map(device, range(MAX_DEVICES + 9)))).healthy()) == MAX_DEVICES


class Server:
    """Answers each list of slices with this."""

    def __init__(self, answer: Exception | list[Object]) -> None:
        self.answer = answer

    async def list(self, _: object, *, fields: str) -> Listing:
        if isinstance(self.answer, Exception):
            raise self.answer
        return Listing(self.answer, "1")


@pytest.mark.parametrize("answer", [NotFound("no such kind", 404), Forbidden("not permitted", 403)])
async def test_an_api_server_without_slices_or_rights_changes_nothing(answer: Exception) -> None:
    found = published_by()
    assert not await found.read(Server(answer))  # type: ignore[arg-type]
    assert not found.are_exact


async def test_a_driver_that_is_not_named_is_not_asked_for() -> None:
    found = published_by(dra_driver="")
    assert not await found.read(Server([resource_slice(device(0))]))  # type: ignore[arg-type]
    assert not found.are_exact
    named = published_by()
    assert await named.read(Server([resource_slice(device(0))]))  # type: ignore[arg-type]
    assert named.are_exact


@pytest.mark.parametrize(
    "wrong",
    [{"dra_driver": 'a" || true'}, {"dra_uuid_attribute": "u.x"}, {"dra_device_class": ""}, {"dra_driver": "a,spec.nodeName=b"}],
)
def test_names_that_would_change_a_selector_are_no_settings(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        KubernetesSettings(**wrong)  # type: ignore[arg-type]


# --- the kubelet's word, and the node's devices


class Kubelet(PodResources):
    """A kubelet that gives this answer; its device plugin offers one GPU."""

    def __init__(self, published: PublishedDevices | None, pods: Object) -> None:
        self._published, self._list, self._allocatable, self._pods = published, "list", "allocatable", pods

    def _call(self, method: Any) -> Any:
        if method == "list":
            return _messages()["ListPodResourcesResponse"](**self._pods)
        offered = {"resource_name": GPU, "device_ids": ["GPU-of-the-plugin"]}
        return _messages()["AllocatableResourcesResponse"](devices=[offered])


def pods_with(*names: str, driver: str = DRIVER) -> Object:
    """A pod with a device of a plugin, and these through a claim."""
    claimed = [{"driver_name": driver, "pool_name": "n1", "device_name": name} for name in names]
    plugin = {"resource_name": "nic.example/port", "device_ids": ["eth0"]}
    container = {"name": "main", "devices": [plugin], "dynamic_resources": [{"claim_resources": claimed}]}
    return {"pod_resources": [{"name": "p", "namespace": "team-a", "containers": [container]}]}


@pytest.mark.slow
def test_the_kubelet_says_which_pod_has_which_device_through_a_claim() -> None:
    published = published_by(resource_slice(device(0), device(1)))
    kubelet = Kubelet(published, pods_with("gpu-1", "gpu-7"))
    held = {(each.namespace, each.pod, each.resource, *each.devices) for each in kubelet.pod_devices()}
    assert held == {
        ("team-a", "p", "nic.example/port", "eth0"),
        ("team-a", "p", GPU, "GPU-1"),
        ("team-a", "p", GPU, "gpu.nvidia.com/n1/gpu-7"),
    }
    assert kubelet.devices_of("team-a", "p", "nvidia.com/") == ("GPU-1", "gpu.nvidia.com/n1/gpu-7")
    assert Kubelet(published, pods_with("gpu-1", driver="nic.example")).devices_of("team-a", "p", "nvidia.com/") == ()
    assert Kubelet(None, pods_with("gpu-1")).devices_of("team-a", "p", "nvidia.com/") == ()


def test_published_devices_are_the_nodes_devices_and_in_use_while_a_pod_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    published = PublishedDevices(KubernetesSettings(), "n1")
    kubelet = Kubelet(published, pods_with("gpu-1"))
    monkeypatch.setattr("bailiff_node_agent.devices.kubernetes.PodResources", lambda *_: kubelet)
    inventory = KubernetesInventory(None, GPU, 40.0, published)  # type: ignore[arg-type]
    assert [each.id for each in inventory.list()] == ["GPU-of-the-plugin"], "until a driver publishes others"

    published.update(
        [resource_slice(device(0), device(1), device(2, "MIG-2", type="mig", profile="3g.40gb", parentUUID="GPU-9"))]
    )
    found = {each.id: each for each in inventory.list()}
    assert [*found] == ["GPU-0", "GPU-1", "MIG-2"]
    assert (found["GPU-0"].model, found["GPU-0"].memory, found["GPU-0"].healthy) == ("NVIDIA H100", 80 << 30, True)
    assert (found["MIG-2"].kind, found["MIG-2"].profile, found["MIG-2"].parent) == ("mig", "3g.40gb", "GPU-9")
    assert inventory.holders() == {"eth0": {("team-a", "p")}, "GPU-1": {("team-a", "p")}}
    assert inventory.usage("GPU-1").memory_used
    assert not inventory.usage("GPU-0").memory_used

    taint = {"taints": [{"key": "xid", "effect": "NoExecute"}]}
    published.update([resource_slice(device(0), device(3, fields=taint))])
    problems = {device: problem.detail for device, problem in inventory.problems().items()}
    assert problems == {"GPU-1": NOT_PUBLISHED, "GPU-3": "its DRA driver taints it: xid"}
    assert [each.healthy for each in inventory.list()] == [True, False, False, True], "without any MIG device, those stand"
    published.update([])
    assert inventory.problems().keys() == {"GPU-1", "GPU-3"}
    assert [each.id for each in inventory.list() if each.healthy] == ["GPU-0", "MIG-2"], "as while its driver is replaced"
