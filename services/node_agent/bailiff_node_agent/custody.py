"""Which devices of this node nobody may be given, and why: dirty ones until they are seen free, broken ones until they work.

What is dirty is kept on disk, so that an agent's restart makes no device clean. Everything is said in reports; admission
makes records of them, and this list is what the agent itself goes by before a start.
"""

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bailiff_bus.logs import logger
from bailiff_bus.messages import (
    DeviceIsBroken,
    DeviceIsClean,
    DeviceIsDirty,
    DeviceWorks,
    DirtyDevice,
)
from bailiff_core.records.facts import DeviceFacts, QuarantineReason
from bailiff_core.records.facts import DeviceReading as ReadingFact

from .devices import Device, DeviceInventory, DeviceReading, Trouble, looked, read_devices
from .devices.release import TOLERANCE, ReleaseProof
from .disk import Storage

FILE = "quarantine"
MOST_IDLE = 768 << 20
"""Bytes that a driver may keep for itself on a device that nobody uses; more is somebody's."""
SERVANTS = ("nvidia-cuda-mps", "nvidia-persiste", "nv-hostengine", "dcgm", "Xorg", "gnome-shell")
"""Programs that stay on a device for all of its users, by the first 15 characters of their name."""

Report = Callable[..., Any]
TaskOfJob = tuple[str | None, int | None, int | None]
"""Job, attempt and task."""


@dataclass(frozen=True, slots=True)
class Left:
    """Who left a device dirty: the task, and the processes that were seen as its own."""

    job: str | None = None
    attempt: int | None = None
    task: int | None = None
    pids: tuple[int, ...] = ()


