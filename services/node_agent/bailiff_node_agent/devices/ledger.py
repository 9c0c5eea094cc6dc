"""Ledger of GPU shares: which tasks have a part of a device, and how much. On disk, so it survives a restart of the agent."""

import json
from collections.abc import Iterable, Sequence
from fractions import Fraction

from bailiff_bus.messages.commands import TaskAssignment
from bailiff_node_agent.disk.storage import Storage

from .inventory import Device

FILE = "shares"


class ShareLedger:
    """Parts of devices, by task key. A task without an entry has its devices to itself."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        content = json.loads(storage.read(FILE) or b"{}")
        self._parts = {key: Fraction(*part) for key, part in content.items()}

    def part(self, key: str) -> Fraction | None:
        """How much of each of its devices the task has; None: all of it."""
        return self._parts.get(key)

    def add(self, key: str, part: Fraction) -> None:
        """Record the part, before the task starts."""
        self._parts[key] = part
        self._write()

    def remove(self, key: str) -> None:
        """Free the part of a task that no longer exists."""
        if self._parts.pop(key, None) is not None:
            self._write()

    def exceeds(self, part: Fraction | None, others: Iterable[str]) -> bool:
        """Whether a device has too little free for `part` (None: all of it) in addition to these tasks."""
        used = [self._parts.get(key) for key in others]
        return bool(used) and (part is None or None in used or sum((one for one in used if one), part) > 1)

    def _write(self) -> None:
        content = {key: [part.numerator, part.denominator] for key, part in self._parts.items()}
        self._storage.replace(FILE, json.dumps(content).encode())


def part_of(task: TaskAssignment, devices: Sequence[Device]) -> Fraction | None:
    """How much of each of its devices the task gets: the largest part, where they differ. None: all of each."""
    if task.gpu_share_milli is not None:
        return Fraction(task.gpu_share_milli, 1000)
    if task.gpu_share_bytes is None:
        return None
    memory = min((device.memory for device in devices if device.id in task.devices), default=0)
    return Fraction(task.gpu_share_bytes, max(1, memory))
