"""Who shares which devices, and how much of them each has: kept on disk, so that the next agent knows it too."""

import json
from collections.abc import Iterable, Sequence
from fractions import Fraction

from bailiff_bus.messages import TaskAt
from bailiff_node_agent.devices.inventory import Device
from bailiff_node_agent.disk.storage import Storage

FILE = "shares"


class ShareLedger:
    """Parts of devices by task key. A task without an entry has its devices whole."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        content = json.loads(storage.read(FILE) or b"{}")
        self._parts = {key: Fraction(*part) for key, part in content.items()}

    def part(self, key: str) -> Fraction | None:
        """How much of each of its devices the task has; `None`: all of it."""
        return self._parts.get(key)

    def enter(self, key: str, part: Fraction) -> None:
        """The task is about to start with so much."""
        self._parts[key] = part
        self._write()

    def strike(self, key: str) -> None:
        """The task is gone."""
        if self._parts.pop(key, None) is not None:
            self._write()

    def too_much(self, part: Fraction | None, others: Iterable[str]) -> bool:
        """Whether a device on which these tasks are has not as much left."""
        taken = [self._parts.get(key) for key in others]
        return bool(taken) and (part is None or None in taken or sum((one for one in taken if one), part) > 1)

    def _write(self) -> None:
        content = {key: [part.numerator, part.denominator] for key, part in self._parts.items()}
        self._storage.replace(FILE, json.dumps(content).encode())


def part_of(task: TaskAt, devices: Sequence[Device]) -> Fraction | None:
    """How much of each of its devices the task is given: the largest part, where they differ. `None`: all of them, whole."""
    if task.gpu_share_milli is not None:
        return Fraction(task.gpu_share_milli, 1000)
    if task.gpu_share_bytes is None:
        return None
    memory = min((device.memory for device in devices if device.id in task.devices), default=0)
    return Fraction(task.gpu_share_bytes, max(1, memory))
