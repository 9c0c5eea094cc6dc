"""Simulated GPUs, for scale tests, demos and machines without one. Faults can be injected.

Faults are in a file that is read whenever it has changed, by device index:
`{"0": {"leak_bytes": 1073741824}, "1": {"hang": true}, "2": {"dead": true}, "3": {"xid": 79}, "4": {"use_bytes": 1}}`.
`python -m bailiff_devstack.simulated_node FILE DEVICE FAULT` writes it. `{"gpus": "6xH100-80GB:3g.40gb"}` are other devices than
the node's setting says, as when an administrator partitions its cards.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from bailiff_node_agent.devices import Device, DeviceInventory, DeviceProblem, DeviceUnavailable, DeviceUsage
from bailiff_node_agent.runtime.supervisor.processes import read_process

from .spec import MIG_ID, parse
from .tasks import SimulatedMachine


def identity_of(pid: int) -> int | None:
    """When the process of this pid started, in clock ticks since boot; None if it is not running."""
    process = read_process(pid)
    return None if process is None else process.started


class SimulatedInventory(DeviceInventory):
    """identify: identity of a pid's process, None once it has exited, so that a reused pid uses no device.

    Faults of a device: `leak_bytes` are in use without a process; with `hang` every process stays attached to it; with `dead` it
    cannot be read; `xid` is reported once; `use_bytes` is the memory that each process uses, instead of all. `busy_percent` is
    its utilization, which is unknown otherwise. machine: whose simulated tasks use the devices.
    """

    def __init__(
        self,
        name: str,
        node: str,
        identify: Callable[[int], int | None] = identity_of,
        faults: Path | None = None,
        machine: SimulatedMachine | None = None,
    ) -> None:
        self._name = self._spec = name
        self._node, self.machine = node, machine
        self._devices = {device.id: device for device in parse(name, node)}
        self._identify = identify
        self._processes: dict[str, dict[int, int]] = {device: {} for device in self._devices}
        self._faults: dict[str, dict[str, Any]] = {}
        self._file, self._read_at = faults, 0
        self._xids: dict[str, int | None] = {}

    @property
    def users(self) -> "SimulatedInventory":
        """This inventory itself records which process uses which device."""
        return self

    def list(self) -> list[Device]:
        self._read()
        return [*self._devices.values()]

    def usage(self, device_id: str) -> DeviceUsage:
        self._read()
        if device_id.startswith(MIG_ID) and device_id not in self._devices:
            return DeviceUsage(0, ())
        device, fault = self._known(device_id), self._faults.get(device_id, {})
        if fault.get("dead"):
            raise DeviceUnavailable(f"device {device_id} cannot be read: GPU is lost")
        processes = self._processes[device_id]
        pids = tuple(sorted(pid for pid, identity in processes.items() if fault.get("hang") or self._identify(pid) == identity))
        each = fault.get("use_bytes")
        used = device.memory if pids else 0
        by_pid = {}
        if each is not None:
            used, by_pid = each * len(pids), dict.fromkeys(pids, each)
        return DeviceUsage(min(device.memory, used + fault.get("leak_bytes", 0)), pids, by_pid)

    def utilization(self, device_id: str) -> int | None:
        self._read()
        busy = self._faults.get(device_id, {}).get("busy_percent")
        return busy if isinstance(busy, int) else None

    def problems(self) -> dict[str, DeviceProblem]:
        self._read()
        found = {}
        for device_id, device in self._devices.items():
            fault = self._faults.get(device_id, {})
            xid = fault.get("xid")
            if fault.get("dead"):
                found[device_id] = DeviceProblem("lost", "the driver cannot reach it: GPU is lost")
            elif not device.healthy:
                found[device_id] = DeviceProblem("driver", "marked unhealthy")
            elif xid is not None and self._xids.get(device_id) != xid:
                found[device_id] = DeviceProblem("xid", "simulated", xid, lasts=True)
            self._xids[device_id] = xid
        return found

    def fail(self, device_id: str, **fault: Any) -> None:
        """Replace the device's faults; without arguments, heal it."""
        self._faults[self._known(device_id).id] = fault

    def injected_faults(self, device_id: str) -> dict[str, Any]:
        """The device's present faults."""
        self._read()
        return self._faults.get(device_id, {})

    def attach(self, device_id: str, pid: int) -> None:
        self._known(device_id)
        identity = self._identify(pid)
        if identity is not None:
            self._processes[device_id][pid] = identity

    def detach(self, device_id: str, pid: int) -> None:
        if not self._faults.get(device_id, {}).get("hang"):
            self._processes.get(device_id, {}).pop(pid, None)

    def set_health(self, device_id: str, *, healthy: bool) -> None:
        """Mark the device as broken or repaired."""
        self._devices[device_id] = replace(self._known(device_id), healthy=healthy)

    def _read(self) -> None:
        """Read the file of faults if it has changed. A malformed one is ignored."""
        if self._file is None:
            return
        try:
            changed = self._file.stat().st_mtime_ns
            if changed == self._read_at:
                return
            content, self._read_at = json.loads(self._file.read_bytes()), changed
        except (OSError, ValueError):
            return
        self._partition(content.get("gpus", self._name))
        by_number = {str(device.index): device.id for device in self._devices.values()}
        self._faults = {by_number[number]: fault for number, fault in content.items() if number in by_number}

    def _partition(self, spec: object) -> None:
        """Have the devices of this setting; a malformed one is ignored. Devices that stay keep their processes."""
        if spec == self._spec or not isinstance(spec, str):
            return
        try:
            devices = parse(spec, self._node)
        except ValueError:
            return
        self._spec, self._devices = spec, {device.id: device for device in devices}
        self._processes = {device: self._processes.get(device, {}) for device in self._devices}

    def _known(self, device_id: str) -> Device:
        try:
            return self._devices[device_id]
        except KeyError:
            raise DeviceUnavailable(f"there is no device {device_id} on this node") from None
