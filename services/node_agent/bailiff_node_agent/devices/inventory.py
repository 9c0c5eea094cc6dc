"""What is known of a device, whoever knows it."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

Seen = TypeVar("Seen")


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
    by_pid: Mapping[int, int] = field(default_factory=dict)
    """Bytes of device memory by process, where the driver tells."""


@dataclass(frozen=True)
class Trouble:
    """Something wrong with a device. `lasts`: an event that is told once, and stands until the device is looked after."""

    reason: Literal["xid", "ecc", "row-remap", "lost", "driver"]
    detail: str
    code: int | None = None
    lasts: bool = False


class DeviceInventory(Protocol):
    slow: bool
    """Whether a look may block for a while, so that it belongs into a thread."""

    def list(self) -> list[Device]: ...

    def usage(self, device_id: str) -> DeviceUsage: ...

    def busy(self, device_id: str) -> int | None:
        """How busy it was just now, in percent; None where that cannot be told."""
        ...

    def troubles(self) -> dict[str, Trouble]:
        """What is wrong now, by device, together with events since the last call."""
        ...


async def looked(inventory: DeviceInventory, look: Callable[..., Seen], *about: Any) -> Seen:
    """What the look shows, from a thread of its own where it may block."""
    return await asyncio.to_thread(look, *about) if inventory.slow else look(*about)
