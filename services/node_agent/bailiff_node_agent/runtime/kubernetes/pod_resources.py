"""The kubelet's pod-resources API: which devices this node has, and which pod holds which, through a device plugin or a claim.

The messages are those of k8s.io/kubelet/pkg/apis/podresources/v1, as far as they are read here.
"""

import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .published import PublishedDevices

TIMEOUT_S = RETRY_S = 5.0
"""A kubelet that lets a call wait for so long is not called again before the same time has passed."""
MAX_BYTES = 64 << 20
RECONNECT_MS = 1000
"""At most, after a kubelet was away for however long."""


class KubeletUnavailable(OSError):
    """The kubelet does not answer; who holds a device is then unknown."""


@dataclass(frozen=True)
class PodDevices:
    """Devices of one resource that a pod's container holds."""

    namespace: str
    pod: str
    resource: str
    devices: tuple[str, ...]


class PodResources:
    """A connection to one kubelet's socket. Calls block for milliseconds, at most `TIMEOUT_S`.

    published: names the devices of claims; without it, only those of device plugins are seen.
    """

    def __init__(self, socket: Path, published: "PublishedDevices | None" = None) -> None:
        import grpc  # late: only nodes with this runtime need it

        self._published = published
        self._errors: type[Exception] = grpc.RpcError
        self._channel = grpc.insecure_channel(
            f"unix://{socket.absolute()}",
            options=[("grpc.max_receive_message_length", MAX_BYTES), ("grpc.max_reconnect_backoff_ms", RECONNECT_MS)],
        )
        self._problem, self._retry_at = "", 0.0
        self._list = self._method("List", "ListPodResourcesResponse")
        self._allocatable = self._method("GetAllocatableResources", "AllocatableResourcesResponse")

    def pod_devices(self) -> list[PodDevices]:
        """What every pod holds now."""
        found: list[PodDevices] = []
        for pod in self._call(self._list).pod_resources:
            for container in pod.containers:
                held = [(each.resource_name, tuple(each.device_ids)) for each in container.devices]
                held += [(resource, (device,)) for resource, device in self._claimed(container)]
                found += [PodDevices(pod.namespace, pod.name, *each) for each in held]
        return found

    def _claimed(self, container: Any) -> list[tuple[str, str]]:
        """Resource and id of each device that the container has through claims, of those of the node's GPU driver."""
        if self._published is None:
            return []
        claimed = [each for claim in container.dynamic_resources for each in claim.claim_resources]
        found = [self._published.find(each.driver_name, each.pool_name, each.device_name) for each in claimed]
        return [each for each in found if each is not None]

    def devices_of(self, namespace: str, pod: str, prefix: str = "") -> tuple[str, ...]:
        """The devices of one pod, of resources whose names begin so, in order."""
        found = {
            device
            for held in self.pod_devices()
            if (held.namespace, held.pod) == (namespace, pod) and held.resource.startswith(prefix)
            for device in held.devices
        }
        return tuple(sorted(found))

    def allocatable(self) -> dict[str, str]:
        """The resource of each healthy device: of those that a DRA driver publishes, where one does."""
        answer = self._call(self._allocatable)
        if self._published is not None and self._published.are_exact:
            return self._published.healthy()
        return {device: devices.resource_name for devices in answer.devices for device in devices.device_ids}

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def _method(self, name: str, response: str) -> Any:
        return self._channel.unary_unary(
            f"/v1.PodResourcesLister/{name}",
            request_serializer=lambda request: request,
            response_deserializer=_messages()[response].FromString,
        )

    def _call(self, method: Any) -> Any:
        if time.monotonic() < self._retry_at:
            raise KubeletUnavailable(self._problem)
        try:
            return method(b"", timeout=TIMEOUT_S)
        except self._errors as error:
            code, details = error.code(), error.details()  # type: ignore[attr-defined] # the errors of calls have them
            self._problem = f"the kubelet's pod-resources API: {code.name}: {details}"
            if code.name == "DEADLINE_EXCEEDED":
                self._retry_at = time.monotonic() + RETRY_S
            raise KubeletUnavailable(self._problem) from None


@cache
def _messages() -> dict[str, Any]:
    """The message types, by name."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    text, nested = descriptor_pb2.FieldDescriptorProto.TYPE_STRING, descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
    single, repeated = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL, descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
    file = descriptor_pb2.FileDescriptorProto(name="bailiff/podresources.proto", package="v1", syntax="proto3")
    types: dict[str, list[tuple[int, str, int, int, str]]] = {
        "ContainerDevices": [(1, "resource_name", single, text, ""), (2, "device_ids", repeated, text, "")],
        "ClaimResource": [
            (2, "driver_name", single, text, ""),
            (3, "pool_name", single, text, ""),
            (4, "device_name", single, text, ""),
        ],
        "DynamicResource": [(4, "claim_resources", repeated, nested, "ClaimResource")],
        "ContainerResources": [
            (1, "name", single, text, ""),
            (2, "devices", repeated, nested, "ContainerDevices"),
            (5, "dynamic_resources", repeated, nested, "DynamicResource"),
        ],
        "PodResources": [
            (1, "name", single, text, ""),
            (2, "namespace", single, text, ""),
            (3, "containers", repeated, nested, "ContainerResources"),
        ],
        "ListPodResourcesResponse": [(1, "pod_resources", repeated, nested, "PodResources")],
        "AllocatableResourcesResponse": [(1, "devices", repeated, nested, "ContainerDevices")],
    }
    for name, fields in types.items():
        message = file.message_type.add(name=name)
        for number, field, label, kind, of in fields:
            message.field.add(name=field, number=number, label=label, type=kind, type_name=f".v1.{of}" if of else None)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{name}")) for name in types}
