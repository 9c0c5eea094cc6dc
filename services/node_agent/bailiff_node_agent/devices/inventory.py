"""The inventory port: a node's devices, their usage and health, for every kind of driver."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from bailiff_core.records.facts import MAX_DEVICES
from bailiff_node_agent.runtime import DeviceUsers, Pod

Seen = TypeVar("Seen")


class NoDriver(Exception):
    """Real GPUs were requested on a machine without a working NVIDIA driver."""


class DeviceUnavailable(Exception):
    """The device cannot be read: it is unknown, or has fallen off the bus."""


@dataclass(frozen=True)
class Device:
    index: int
    id: str
    kind: Literal["gpu", "mig"]
    model: str
    memory: int
    """In bytes."""
    parent: str | None
    healthy: bool
    labels: Mapping[str, str] = field(default_factory=dict)
    profile: str = ""
    """Of a MIG device, such as `3g.40gb`; its card is `parent`."""
    island: str = ""
    """The same for GPUs of the node that NVLink, or one PCIe switch, connects."""


@dataclass(frozen=True)
class DeviceUsage:
    memory_used: int
    pids: tuple[int, ...]
    """Ascending."""
    by_pid: Mapping[int, int] = field(default_factory=dict)
    """Bytes of device memory by process, where the driver counts them."""
    mps_clients: tuple[int, ...] | None = None
    """The processes that use it through MPS; None where the driver does not list them."""
    pods: tuple[Pod, ...] = ()
    """The pods that have it, where a kubelet gives it out."""


@dataclass(frozen=True)
class DeviceProblem:
    """A fault of a device. lasts: an event that is reported once and stays in effect until an operator clears the device."""

    reason: Literal["xid", "ecc", "row-remap", "lost", "driver"]
    detail: str
    code: int | None = None
    lasts: bool = False


class DeviceInventory:
    """A node's devices; as it stands, of a node without any. Every kind of driver has a subclass.

    blocking: calls may block for a while, so they belong into a thread. users: receives which process uses which device;
    None where the driver counts usage by process itself. chooser: the runtime that chooses which devices a task gets; None where
    the log does.
    """

    blocking = False
    chooser: str | None = None

    @property
    def users(self) -> DeviceUsers | None:
        return None

    def list(self) -> list[Device]:
        """All devices. A MIG device that no longer exists, or a card that was partitioned, is left out."""
        return []

    def usage(self, device_id: str) -> DeviceUsage:
        """What uses the device: nothing, if it is a MIG device that no longer exists."""
        raise DeviceUnavailable(f"there is no device {device_id} on this node")

    def utilization(self, device_id: str) -> int | None:  # noqa: ARG002
        """The device's present utilization in percent; None where it is not measured."""
        return None

    def problems(self) -> dict[str, DeviceProblem]:
        """What is wrong now, by device, and events since the last call."""
        return {}

    def holders(self) -> dict[str, frozenset[Pod]]:
        """The pods that hold each device, where a kubelet gives them out, whosever they are: several where they share it.

        Raises `OSError`.
        """
        return {}

    def away(self) -> str:
        """Why the inventory cannot give out its devices now; empty: it can."""
        return ""

    def accept(self, device_id: str) -> None:
        """An operator vouches that the device is free, whatever the inventory doubts."""


def check_count(count: int) -> None:
    """Raises `ValueError` if one node cannot have so many devices."""
    if count > MAX_DEVICES:
        raise ValueError(f"gpus: {count} GPUs are too many for one node, which has at most {MAX_DEVICES}: declare several nodes")


async def query(inventory: DeviceInventory, call: Callable[..., Seen], *arguments: Any) -> Seen:
    """The call's result, from a thread where the inventory may block."""
    return await asyncio.to_thread(call, *arguments) if inventory.blocking else call(*arguments)
