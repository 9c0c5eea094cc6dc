"""The claim of exactly the devices that a task was placed on: what it selects, who owns it, and what it is compared with."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.node_agent.test_published_devices import DRIVER, device, published_by, resource_slice

from bailiff_kubernetes import AlreadyExists, Forbidden, NotFound, Unreachable, pod_name, task_hash
from bailiff_kubernetes.client import Listing
from bailiff_kubernetes.names import TASK, TASK_HASH
from bailiff_kubernetes.resources import PODS, RESOURCE_CLAIMS
from bailiff_node_agent.runtime import Launch, TaskKey
from bailiff_node_agent.runtime.kubernetes.claims import claims_of, difference, own_claim, use_claims
from bailiff_node_agent.runtime.kubernetes.manifest import pod_of
from bailiff_node_agent.runtime.kubernetes.placement import NotStarted, Placement
from bailiff_node_agent.runtime.kubernetes.task_files import TaskFiles, TaskOrder
from bailiff_node_agent.settings import KubernetesSettings

Object = dict[str, Any]
KEY = TaskKey("train", 1, "0")
NAME = pod_name(str(KEY))
ORDER = TaskOrder(KEY, "jobs", NAME, own_pod=True, devices=("GPU-2", "GPU-1"), ordered_by=7, is_only_task=True, uid="u1")
MIG = device(3, "MIG-3", type="mig", profile="3g.40gb")
PUBLISHED = published_by(resource_slice(*map(device, range(3)), MIG))
SETTINGS = KubernetesSettings(placement_timeout_s=0.2)


def launch(*devices: str) -> Launch:
    return Launch(KEY, "true", device_ids=devices, image="i", memory_bytes=1 << 20, device_resource="nvidia.com/gpu")


def wanted(*devices: str) -> Object:
    [claim] = claims_of(launch(*devices), "jobs", SETTINGS, PUBLISHED)
    return claim


def claimed(*names: str, owner: str = "u1") -> Object:
    """A claim as the API server has it, allocated with the driver's devices of these names, and one of another driver."""
    results = [{"driver": DRIVER, "pool": "n1", "device": name} for name in names]
    results.append({"driver": "nic.example", "pool": "n1", "device": "eth0"})
    metadata = {"name": NAME, "namespace": "jobs", "ownerReferences": [{"uid": owner}]}
    return {"metadata": metadata, "status": {"allocation": {"devices": {"results": results}}}}


class Server:
    """An API server with pods and claims by name. refusals: what its next creations of claims are answered with."""

    def __init__(self, *refusals: Exception) -> None:
        self.refusals, self.objects, self.calls = [*refusals], dict[Any, Object](), list[str]()

    async def create(self, resource: Any, body: Object, namespace: str) -> Object:
        self.calls.append(f"create {resource.kind}")
        if resource == RESOURCE_CLAIMS and self.refusals:
            raise self.refusals.pop(0)
        if resource in self.objects:
            raise AlreadyExists("there is one", 409)
        metadata = {**body["metadata"], "namespace": namespace, "uid": "u1", "resourceVersion": "1"}
        self.objects[resource] = {**body, "metadata": metadata}
        return self.objects[resource]

    async def find(self, resource: Any, *_: str) -> Object | None:
        return self.objects.get(resource)

    async def list(self, resource: Any, *_: str, labels: str) -> Listing:
        return Listing([self.objects[resource]] if resource in self.objects else [], "1")

    async def patch_status(self, resource: Any, *_: Any) -> Object:
        return self.objects[resource]

    async def delete(self, resource: Any, name: str, *_: str, **__: Any) -> None:
        self.calls.append(f"delete {resource.kind} {name}")
        del self.objects[resource]


def node_of(server: Server, folder: Path) -> Any:
    return SimpleNamespace(
        api=server, files=TaskFiles(folder), settings=SETTINGS, published=PUBLISHED, node="n1", find=lambda *_: None,
        starting=asyncio.Semaphore(),
    )  # fmt: skip


def test_a_claim_selects_exactly_these_devices_of_the_driver() -> None:
    claim = wanted("GPU-2", "GPU-1")
    assert claim["metadata"]["name"] == NAME
    assert (claim["metadata"]["labels"][TASK_HASH], claim["metadata"]["annotations"][TASK]) == (task_hash(str(KEY)), str(KEY))
    [request] = claim["spec"]["devices"]["requests"]
    assert request["exactly"] == {
        "deviceClassName": "gpu.nvidia.com",
        "allocationMode": "ExactCount",
        "count": 2,
        "selectors": [
            {
                "cel": {
                    "expression": 'device.driver == "gpu.nvidia.com" && "uuid" in device.attributes["gpu.nvidia.com"] '
                    '&& device.attributes["gpu.nvidia.com"].uuid in ["GPU-2", "GPU-1"]'
                }
            }
        ],
    }
    [mig] = wanted("MIG-3")["spec"]["devices"]["requests"]
    assert mig["exactly"]["deviceClassName"] == "mig.nvidia.com"


def test_without_devices_or_a_driver_there_is_no_claim() -> None:
    assert claims_of(launch(), "jobs", SETTINGS, PUBLISHED) == []
    assert claims_of(launch("GPU-1"), "jobs", SETTINGS, published_by()) == []


