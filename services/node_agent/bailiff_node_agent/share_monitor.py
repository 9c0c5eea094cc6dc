"""Whether tasks that share a device keep to their part of its memory, as the driver counts it by process."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from bailiff_node_agent.devices.release import TOLERANCE

from .devices import Device, DeviceInventory, DeviceUnavailable
from .runtime import TaskKey


@dataclass(frozen=True, slots=True)
class SharingTask:
    """One task with its part of each of its devices, and its processes."""

    key: TaskKey
    devices: tuple[str, ...]
    part: Fraction
    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShareExceeded:
    """A task uses `used` bytes of a device, and its share is `share` bytes."""

    key: TaskKey
    device: str
    used: int
    share: int


@dataclass(slots=True)
class ShareMonitor:
    """Reports a task once each time that it exceeds its share."""

    inventory: DeviceInventory
    _over: set[tuple[TaskKey, str]] = field(default_factory=set)
    _outside: set[TaskKey] = field(default_factory=set)

    def check(self, tasks: Iterable[SharingTask]) -> list[ShareExceeded]:
        """Tasks that exceed their share since the last check. Devices without usage by process are skipped."""
        known: dict[str, Device] = {device.id: device for device in self.inventory.list()}
        over, found = set[tuple[TaskKey, str]](), list[ShareExceeded]()
        for task in tasks:
            for device in task.devices:
                share = int(task.part * known[device].memory) if device in known else 0
                used = self._used(device, task.pids)
                if share and used > share + TOLERANCE:
                    over.add((task.key, device))
                    if (task.key, device) not in self._over:
                        found.append(ShareExceeded(task.key, device, used, share))
        self._over = over
        return found

    def outside_of_mps(self, tasks: Sequence[SharingTask]) -> list[TaskKey]:
        """Tasks with a process that uses a device, but not through MPS, which would hold it to its limits; each once."""
        self._outside &= {task.key for task in tasks}
        found = list[TaskKey]()
        for task in tasks:
            if task.key not in self._outside and any(self._outside_of_mps(device, task.pids) for device in task.devices):
                self._outside.add(task.key)
                found.append(task.key)
        return found

    def _outside_of_mps(self, device: str, pids: Iterable[int]) -> bool:
        try:
            usage = self.inventory.usage(device)
        except DeviceUnavailable:
            return False
        return usage.mps_clients is not None and bool({*pids} & {*usage.pids} - {*usage.mps_clients})

    def _used(self, device: str, pids: Iterable[int]) -> int:
        try:
            by_pid = self.inventory.usage(device).by_pid
        except DeviceUnavailable:
            return 0
        return sum(by_pid.get(pid, 0) for pid in pids)