@dataclass(slots=True)
class Custody:
    """Of one node. `holders`: by device, the tasks of this agent that are on it. `report` puts a report into the spool."""

    inventory: DeviceInventory
    storage: Storage
    boot_id: str
    report: Report
    holders: Callable[[], Mapping[str, set[TaskOfJob]]]
    baseline: dict[str, int] = field(default_factory=dict)
    dirty: dict[str, DirtyDevice] = field(default_factory=dict)
    _pids: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _broken: dict[str, Trouble] = field(default_factory=dict)
    _waived: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _accepted: dict[str, int] = field(default_factory=dict)
    _written: bytes = b""

    def __post_init__(self) -> None:
        self._written = self.storage.read(FILE) or b"{}"
        content = json.loads(self._written)
        for entry in content.get("dirty", ()):
            found = DirtyDevice.model_validate_json(json.dumps(entry["found"]))
            self.dirty[found.device], self._pids[found.device] = found, tuple(entry["pids"])
        if content.get("boot_id") == self.boot_id:  # a boot resets what an event had told
            self._broken = {device: Trouble(**trouble) for device, trouble in content.get("broken", {}).items()}
            self._accepted = dict(content.get("accepted", {}))
            self._waived = {device: tuple(pids) for device, pids in content.get("waived", {}).items()}

    def adopted(self) -> None:
        """Before the first announcement: what is in use on devices that no task is on is their baseline, unless it is foreign."""
        self._broken |= self.inventory.troubles()
        held = self.holders()
        free = [device.id for device in self.inventory.list() if device.id not in held]
        for reading in read_devices(self.inventory, free):
            foreign = self._foreign(reading)
            if reading.device_id in self.dirty:
                continue
            if foreign:
                self._note(_dirty(reading, "foreign", f"{_named(foreign)} that no task here has started", 0), foreign)
            elif reading.memory_used is not None and reading.memory_used > self._accepted.get(reading.device_id, MOST_IDLE):
                self._note(_dirty(reading, "foreign", f"{reading.memory_used >> 20} MiB of it are in use by nobody", 0), ())
            elif reading.memory_used is not None:
                self.baseline[reading.device_id] = reading.memory_used
        if self.dirty or self._broken:
            self._keep()

    def facts(self) -> tuple[DeviceFacts, ...]:
        """The devices, as the node announces them."""
        return tuple(self._facts(device) for device in self.inventory.list())

    def _facts(self, device: Device) -> DeviceFacts:
        trouble = self._broken.get(device.id)
        healthy = device.healthy and trouble is None
        return DeviceFacts(
            id=device.id,
            kind=device.kind,
            model=device.model,
            memory_bytes=device.memory,
            parent=device.parent,
            healthy=healthy,
            labels=dict(device.labels),
            trouble="" if healthy else _words(trouble) if trouble is not None else "the driver says that it does not work",
        )

    def refusal(self, devices: Sequence[str], *, alone: bool) -> str | None:
        """Why a task may not start on these devices; the last look before it does. alone: it gets them whole."""
        for device in devices:
            if device in self.dirty:
                return f"{device} is quarantined: {self.dirty[device].detail}"[:1000]
            if device in self._broken:
                return f"{device} is broken: {_words(self._broken[device])}"[:1000]
        for reading in read_devices(self.inventory, devices):
            foreign = self._foreign(reading) if alone else ()
            over = self._over(reading) if alone or reading.error is not None else ""
            if foreign or over:
                detail = f"{_named(foreign)} that no task here has started" if foreign else f"{over} before its task has started"
                self.quarantine(reading, "foreign", detail, Left(pids=foreign))
                return f"{reading.device_id} is quarantined: {detail}"[:1000]
        return None

    def _over(self, reading: DeviceReading) -> str:
        """What is in use beyond the baseline, in words; empty where the memory is free."""
        if reading.memory_used is None:
            return f"it could not be read ({reading.error})"
        over = reading.memory_used > self.baseline.get(reading.device_id, 0) + TOLERANCE
        return f"{reading.memory_used >> 20} MiB of it are in use" if over else ""

    def quarantine(self, reading: DeviceReading, reason: QuarantineReason, detail: str, left: Left) -> None:
        """Nobody gets this device before it was seen free."""
        if reading.device_id in self.dirty:
            return
        found = _dirty(reading, reason, detail, self.baseline.get(reading.device_id, 0), left)
        self._note(found, left.pids)
        self._keep()
        self.report(DeviceIsDirty, device=reading.device_id, found=found)
        logger().error("a device is quarantined", device=reading.device_id, reason=reason, detail=detail)

    def not_free(self, proof: ReleaseProof, left: Left) -> None:
        """The task is over, and its devices, or these of them, are not free."""
        if proof.living:
            self.hung(proof.after, left)
            return
        for reading in proof.taken:
            on_it = f"; {_named(reading.pids)} on it" if reading.pids else ""
            detail = f"after its task {self._over(reading) or 'a process of it is left'}{on_it}"
            self.quarantine(reading, "not-free", detail, left)

    def hung(self, readings: Iterable[DeviceReading], left: Left) -> None:
        """The task does not end even when it is killed."""
        for reading in readings:
            self.quarantine(reading, "hung", f"{_named(left.pids) or 'a process'} of its task does not end when killed", left)

    def clear(self, device: str, asked: int) -> None:
        """A person takes the device back as it is: what is on it now is its baseline, and who is on it may stay."""
        if device not in {each.id for each in self.inventory.list()}:
            self.report(DeviceIsBroken, device=device, reason="lost", detail="this node does not have it (any more)")
            return
        [reading] = read_devices(self.inventory, [device])
        if device not in self.dirty and device not in self._broken:
            self.report(DeviceIsClean, device=device, reading=reading_fact(reading), asked=asked)
            self.report(DeviceWorks, device=device, detail="as asked")
        if device in self._broken:
            del self._broken[device]
            self._keep()
            self._judge(device, self.inventory.troubles().get(device), asked)
        if device in self.dirty:
            self.baseline[device] = reading.memory_used or 0
            self._accepted[device], self._waived[device] = self.baseline[device] + TOLERANCE, reading.pids
            self._free(reading, asked)

    async def watch(self, every_s: float) -> None:
        """Look again and again."""
        while True:
            await asyncio.sleep(every_s)
            await self.look()

    async def look(self) -> None:
        """What the driver says now, and what is seen on dirty devices."""
        troubles = await looked(self.inventory, self.inventory.troubles)
        self._seen(troubles, await looked(self.inventory, read_devices, self.inventory, [*self.dirty]))

    def _seen(self, troubles: Mapping[str, Trouble], readings: Iterable[DeviceReading]) -> None:
        for device in dict.fromkeys([*self._broken, *troubles]):
            self._judge(device, troubles.get(device))
        held = self.holders()
        for reading in readings:
            found = self.dirty.get(reading.device_id)
            if found is not None:
                others = held.get(reading.device_id, set()) - {(found.job, found.attempt, found.task)}
                if self._is_free(reading, shared=bool(others)):
                    self._free(reading, None)

    def _judge(self, device: str, now: Trouble | None, asked: int | None = None) -> None:
        before = self._broken.get(device)
        if now is not None and (before is None or asked is not None):
            self._broken[device] = now
            self._keep()
            self.report(DeviceIsBroken, device=device, reason=now.reason, code=now.code, detail=now.detail)
            logger().error("a device does not work", device=device, trouble=_words(now))
        elif now is not None and now.lasts:
            self._broken[device] = now
            self._keep()
        elif now is None and (asked is not None or (before is not None and not before.lasts)):
            self._broken.pop(device, None)
            self._keep()
            self.report(DeviceWorks, device=device, detail="as asked" if asked is not None else "the driver reaches it again")

    def _is_free(self, reading: DeviceReading, *, shared: bool) -> bool:
        if reading.memory_used is None or set(self._pids.get(reading.device_id, ())) & set(reading.pids):
            return False
        if shared:  # others are on it, so that only those who left it dirty count
            return True
        return not self._over(reading) and not self._foreign(reading)

    def _free(self, reading: DeviceReading, asked: int | None) -> None:
        del self.dirty[reading.device_id]
        self._pids.pop(reading.device_id, None)
        self._keep()
        self.report(DeviceIsClean, device=reading.device_id, reading=reading_fact(reading), asked=asked)

    def _foreign(self, reading: DeviceReading) -> tuple[int, ...]:
        waived = self._waived.get(reading.device_id, ())
        return tuple(pid for pid in reading.pids if pid not in waived and not _name(pid).startswith(SERVANTS))

    def _note(self, found: DirtyDevice, pids: Collection[int]) -> None:
        self.dirty[found.device], self._pids[found.device] = found, tuple(pids)

    def _keep(self) -> None:
        content: dict[str, Any] = {
            "boot_id": self.boot_id,
            "dirty": [{"found": found.to_data(), "pids": self._pids[found.device]} for found in self.dirty.values()],
            "broken": {
                device: {"reason": trouble.reason, "detail": trouble.detail, "code": trouble.code, "lasts": True}
                for device, trouble in self._broken.items()
                if trouble.lasts
            },
            "accepted": self._accepted,
            "waived": self._waived,
        }
        written = json.dumps(content).encode()
        if written != self._written:
            self.storage.replace(FILE, written)
            self._written = written


def reading_fact(reading: DeviceReading) -> ReadingFact:
    """The reading as it stands in a record."""
    return ReadingFact(device=reading.device_id, memory_used=reading.memory_used or 0, processes=len(reading.pids))


def _dirty(reading: DeviceReading, reason: QuarantineReason, detail: str, baseline: int, left: Left | None = None) -> DirtyDevice:
    left = left or Left()
    return DirtyDevice(
        device=reading.device_id,
        reason=reason,
        detail=detail[:1000],
        reading=reading_fact(reading),
        baseline=baseline,
        job=left.job,
        attempt=left.attempt,
        task=left.task,
    )


def _words(trouble: Trouble) -> str:
    return f"Xid {trouble.code}, {trouble.detail}" if trouble.code is not None else trouble.detail


def _named(pids: Sequence[int]) -> str:
    return ", ".join(f"process {pid} ({_name(pid) or 'of another container'})" for pid in pids[:5])


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # gone, or of another PID namespace
        return ""
