"""Devices of this node that no task may get: quarantined ones until they are seen to be free, unhealthy ones until they work.

The list is on disk, so that a restart of the agent clears nothing. Changes are reported, and admission records them; the agent
itself checks this list before each start.
"""

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bailiff_bus.messages.devices import DeviceClearedReport, DeviceHealthyReport, DeviceQuarantinedReport, DeviceUnhealthyReport
from bailiff_bus.messages.reports import QuarantinedDevice
from bailiff_core.records.facts import DeviceInfo, QuarantineReason
from bailiff_core.records.facts import DeviceReading as ReadingFact
from bailiff_node_agent.devices.release import TOLERANCE, ReleaseProof
from bailiff_node_agent.devices.system_programs import is_system_program, process_name
from bailiff_service.logs import logger

from .devices import Device, DeviceInventory, DeviceProblem, DeviceReading, query, read_devices
from .disk import Storage
from .runtime import Pod

FILE = "quarantine"
IDLE_MEMORY_LIMIT = 768 << 20
"""Bytes that a driver may reserve on an unused device; more belongs to a process."""

Report = Callable[..., Any]


TaskOfJob = tuple[str | None, int | None, int | None]
"""Job, attempt and task."""


@dataclass(frozen=True, slots=True)
class LastUser:
    """The task that used a device last, the processes that were seen to be its own, and its pod."""

    job: str | None = None
    attempt: int | None = None
    task: int | None = None
    pids: tuple[int, ...] = ()
    pod: Pod | None = None


