"""Tasks whose GPUs do nothing, as the driver counts it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from .devices import DeviceInventory
from .runtime import TaskKey

TOLD_AFTER_S = 60.0


@dataclass(frozen=True, slots=True)
class Activity:
    """What changed: a task's GPUs have done nothing for so long, or work again."""

    key: TaskKey
    idle: bool
    seconds: float


@dataclass(slots=True)
class Idleness:
    """Tells once when all of a task's GPUs have done nothing for `told_after_s`, and once when any works again."""

    inventory: DeviceInventory
    told_after_s: float = TOLD_AFTER_S
    _since: dict[TaskKey, float] = field(default_factory=dict)
    _told: set[TaskKey] = field(default_factory=set)

    def look(self, tasks: Iterable[tuple[TaskKey, tuple[str, ...]]], now: float) -> list[Activity]:
        """What changed since the last look. now: s, on a steady clock. Where nobody can tell, a task counts as busy."""
        found, since, told = [], dict[TaskKey, float](), set[TaskKey]()
        for key, devices in tasks:
            idle = bool(devices) and all(self.inventory.busy(device) == 0 for device in devices)
            if idle:
                since[key] = self._since.get(key, now)
                lasted = now - since[key]
                if key in self._told or lasted >= self.told_after_s:
                    told.add(key)
                    if key not in self._told:
                        found.append(Activity(key, idle=True, seconds=lasted))
            elif key in self._told:
                found.append(Activity(key, idle=False, seconds=0.0))
        self._since, self._told = since, told
        return found
