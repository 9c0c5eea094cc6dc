"""GPUs that are only names, for scale tests, demos and machines without one. They can be made to fail.

Faults are told in a file that is read whenever it has changed, by device number:
`{"0": {"leak_bytes": 1073741824}, "1": {"hang": true}, "2": {"dead": true}, "3": {"xid": 79}, "4": {"use_bytes": 1}}`.
`python -m bailiff_node_agent.devices FILE DEVICE FAULT` writes it.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from bailiff_node_agent.devices.inventory import Device, DeviceUnavailable, DeviceUsage, Trouble

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


FAULTS = ("leak_bytes", "hang", "dead", "xid", "use_bytes", "busy_percent")


class SimulatedInventory:
    """`identify` says which process a pid is, or None when it is gone: a pid that is used again holds nothing.

    Of a device, `leak_bytes` are in use whoever is on it; where it hangs, who was on it never leaves it; where it is dead, it
    cannot be read; `xid` happens once; `use_bytes` is what each process on it uses, instead of all of it. `busy_percent` is how
    busy it is, which otherwise nobody can tell.
    """

    slow = False

    def __init__(
        self,
        name: str,
        node: str,
        identify: Callable[[int], int | None] = start_of_process,
        faults: Path | None = None,
    ) -> None:
        self._devices = {device.id: device for device in parse(name, node)}
        self._identify = identify
        self._holders: dict[str, dict[int, int]] = {device: {} for device in self._devices}
        self._faults: dict[str, dict[str, Any]] = {}
        self._file, self._read_at = faults, 0
        self._told: dict[str, int | None] = {}

    def list(self) -> list[Device]:
        return [*self._devices.values()]

    def usage(self, device_id: str) -> DeviceUsage:
        self._read()
        device, fault = self._known(device_id), self._faults.get(device_id, {})
        if fault.get("dead"):
            raise DeviceUnavailable(f"device {device_id} cannot be read: GPU is lost")
        holders = self._holders[device_id]
        pids = tuple(sorted(pid for pid, identity in holders.items() if fault.get("hang") or self._identify(pid) == identity))
        each = fault.get("use_bytes")
        used = device.memory if pids else 0
        by_pid = {}
        if each is not None:
            used, by_pid = each * len(pids), dict.fromkeys(pids, each)
        return DeviceUsage(min(device.memory, used + fault.get("leak_bytes", 0)), pids, by_pid)

    def busy(self, device_id: str) -> int | None:
        self._read()
        busy = self._faults.get(device_id, {}).get("busy_percent")
        return busy if isinstance(busy, int) else None

    def troubles(self) -> dict[str, Trouble]:
        self._read()
        found = {}
        for device_id, device in self._devices.items():
            fault = self._faults.get(device_id, {})
            xid = fault.get("xid")
            if fault.get("dead"):
                found[device_id] = Trouble("lost", "the driver cannot reach it: GPU is lost")
            elif not device.healthy:
                found[device_id] = Trouble("driver", "it was said to be broken")
            elif xid is not None and self._told.get(device_id) != xid:
                found[device_id] = Trouble("xid", "simulated", xid, lasts=True)
            self._told[device_id] = xid
        return found

    def fail(self, device_id: str, **fault: Any) -> None:
        """What is wrong with the device from now on; nothing, without any."""
        self._faults[self._known(device_id).id] = fault

    def faults_of(self, device_id: str) -> dict[str, Any]:
        """What is wrong with the device now."""
        self._read()
        return self._faults.get(device_id, {})

    def hold(self, device_id: str, pid: int) -> None:
        self._known(device_id)
        identity = self._identify(pid)
        if identity is not None:
            self._holders[device_id][pid] = identity

    def let_go(self, device_id: str, pid: int) -> None:
        if not self._faults.get(device_id, {}).get("hang"):
            self._holders.get(device_id, {}).pop(pid, None)

    def set_health(self, device_id: str, *, healthy: bool) -> None:
        """A GPU that breaks, or is repaired, in a story."""
        self._devices[device_id] = replace(self._known(device_id), healthy=healthy)

    def _read(self) -> None:
        """Look whether the file has changed. One that says nothing clear is as if it were not there."""
        if self._file is None:
            return
        try:
            changed = self._file.stat().st_mtime_ns
            if changed == self._read_at:
                return
            content, self._read_at = json.loads(self._file.read_bytes()), changed
        except (OSError, ValueError):
            return
        by_number = {str(device.index): device.id for device in self._devices.values()}
        self._faults = {by_number[number]: fault for number, fault in content.items() if number in by_number}

    def _known(self, device_id: str) -> Device:
        try:
            return self._devices[device_id]
        except KeyError:
            raise DeviceUnavailable(f"there is no device {device_id} here") from None
