"""What is known of a device, whoever knows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol


class NoDriver(Exception):
    """Real GPUs were asked for on a machine that has no working NVIDIA driver."""


class DeviceUnavailable(Exception):
    """The device cannot be read: unknown, or it has fallen off the bus."""


@dataclass(frozen=True)
class Device:
    index: int
    id: str
    kind: Literal["gpu"]
    model: str
    memory: int
    """In bytes."""
    parent: str | None
    healthy: bool
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DeviceUsage:
    memory_used: int
    pids: tuple[int, ...]
    """In rising order."""


class DeviceInventory(Protocol):
    def list(self) -> list[Device]: ...

    def usage(self, device_id: str) -> DeviceUsage: ...
