"""The claim of exactly the devices that a task was placed on: what it selects, who owns it, and what it is compared with."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.kits.claims_server import ClaimsServer
from tests.unit.node_agent.resource_slices import DRIVER, device, published_by, resource_slice

from bailiff_kubernetes import Forbidden, NotFound, Unreachable, pod_name, task_hash
from bailiff_kubernetes.names import TASK, TASK_HASH
from bailiff_kubernetes.resources import PODS, RESOURCE_CLAIMS
from bailiff_node_agent.kubernetes_settings import KubernetesSettings
from bailiff_node_agent.runtime import Launch, TaskKey
from bailiff_node_agent.runtime.kubernetes.claims import claims_of, difference, own_claim, use_claims
from bailiff_node_agent.runtime.kubernetes.manifest import pod_of
from bailiff_node_agent.runtime.kubernetes.placement import NotStarted, Placement
from bailiff_node_agent.runtime.kubernetes.task_files import TaskFiles, TaskOrder

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


def node_of(server: ClaimsServer, folder: Path) -> Any:
    return SimpleNamespace(
        api=server,
        files=TaskFiles(folder),
        settings=SETTINGS,
        published=PUBLISHED,
        node="n1",
        find=lambda *_: None,
        starting=asyncio.Semaphore(),
    )


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
    server = ClaimsServer()
    assert await own_claim(node_of(server, tmp_path), ORDER, wanted("GPU-1"))
    [owner] = server.objects[RESOURCE_CLAIMS.kind, NAME]["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "v1", "kind": "Pod", "name": NAME, "uid": "u1"}
    assert await own_claim(node_of(server, tmp_path), ORDER, wanted("GPU-1")), "a repeat finds it"


async def test_the_claim_of_an_earlier_pod_of_that_name_is_waited_out(tmp_path: Path) -> None:
    server = ClaimsServer()
    server.objects[RESOURCE_CLAIMS.kind, NAME] = claimed(owner="u0")
    assert not await own_claim(node_of(server, tmp_path), ORDER, wanted("GPU-1"))
    del server.objects[RESOURCE_CLAIMS.kind, NAME]
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
    server = ClaimsServer()
    if claim is not None:
        server.objects[RESOURCE_CLAIMS.kind, NAME] = claim
    found = await difference(node_of(server, tmp_path), ORDER, [wanted("GPU-1", "GPU-2")], devices)
    assert found == why if why is None else (found or "").startswith(why)


# --- its place among the steps of a start


def placement_of(server: ClaimsServer, folder: Path, *, uid: str = "") -> Placement:
    node, pod = node_of(server, folder), pod_of(launch("GPU-1"), "n1", "jobs", "nvidia.com/gpu", 10)
    use_claims(pod, [wanted("GPU-1")])
    order = TaskOrder(KEY, "jobs", NAME, own_pod=True, devices=("GPU-1",), ordered_by=7, is_only_task=True, uid=uid)
    node.files.write_order(order, pod, [wanted("GPU-1")])
    return Placement(node, order, None if uid else pod, lambda seconds: asyncio.sleep(min(seconds, 0.01)))


async def test_the_pod_comes_first_and_the_claim_is_repeated_until_the_server_answers(tmp_path: Path) -> None:
    server = ClaimsServer(Unreachable("away"))
    with pytest.raises(NotStarted, match="not placed within 0 s"):
        await placement_of(server, tmp_path).placed()
    assert server.log[:2] == ["create Pod", "create ResourceClaim"]
    assert server.log[2:] == ["delete Pod"], "Kubernetes removes the claim with the pod that owns it"


async def test_the_next_agent_creates_the_claim_of_a_pod_that_has_none_yet(tmp_path: Path) -> None:
    server = ClaimsServer()
    first = placement_of(server, tmp_path)
    await first._create(first._manifest or {})
    second = placement_of(server, tmp_path, uid=f"uid of {NAME}")
    with pytest.raises(NotStarted):
        await second.placed()
    assert server.log[1] == "create ResourceClaim"


@pytest.mark.parametrize("refusal", [Forbidden("no right to claims", 403), NotFound("no such kind", 404)])
async def test_a_claim_that_is_refused_ends_the_start_and_its_pod(tmp_path: Path, refusal: Exception) -> None:
    server = ClaimsServer(refusal)
    with pytest.raises(NotStarted, match=f"the claim of its devices cannot be created: {refusal}"):
        await placement_of(server, tmp_path).placed()
    assert (PODS.kind, NAME) not in server.objects