def test_its_pod_uses_the_claim_and_no_device_plugin() -> None:
    pod = pod_of(launch("GPU-1"), "n1", "jobs", "nvidia.com/gpu", 10)
    use_claims(pod, [wanted("GPU-1")])
    [container] = pod["spec"]["containers"]
    assert container["resources"] == {"limits": {"memory": str(1 << 20)}, "claims": [{"name": "gpus"}]}
    assert pod["spec"]["resourceClaims"] == [{"name": "gpus", "resourceClaimName": NAME}]


async def test_the_pod_owns_its_claim_from_the_first_moment(tmp_path: Path) -> None:
    server = Server()
    assert await own_claim(node_of(server, tmp_path), ORDER, wanted("GPU-1"))
    [owner] = server.objects[RESOURCE_CLAIMS]["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "v1", "kind": "Pod", "name": NAME, "uid": "u1"}
    assert await own_claim(node_of(server, tmp_path), ORDER, wanted("GPU-1")), "a repeat finds it"


async def test_the_claim_of_an_earlier_pod_of_that_name_is_waited_out(tmp_path: Path) -> None:
    server = Server()
    server.objects[RESOURCE_CLAIMS] = claimed(owner="u0")
    assert not await own_claim(node_of(server, tmp_path), ORDER, wanted("GPU-1"))
    del server.objects[RESOURCE_CLAIMS]
    assert await own_claim(node_of(server, tmp_path), ORDER, wanted("GPU-1"))


@pytest.mark.parametrize(
    ("devices", "claim", "why"),
    [
        (("GPU-1", "GPU-2"), claimed("gpu-1", "gpu-2"), None),
        (
            ("GPU-0", "GPU-1"),
            claimed("gpu-1", "gpu-2"),
            "the kubelet gave its pod GPU-0, GPU-1, where it was placed on GPU-1, GPU-2",
        ),
        (("GPU-1", "GPU-2"), claimed("gpu-1"), "its ResourceClaim has GPU-1, where it was placed on GPU-1, GPU-2"),
        (("GPU-1", "GPU-2"), claimed(), "its ResourceClaim has none, where it was placed on GPU-1, GPU-2"),
        (
            ("GPU-1", "GPU-2"),
            claimed("gpu-1", "gpu-9"),
            "its ResourceClaim has GPU-1, gpu.nvidia.com/n1/gpu-9, where it was placed",
        ),
        (("GPU-1", "GPU-2"), claimed("gpu-1", "gpu-2", owner="u0"), "its ResourceClaim was removed before it started"),
        (("GPU-1", "GPU-2"), None, "its ResourceClaim was removed before it started"),
    ],
)
async def test_kubelet_and_claim_must_both_have_what_was_placed(
    tmp_path: Path, devices: tuple[str, ...], claim: Object | None, why: str | None
) -> None:
    server = Server()
    if claim is not None:
        server.objects[RESOURCE_CLAIMS] = claim
    found = await difference(node_of(server, tmp_path), ORDER, [wanted("GPU-1", "GPU-2")], devices)
    assert found == why if why is None else (found or "").startswith(why)


# --- its place among the steps of a start


def placement_of(server: Server, folder: Path, *, uid: str = "") -> Placement:
    node, pod = node_of(server, folder), pod_of(launch("GPU-1"), "n1", "jobs", "nvidia.com/gpu", 10)
    use_claims(pod, [wanted("GPU-1")])
    order = TaskOrder(KEY, "jobs", NAME, own_pod=True, devices=("GPU-1",), ordered_by=7, is_only_task=True, uid=uid)
    node.files.write_order(order, pod, [wanted("GPU-1")])
    return Placement(node, order, None if uid else pod, lambda seconds: asyncio.sleep(min(seconds, 0.01)))


async def test_the_pod_comes_first_and_the_claim_is_repeated_until_the_server_answers(tmp_path: Path) -> None:
    server = Server(Unreachable("away"))
    with pytest.raises(NotStarted, match="not placed within 0 s"):
        await placement_of(server, tmp_path).placed()
    assert server.calls[:3] == ["create Pod", "create ResourceClaim", "create ResourceClaim"]
    assert server.calls[3:] == [f"delete Pod {NAME}"], "Kubernetes removes the claim with the pod that owns it"


async def test_the_next_agent_creates_the_claim_of_a_pod_that_has_none_yet(tmp_path: Path) -> None:
    server = Server()
    first = placement_of(server, tmp_path)
    await first._create(first._manifest or {})
    second = placement_of(server, tmp_path, uid="u1")
    with pytest.raises(NotStarted):
        await second.placed()
    assert server.calls[1] == "create ResourceClaim"


@pytest.mark.parametrize("refusal", [Forbidden("no right to claims", 403), NotFound("no such kind", 404)])
async def test_a_claim_that_is_refused_ends_the_start_and_its_pod(tmp_path: Path, refusal: Exception) -> None:
    server = Server(refusal)
    with pytest.raises(NotStarted, match=f"the claim of its devices cannot be created: {refusal}"):
        await placement_of(server, tmp_path).placed()
    assert PODS not in server.objects
