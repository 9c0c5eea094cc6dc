"""Whether tasks that share a device keep to their part of its memory, as the driver counts it by process."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from .devices import Device, DeviceInventory, DeviceUnavailable
from .devices.release import TOLERANCE
from .runtime import TaskKey


@dataclass(frozen=True, slots=True)
class Sharer:
    """One task with its part of each of its devices, and its processes."""

    key: TaskKey
    devices: tuple[str, ...]
    part: Fraction
    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OverShare:
    """A task that uses `used` bytes of a device, of which it was given `share`."""

    key: TaskKey
    device: str
    used: int
    share: int


@dataclass(slots=True)
class Sharers:
    """Tells once each time that a task goes over its share."""

    inventory: DeviceInventory
    _over: set[tuple[TaskKey, str]] = field(default_factory=set)

    def look(self, sharers: Iterable[Sharer]) -> list[OverShare]:
        """Who has gone over since the last look. A device that does not tell by process, or cannot be read, says nothing."""
        known: dict[str, Device] = {device.id: device for device in self.inventory.list()}
        over, found = set[tuple[TaskKey, str]](), list[OverShare]()
        for sharer in sharers:
            for device in sharer.devices:
                share = int(sharer.part * known[device].memory) if device in known else 0
                used = self._used(device, sharer.pids)
                if share and used > share + TOLERANCE:
                    over.add((sharer.key, device))
                    if (sharer.key, device) not in self._over:
                        found.append(OverShare(sharer.key, device, used, share))
        self._over = over
        return found

    def _used(self, device: str, pids: Iterable[int]) -> int:
        try:
            by_pid = self.inventory.usage(device).by_pid
        except DeviceUnavailable:
            return 0
        return sum(by_pid.get(pid, 0) for pid in pids)
