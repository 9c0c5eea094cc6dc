"""GPUs that are only names, for scale tests, demos and machines without one."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bailiff_node_agent.devices.inventory import Device, DeviceUnavailable, DeviceUsage

_NAME = re.compile(r"(?P<count>[1-9]\d*)x(?P<model>[A-Za-z0-9]+-(?P<gib>[1-9]\d*)GB)")


def parse(name: str, node: str) -> list[Device]:
    """`8xH100-80GB` is eight of them; `0` is a machine without a GPU."""
    if name == "0":
        return []
    found = _NAME.fullmatch(name)
    if not found:
        raise ValueError(f"{name!r} names no simulated GPUs; write them as 8xH100-80GB, or 0 for none")
    return [
        Device(
            index=index,
            id=f"GPU-sim-{node}-{index}",
            kind="gpu",
            model=found["model"],
            memory=int(found["gib"]) << 30,
            parent=None,
            healthy=True,
            labels={"simulated": "true"},
        )
        for index in range(int(found["count"]))
    ]


def start_of_process(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None where it does not live (any more)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *rest = stat[stat.rindex(b")") + 2 :].split()
    return None if state in (b"Z", b"X") else int(rest[18])


class SimulatedInventory:
    """`identify` says which process a pid is, or None when it is gone: a pid that is used again holds nothing."""

    def __init__(self, name: str, node: str, identify: Callable[[int], int | None] = start_of_process) -> None:
        self._devices = {device.id: device for device in parse(name, node)}
        self._identify = identify
        self._holders: dict[str, dict[int, int]] = {device: {} for device in self._devices}

    def list(self) -> list[Device]:
        return [*self._devices.values()]

    def usage(self, device_id: str) -> DeviceUsage:
        device = self._known(device_id)
        holders = self._holders[device_id]
        pids = tuple(sorted(pid for pid, identity in holders.items() if self._identify(pid) == identity))
        return DeviceUsage(memory_used=device.memory if pids else 0, pids=pids)

    def hold(self, device_id: str, pid: int) -> None:
        self._known(device_id)
        identity = self._identify(pid)
        if identity is not None:
            self._holders[device_id][pid] = identity

    def let_go(self, device_id: str, pid: int) -> None:
        self._holders.get(device_id, {}).pop(pid, None)

    def set_health(self, device_id: str, *, healthy: bool) -> None:
        """A GPU that breaks, or is repaired, in a story."""
        self._devices[device_id] = replace(self._known(device_id), healthy=healthy)

    def _known(self, device_id: str) -> Device:
        try:
            return self._devices[device_id]
        except KeyError:
            raise DeviceUnavailable(f"there is no device {device_id} here") from None