@dataclass(slots=True)
class DeviceQuarantine:
    """Of one node. holders: by device, its tasks that are not released. report: spools a report.

    reported: the devices in the last inventory.
    """

    inventory: DeviceInventory
    storage: Storage
    boot_id: str
    report: Report
    holders: Callable[[], Mapping[str, set[TaskOfJob]]]
    baseline: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, QuarantinedDevice] = field(default_factory=dict)
    reported: tuple[str, ...] = ()
    _pids: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _pods: dict[str, Pod] = field(default_factory=dict)
    """With `_pids`, whose end a quarantined device waits for, also where others share it."""
    _unhealthy: dict[str, DeviceProblem] = field(default_factory=dict)
    _allowed_pids: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _allowed_memory: dict[str, int] = field(default_factory=dict)
    _written: bytes = b""

    def __post_init__(self) -> None:
        self._written = self.storage.read(FILE) or b"{}"
        content = json.loads(self._written)
        for entry in content.get("quarantined", ()):
            found = QuarantinedDevice.model_validate_json(json.dumps(entry["found"]))
            pod = entry.get("pod")
            self._add(found, LastUser(pids=tuple(entry["pids"]), pod=None if pod is None else (pod[0], pod[1])))
        if content.get("boot_id") == self.boot_id:  # a reboot resets problems that were reported as events
            self._unhealthy = {device: DeviceProblem(**problem) for device, problem in content.get("unhealthy", {}).items()}
            self._allowed_memory = dict(content.get("allowed_memory", {}))
            self._allowed_pids = {device: tuple(pids) for device, pids in content.get("allowed_pids", {}).items()}

    def start(self) -> None:
        """Before the first inventory: memory in use on unused devices is their baseline, unless a foreign process uses it."""
        self._unhealthy |= self.inventory.problems()
        self._measure_baseline([device.id for device in self.inventory.list()])

    def devices_changed(self, present: Collection[str]) -> None:
        """The node has other devices than it reported, as after an administrator has partitioned a card."""
        self._unhealthy = {device: problem for device, problem in self._unhealthy.items() if device in present}
        self._measure_baseline(device for device in present if device not in self.reported)

    def _measure_baseline(self, devices: Iterable[str]) -> None:
        in_use = self.holders()
        free = [device for device in devices if device not in in_use]
        for reading in read_devices(self.inventory, free):
            foreign = self._foreign(reading)
            if reading.device_id in self.quarantined or reading.pods:
                continue  # whose a pod is, `watch_foreign_pods` finds out: it may be a task that is about to start
            if foreign:
                self._add(
                    _quarantined(reading, "foreign", f"{_pid_names(foreign)} not started by this node", 0), LastUser(pids=foreign)
                )
            elif reading.in_use is not None and reading.in_use > self._allowed_memory.get(reading.device_id, IDLE_MEMORY_LIMIT):
                self._add(
                    _quarantined(reading, "foreign", f"{reading.in_use >> 20} MiB are in use by no known process", 0), LastUser()
                )
            elif reading.in_use is not None:
                self.baseline[reading.device_id] = reading.in_use
        if self.quarantined or self._unhealthy:
            self._write()

    def facts(self) -> tuple[DeviceInfo, ...]:
        """The devices, as the node reports them."""
        devices = self.inventory.list()
        self.reported = tuple(device.id for device in devices)
        return tuple(self._facts(device) for device in devices)

    def _facts(self, device: Device) -> DeviceInfo:
        problem = self._unhealthy.get(device.id)
        healthy = device.healthy and problem is None
        return DeviceInfo(
            id=device.id,
            kind=device.kind,
            model=device.model,
            memory_bytes=device.memory,
            parent=device.parent,
            healthy=healthy,
            labels=dict(device.labels),
            fault="" if healthy else _describe(problem) if problem is not None else "the driver reports it as unhealthy",
            profile=device.profile,
            island=device.island,
        )

    def refusal(self, devices: Sequence[str], *, exclusive: bool) -> str | None:
        """Why a task may not start on these devices: the last check before it does. exclusive: it gets all of them."""
        for device in devices:
            if device in self.quarantined:
                return f"{device} is quarantined: {self.quarantined[device].detail}"[:1000]
            if device in self._unhealthy:
                return f"{device} is unhealthy: {_describe(self._unhealthy[device])}"[:1000]
        for reading in read_devices(self.inventory, devices):
            foreign = self._foreign(reading) if exclusive else ()
            over = self._over(reading) if exclusive or reading.error is not None else ""
            if foreign or over:
                detail = f"{_pid_names(foreign)} not started by this node" if foreign else f"{over} before its task has started"
                self.quarantine(reading, "foreign", detail, LastUser(pids=foreign))
                return f"{reading.device_id} is quarantined: {detail}"[:1000]
        return None

    def _over(self, reading: DeviceReading) -> str:
        """A description of the memory in use beyond the baseline; empty if there is none."""
        if reading.in_use is None:
            return f"it could not be read ({reading.error})"
        over = reading.in_use > self.baseline.get(reading.device_id, 0) + TOLERANCE
        return f"{reading.in_use >> 20} MiB are in use" if over else ""

    def quarantine(self, reading: DeviceReading, reason: QuarantineReason, detail: str, last_user: LastUser) -> None:
        """Keep the device from all tasks until it is seen to be free."""
        if reading.device_id in self.quarantined:
            return
        found = _quarantined(reading, reason, detail, self.baseline.get(reading.device_id, 0), last_user)
        self._add(found, last_user)
        self._write()
        self.report(DeviceQuarantinedReport, device=reading.device_id, quarantine=found)
        logger().error("a device is quarantined", device=reading.device_id, reason=reason, detail=detail)

    def not_free(self, proof: ReleaseProof, last_user: LastUser) -> None:
        """The task has exited, and some of its devices are not free."""
        if proof.living:
            self.hung(proof.after, last_user)
            return
        for reading in proof.not_free:
            on_it = f"; {_pid_names(reading.pids)} on it" if reading.pids else ""
            is_listed = last_user.pod in reading.pods
            left = "the kubelet still lists its pod" if is_listed else self._over(reading) or "a process of it remains"
            detail = f"after its task {left}{on_it}"
            self.quarantine(reading, "not-free", detail, last_user)

    def hung(self, readings: Iterable[DeviceReading], last_user: LastUser) -> None:
        """The task does not exit even when it is killed."""
        for reading in readings:
            self.quarantine(
                reading, "hung", f"{_pid_names(last_user.pids) or 'a process'} of its task does not exit when killed", last_user
            )

    def clear(self, device: str, requested_by: int) -> None:
        """An operator accepts the device as it is: memory in use now is its baseline, and its processes are allowed."""
        if device not in {each.id for each in self.inventory.list()}:
            self.report(DeviceUnhealthyReport, device=device, reason="lost", detail="this node does not have it")
            return
        self.inventory.accept(device)
        [reading] = read_devices(self.inventory, [device])
        if device not in self.quarantined and device not in self._unhealthy:
            self.report(DeviceClearedReport, device=device, reading=reading_fact(reading), requested_by=requested_by)
            self.report(DeviceHealthyReport, device=device, detail="cleared by an operator")
        if device in self._unhealthy:
            del self._unhealthy[device]
            self._write()
            self._update_health(device, self.inventory.problems().get(device), requested_by)
        if device in self.quarantined:
            self.baseline[device] = reading.in_use or 0
            self._allowed_memory[device], self._allowed_pids[device] = self.baseline[device] + TOLERANCE, reading.pids
            self._clear(reading, requested_by)

    async def watch(self, every_s: float) -> None:
        """Check at this interval, without end."""
        while True:
            await asyncio.sleep(every_s)
            await self.check()

    async def check(self) -> None:
        """Read the driver's problems, and the quarantined devices."""
        problems = await query(self.inventory, self.inventory.problems)
        self._update(problems, await query(self.inventory, read_devices, self.inventory, [*self.quarantined]))

    def _update(self, problems: Mapping[str, DeviceProblem], readings: Iterable[DeviceReading]) -> None:
        for device in dict.fromkeys([*self._unhealthy, *problems]):
            self._update_health(device, problems.get(device))
        in_use = self.holders()
        for reading in readings:
            found = self.quarantined.get(reading.device_id)
            if found is not None:
                others = in_use.get(reading.device_id, set()) - {(found.job, found.attempt, found.task)}
                if self._is_free(reading, shared=bool(others)):
                    self._clear(reading, None)

    def _update_health(self, device: str, now: DeviceProblem | None, requested_by: int | None = None) -> None:
        before = self._unhealthy.get(device)
        if now is not None and (before is None or requested_by is not None):
            self._unhealthy[device] = now
            self._write()
            self.report(DeviceUnhealthyReport, device=device, reason=now.reason, code=now.code, detail=now.detail)
            logger().error("a device is unhealthy", device=device, problem=_describe(now))
        elif now is not None and now.lasts:
            self._unhealthy[device] = now
            self._write()
        elif now is None and (requested_by is not None or (before is not None and not before.lasts)):
            self._unhealthy.pop(device, None)
            self._write()
            self.report(
                DeviceHealthyReport,
                device=device,
                detail="cleared by an operator" if requested_by is not None else "the driver reaches it again",
            )

    def _is_free(self, reading: DeviceReading, *, shared: bool) -> bool:
        if reading.memory_used is None or set(self._pids.get(reading.device_id, ())) & set(reading.pids):
            return False
        if self._pods.get(reading.device_id) in reading.pods:
            return False
        if shared:  # other tasks use it, so only the processes and the pod that caused the quarantine count
            return True
        return not self._over(reading) and not self._foreign(reading)

    def _clear(self, reading: DeviceReading, requested_by: int | None) -> None:
        del self.quarantined[reading.device_id]
        self._pids.pop(reading.device_id, None)
        self._pods.pop(reading.device_id, None)
        self._write()
        self.report(DeviceClearedReport, device=reading.device_id, reading=reading_fact(reading), requested_by=requested_by)

    def _foreign(self, reading: DeviceReading) -> tuple[int, ...]:
        waived = self._allowed_pids.get(reading.device_id, ())
        return tuple(pid for pid in reading.pids if pid not in waived and not is_system_program(pid))

    def _add(self, found: QuarantinedDevice, last_user: LastUser) -> None:
        self.quarantined[found.device], self._pids[found.device] = found, last_user.pids
        if last_user.pod is not None:
            self._pods[found.device] = last_user.pod

    def _write(self) -> None:
        content: dict[str, Any] = {
            "boot_id": self.boot_id,
            "quarantined": [
                {"found": found.to_data(), "pids": self._pids[device], "pod": self._pods.get(device)}
                for device, found in self.quarantined.items()
            ],
            "unhealthy": {
                device: {"reason": problem.reason, "detail": problem.detail, "code": problem.code, "lasts": True}
                for device, problem in self._unhealthy.items()
                if problem.lasts
            },
            "allowed_memory": self._allowed_memory,
            "allowed_pids": self._allowed_pids,
        }
        written = json.dumps(content).encode()
        if written != self._written:
            self.storage.replace(FILE, written)
            self._written = written


def reading_fact(reading: DeviceReading) -> ReadingFact:
    """The reading in the form of a record."""
    return ReadingFact(device=reading.device_id, memory_used=reading.memory_used or 0, processes=len(reading.pids))


def _quarantined(
    reading: DeviceReading, reason: QuarantineReason, detail: str, baseline: int, last_user: LastUser | None = None
) -> QuarantinedDevice:
    last_user = last_user or LastUser()
    return QuarantinedDevice(
        device=reading.device_id,
        reason=reason,
        detail=detail[:1000],
        reading=reading_fact(reading),
        baseline=baseline,
        job=last_user.job,
        attempt=last_user.attempt,
        task=last_user.task,
    )


def _describe(problem: DeviceProblem) -> str:
    return f"Xid {problem.code}, {problem.detail}" if problem.code is not None else problem.detail


def _pid_names(pids: Sequence[int]) -> str:
    return ", ".join(f"process {pid} ({process_name(pid) or 'of another container'})" for pid in pids[:5])
