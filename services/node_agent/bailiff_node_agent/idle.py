"""Tasks whose GPUs are idle, by the driver's utilization."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from .devices import DeviceInventory
from .runtime import TaskKey

REPORT_AFTER_S = 60.0


@dataclass(frozen=True, slots=True)
class IdleChange:
    """A task's GPUs have been idle for this time, or are busy again."""

    key: TaskKey
    idle: bool
    seconds: float


@dataclass(slots=True)
class IdleMonitor:
    """Reports a task once when all of its GPUs have been idle for `report_after_s`, and once when one is busy again."""

    inventory: DeviceInventory
    report_after_s: float = REPORT_AFTER_S
    _since: dict[TaskKey, float] = field(default_factory=dict)
    _reported: set[TaskKey] = field(default_factory=set)

    def check(self, tasks: Iterable[tuple[TaskKey, tuple[str, ...]]], now: float) -> list[IdleChange]:
        """Changes since the last check. now: s, monotonic. A GPU of unknown utilization counts as busy."""
        changes, since, reported = [], dict[TaskKey, float](), set[TaskKey]()
        for key, devices in tasks:
            idle = bool(devices) and all(self.inventory.utilization(device) == 0 for device in devices)
            if idle:
                since[key] = self._since.get(key, now)
                lasted = now - since[key]
                if key in self._reported or lasted >= self.report_after_s:
                    reported.add(key)
                    if key not in self._reported:
                        changes.append(IdleChange(key, idle=True, seconds=lasted))
            elif key in self._reported:
                changes.append(IdleChange(key, idle=False, seconds=0.0))
        self._since, self._reported = since, reported
        return changes
