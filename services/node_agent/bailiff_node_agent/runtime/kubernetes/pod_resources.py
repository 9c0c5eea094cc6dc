"""The kubelet's pod-resources API: which devices this node has, and which pod holds which. The kubelet alone decides that.

The messages are those of k8s.io/kubelet/pkg/apis/podresources/v1, as far as they are read here.
"""

import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TIMEOUT_S = RETRY_S = 5.0
"""A kubelet that lets a call wait for so long is not called again before the same time has passed."""
MAX_BYTES = 64 << 20
RECONNECT_MS = 1000
"""At most, after a kubelet was away for however long."""
MIG_RESOURCE = "mig-"
"""Begins the name of a resource of MIG devices, after the vendor, as NVIDIA's device plugin offers them; the profile follows."""


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
    """A connection to one kubelet's socket. Calls block for milliseconds, at most `TIMEOUT_S`."""

    def __init__(self, socket: Path) -> None:
        import grpc  # late: only nodes with this runtime need it

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
        return [
            PodDevices(pod.namespace, pod.name, devices.resource_name, tuple(devices.device_ids))
            for pod in self._call(self._list).pod_resources
            for container in pod.containers
            for devices in container.devices
        ]

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
        """The resource of each healthy device."""
        answer = self._call(self._allocatable)
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
    types: dict[str, list[tuple[str, int, int, str]]] = {
        "ContainerDevices": [("resource_name", single, text, ""), ("device_ids", repeated, text, "")],
        "ContainerResources": [("name", single, text, ""), ("devices", repeated, nested, "ContainerDevices")],
        "PodResources": [
            ("name", single, text, ""),
            ("namespace", single, text, ""),
            ("containers", repeated, nested, "ContainerResources"),
        ],
        "ListPodResourcesResponse": [("pod_resources", repeated, nested, "PodResources")],
        "AllocatableResourcesResponse": [("devices", repeated, nested, "ContainerDevices")],
    }
    for name, fields in types.items():
        message = file.message_type.add(name=name)
        for number, (field, label, kind, of) in enumerate(fields, 1):
            message.field.add(name=field, number=number, label=label, type=kind, type_name=f".v1.{of}" if of else None)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{name}")) for name in types}
