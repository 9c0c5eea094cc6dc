"""The ResourceClaims of a task that gets exactly the devices that it was placed on, through a DRA driver.

The pod is created first and owns its claims: Kubernetes removes a claim with the last pod that owns it, whatever happens to the
agent in between. A task has one claim for all devices that it has to itself. A device that tasks share has one claim for all of
them, named after it; each pod becomes one more of its owners, and kube-scheduler leaves the pod alone until it is.
"""

import json
from collections.abc import Collection, Sequence

from bailiff_kubernetes import AlreadyExists, NotFound, Object, pod_name, shared_claim_name, task_hash
from bailiff_kubernetes.names import CLAIMS_GATE, DEVICE, TASK, TASK_HASH
from bailiff_kubernetes.resources import RESOURCE_CLAIMS, annotations_of
from bailiff_node_agent.kubernetes_settings import KubernetesSettings
from bailiff_node_agent.runtime.port import Launch

from .pod_node import PodNode
from .published import PublishedDevices
from .task_files import TaskOrder

CLAIM = "gpus"
"""The name of claim and request within the pod; of several claims, numbered."""
MANAGED = {"app.kubernetes.io/managed-by": "bailiff"}


def claims_of(launch: Launch, namespace: str, settings: KubernetesSettings, published: PublishedDevices) -> list[Object]:
    """The claims of the task's devices; none where it has no devices, or no driver publishes them."""
    if not launch.device_ids or not published.are_exact:
        return []
    device = published.get(launch.device_ids[0])
    is_mig = device is not None and device.is_mig
    device_class = settings.dra_mig_device_class if is_mig else settings.dra_device_class
    if launch.part is not None:
        device_class = settings.dra_shared_device_class or device_class
        return [_claim(_of_device(each), namespace, (each,), device_class, settings) for each in launch.device_ids]
    return [_claim(_of_task(str(launch.key)), namespace, launch.device_ids, device_class, settings)]


def _of_task(key: str) -> Object:
    return {"name": pod_name(key), "labels": {TASK_HASH: task_hash(key), **MANAGED}, "annotations": {TASK: key}}


def _of_device(device: str) -> Object:
    return {"name": shared_claim_name(device), "labels": MANAGED, "annotations": {DEVICE: device}}


def _claim(metadata: Object, namespace: str, devices: Collection[str], device_class: str, settings: KubernetesSettings) -> Object:
    exactly = {
        "deviceClassName": device_class,
        "allocationMode": "ExactCount",
        "count": len(devices),
        "selectors": [{"cel": {"expression": _only(devices, settings)}}],
    }
    return {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": {**metadata, "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": CLAIM, "exactly": exactly}]}},
    }


def is_shared(claim: Object) -> bool:
    """Whether pods of other tasks may own the claim as well."""
    return DEVICE in annotations_of(claim)


def _only(devices: Collection[str], settings: KubernetesSettings) -> str:
    """CEL: these devices of the driver. A missing attribute, as of another driver's device, would be an error."""
    driver, attribute = settings.dra_driver, settings.dra_uuid_attribute
    attributes = f'device.attributes["{driver}"]'
    return f'device.driver == "{driver}" && "{attribute}" in {attributes} && {attributes}.{attribute} in {json.dumps([*devices])}'


def use_claims(pod: Object, claims: Sequence[Object]) -> None:
    """Have the pod use these claims; a device plugin gives it nothing.

    Kept from kube-scheduler where a claim is shared: it would be bound before it owns a claim that may go with its last owner.
    """
    names = [CLAIM] if len(claims) == 1 else [f"{CLAIM}-{number}" for number in range(len(claims))]
    resources = pod["spec"]["containers"][0]["resources"]
    resources["limits"] = {name: amount for name, amount in resources["limits"].items() if "/" not in name}
    resources["claims"] = [{"name": name} for name in names]
    pod["spec"]["resourceClaims"] = [
        {"name": name, "resourceClaimName": claim["metadata"]["name"]} for name, claim in zip(names, claims, strict=True)
    ]
    if any(map(is_shared, claims)):
        pod["spec"]["schedulingGates"] = [{"name": CLAIMS_GATE}]


async def own_claim(node: PodNode, order: TaskOrder, claim: Object) -> bool:
    """Have the pod own the claim, which is created where there is none. False: an earlier one of its name is still to go."""
    name, owner = claim["metadata"]["name"], {"apiVersion": "v1", "kind": "Pod", "name": order.name, "uid": order.uid}
    owned = {**claim, "metadata": {**claim["metadata"], "ownerReferences": [owner]}}
    try:
        found: Object | None = await node.api.create(RESOURCE_CLAIMS, owned, order.namespace)
    except AlreadyExists:
        found = await node.api.find(RESOURCE_CLAIMS, name, order.namespace)
        if found is not None and is_shared(claim) and order.uid not in _owners(found):
            found = await _add_owner(node, order, name, owner)
    return found is not None and order.uid in _owners(found) and "deletionTimestamp" not in found["metadata"]


async def _add_owner(node: PodNode, order: TaskOrder, name: str, owner: Object) -> Object | None:
    """The claim with one more owner; None where it has gone. Owners are merged by uid, so that two agents' calls add up."""
    try:
        return await node.api.patch(
            RESOURCE_CLAIMS, name, {"metadata": {"ownerReferences": [owner]}}, order.namespace, form="strategic"
        )
    except NotFound:
        return None


async def difference(node: PodNode, order: TaskOrder, claims: Sequence[Object], devices: tuple[str, ...]) -> str | None:
    """Why the task must not start: it has others than it was placed on, by the kubelet's word or by that of its claims."""
    if set(devices) != set(order.devices):
        return f"the kubelet gave its pod {_names(devices)}, where it was placed on {_names(order.devices)}"
    allocated: list[str] = []
    for claim in claims:
        found = await node.api.find(RESOURCE_CLAIMS, claim["metadata"]["name"], order.namespace)
        if found is None or order.uid not in _owners(found):
            return "its ResourceClaim was removed before it started"
        allocated += allocated_devices(found, node.published)
    if set(allocated) != set(order.devices):
        return f"its ResourceClaim has {_names(allocated)}, where it was placed on {_names(order.devices)}"
    return None


def allocated_devices(claim: Object, published: PublishedDevices) -> tuple[str, ...]:
    """The ids of the driver's devices that the claim has."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    found = [published.find(each["driver"], each["pool"], each["device"]) for each in results]
    return tuple(sorted(each[1] for each in found if each is not None))


def _owners(claim: Object) -> set[str]:
    return {str(each["uid"]) for each in claim["metadata"].get("ownerReferences") or ()}


def _names(devices: Collection[str]) -> str:
    return ", ".join(sorted(devices)) or "none"
