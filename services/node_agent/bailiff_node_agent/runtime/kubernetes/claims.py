"""The ResourceClaim of a task that gets exactly the devices that it was placed on, through a DRA driver.

The pod is created first and owns its claim from the claim's first moment: Kubernetes removes the claim with the pod, whatever
happens to the agent in between. Until there is a claim, kube-scheduler leaves the pod alone.
"""

import json
from collections.abc import Collection

from bailiff_kubernetes import AlreadyExists, Object, pod_name, task_hash
from bailiff_kubernetes.names import TASK, TASK_HASH
from bailiff_kubernetes.resources import RESOURCE_CLAIMS
from bailiff_node_agent.runtime.plugin import KubernetesSettings
from bailiff_node_agent.runtime.port import Launch

from .pod_node import PodNode
from .published import PublishedDevices
from .task_files import TaskOrder

CLAIM = "gpus"
"""The name of claim and request within the pod."""


def claim_of(launch: Launch, namespace: str, settings: KubernetesSettings, published: PublishedDevices) -> Object | None:
    """The claim of the task's devices; None where it has none, or no driver publishes them."""
    if not launch.device_ids or not published.are_exact:
        return None
    device, key = published.get(launch.device_ids[0]), str(launch.key)
    is_mig = device is not None and device.is_mig
    exactly = {
        "deviceClassName": settings.dra_mig_device_class if is_mig else settings.dra_device_class,
        "allocationMode": "ExactCount",
        "count": len(launch.device_ids),
        "selectors": [{"cel": {"expression": _only(launch.device_ids, settings)}}],
    }
    return {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": {
            "name": pod_name(key),
            "namespace": namespace,
            "labels": {TASK_HASH: task_hash(key), "app.kubernetes.io/managed-by": "bailiff"},
            "annotations": {TASK: key},
        },
        "spec": {"devices": {"requests": [{"name": CLAIM, "exactly": exactly}]}},
    }


def _only(devices: Collection[str], settings: KubernetesSettings) -> str:
    """CEL: these devices of the driver. A missing attribute, as of another driver's device, would be an error."""
    driver, attribute = settings.dra_driver, settings.dra_uuid_attribute
    attributes = f'device.attributes["{driver}"]'
    return f'device.driver == "{driver}" && "{attribute}" in {attributes} && {attributes}.{attribute} in {json.dumps([*devices])}'


def use_claim(pod: Object) -> None:
    """Have the pod use its claim; a device plugin gives it nothing."""
    resources = pod["spec"]["containers"][0]["resources"]
    resources["limits"] = {name: amount for name, amount in resources["limits"].items() if "/" not in name}
    resources["claims"] = [{"name": CLAIM}]
    pod["spec"]["resourceClaims"] = [{"name": CLAIM, "resourceClaimName": pod["metadata"]["name"]}]


async def create_claim(node: PodNode, order: TaskOrder, claim: Object) -> bool:
    """Create it for the pod, once. Whether it is there: one of an earlier pod of the same name is still to go."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": order.name, "uid": order.uid}
    owned = {**claim, "metadata": {**claim["metadata"], "ownerReferences": [owner]}}
    try:
        await node.api.create(RESOURCE_CLAIMS, owned, order.namespace)
    except AlreadyExists:
        found = await node.api.find(RESOURCE_CLAIMS, order.name, order.namespace)
        return found is not None and _owner(found) == order.uid
    return True


async def difference(node: PodNode, order: TaskOrder, devices: tuple[str, ...]) -> str | None:
    """Why the task must not start: it has others than it was placed on, by the kubelet's word or by that of its claim."""
    if set(devices) != set(order.devices):
        return f"the kubelet gave its pod {_names(devices)}, where it was placed on {_names(order.devices)}"
    found = await node.api.find(RESOURCE_CLAIMS, order.name, order.namespace)
    if found is None or _owner(found) != order.uid:
        return "its ResourceClaim was removed before it started"
    allocated = allocated_devices(found, node.published)
    if set(allocated) != set(order.devices):
        return f"its ResourceClaim has {_names(allocated)}, where it was placed on {_names(order.devices)}"
    return None


def allocated_devices(claim: Object, published: PublishedDevices) -> tuple[str, ...]:
    """The ids of the driver's devices that the claim has."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    found = [published.find(each["driver"], each["pool"], each["device"]) for each in results]
    return tuple(sorted(each[1] for each in found if each is not None))


def _owner(claim: Object) -> str:
    return next((str(each["uid"]) for each in claim["metadata"].get("ownerReferences") or ()), "")


def _names(devices: Collection[str]) -> str:
    return ", ".join(sorted(devices)) or "none"
