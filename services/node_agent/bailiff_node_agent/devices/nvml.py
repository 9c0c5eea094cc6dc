"""NVIDIA GPUs, read through the driver's library (NVML)."""

import importlib
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bailiff_service.logs import logger

from .inventory import Device, DeviceInventory, DeviceProblem, DeviceUnavailable, DeviceUsage, NoDriver
from .links import islands
from .mig import NO_INSTANCE, PREFIX, affected, is_partitioned, mig_devices
from .nvml_processes import processes
from .xid import APPLICATION_XIDS, XIDS

MAX_EVENTS = 1000
MAX_TEXT = 253
UNKNOWN = "unknown"
PROCESS_LISTS = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")
REMAPS = "rows of its memory are to be remapped, or could not be remapped"
NO_UUID = "the driver gives it no UUID, so no job can be bound to it"


class NvmlInventory(DeviceInventory):
    """The library is loaded on construction, so that the module can be imported on a machine without a driver.

    A card in MIG mode is listed as its MIG devices. A GPU that has no UUID, or could not be read at the first listing, is listed
    under its index, and stays unhealthy. Several threads may ask at once.
    """

    blocking = True

    def __init__(self) -> None:
        try:
            self._nvml: Any = importlib.import_module("pynvml")
        except ImportError:
            raise NoDriver("real GPUs need the package nvidia-ml-py, which is not installed") from None
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise NoDriver(
                f"NVML does not start ({error}): this machine has no NVIDIA driver, or this container cannot reach it"
            ) from error
        unsupported = (self._nvml.NVMLError_NotSupported, self._nvml.NVMLError_FunctionNotFound)
        self._unsupported: tuple[type[Exception], ...] = unsupported
        self._missing: tuple[type[Exception], ...] = (*unsupported, AttributeError)  # the last: from an old nvidia-ml-py
        self._driver = self._text(self._nvml.nvmlSystemGetDriverVersion)
        self._last_seen: dict[str, Device] = {}
        self._gone: dict[str, str] = {}
        self._unusable: dict[int, str] = {}
        self._uncorrected: dict[str, int] = {}
        self._events: Any = None
        self._with_events: set[str] = set()
        self._listing = threading.RLock()  # a listing changes what is known of the devices
        self._islands: dict[str, str] = {}
        self._linked: tuple[str, ...] = ()  # the GPUs that `_islands` is about
        self._list_first()

    def _list_first(self) -> None:
        """GPUs without an id of their own are listed under their index."""
        found, failed, _ = self._read_all()
        for index, problem in failed.items():
            identity = f"GPU-index-{index}"
            self._unusable[index] = identity
            self._gone[identity] = problem
            self._last_seen[identity] = Device(
                index, identity, "gpu", UNKNOWN, 0, None, healthy=False, labels={"driver": self._driver}
            )
            logger().error("a GPU cannot be used", index=index, why=problem)
        self._last_seen |= found

    def _listed(self) -> list[Device]:
        found, failed, answered = self._read_all()
        for index, identity in self._unusable.items():
            again = next(
                (device for device in found.values() if device.index == index and device.id not in self._last_seen), None
            )
            if again is not None:
                self._gone[identity] = f"reachable again, as {again.id}: restart the node agent"
                del found[again.id]
        for identity in [
            name for name, device in self._last_seen.items() if name not in found and (device.parent or device.id) in answered
        ]:
            del self._last_seen[identity]
            self._gone.pop(identity, None)
        errors = [problem for index, problem in failed.items() if index not in self._unusable]
        for identity, device in self._last_seen.items():
            if identity in found or identity in self._unusable.values():
                continue
            self._last_seen[identity] = replace(device, healthy=False)
            self._gone[identity] = errors[0] if errors else "the driver no longer lists it"
        for identity in found:
            self._gone.pop(identity, None)
        self._last_seen |= found
        return sorted(self._last_seen.values(), key=lambda device: (device.index, device.id))

    def list(self) -> list[Device]:
        """A GPU that no longer answers stays in the list, unhealthy. A card that answers has the MIG devices that it lists."""
        with self._listing:
            return self._listed()

    def _read_all(self) -> tuple[dict[str, Device], dict[int, str], set[str]]:
        """GPUs by id, by index why one cannot be read, and the ids of the cards that answered, partitioned or not."""
        try:
            count = int(self._nvml.nvmlDeviceGetCount())
        except self._nvml.NVMLError as error:
            return {}, {0: f"the driver lists no GPUs: {error}"}, set()
        found, failed, answered = dict[str, Device](), dict[int, str](), set[str]()
        handles: dict[str, Any] = {}
        for index in range(count):
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                device = self._read(index, handle)
                partitioned = bool(device.id) and is_partitioned(self._nvml, handle)
                parts = [*mig_devices(self._nvml, handle, device, self._text)] if partitioned else []
            except self._unsupported:
                failed[index] = NO_UUID
            except self._nvml.NVMLError as error:
                failed[index] = f"the driver cannot reach it: {error}"
            else:
                if device.id and device.id not in answered:
                    answered.add(device.id)
                    found |= {part.id: part for part in (parts if partitioned else [device])}
                    if not partitioned:
                        handles[device.id] = handle
                else:
                    failed[index] = f"the driver gives it the UUID of another GPU, {device.id}" if device.id else NO_UUID
        return self._with_islands(found, handles), failed, answered

    def _with_islands(self, found: dict[str, Device], handles: dict[str, Any]) -> dict[str, Device]:
        if tuple(handles) != self._linked:
            self._islands, self._linked = islands(self._nvml, handles), tuple(handles)
        return {name: replace(device, island=self._islands.get(name, "")) for name, device in found.items()}

    def usage(self, device_id: str) -> DeviceUsage:
        """Lists of processes that the driver does not have count as empty."""
        try:
            handle = self._nvml.nvmlDeviceGetHandleByUUID(device_id)
            clients = self._processes("nvmlDeviceGetMPSComputeRunningProcesses", handle)
            answers = [*(self._processes(name, handle) for name in PROCESS_LISTS), clients]
            memory = self._memory(handle)
        except self._nvml.NVMLError as error:
            if self._no_longer_exists(device_id, error):
                return DeviceUsage(0, ())
            raise DeviceUnavailable(f"device {device_id} cannot be read: {error}") from error
        lists = [answer for answer in answers if answer is not None]
        if not lists and memory is None:
            raise DeviceUnavailable(f"device {device_id} cannot be read: the driver reports neither its processes nor its memory")
        pids = sorted(set[int]().union(*lists))
        used = {pid: max(each.get(pid, 0) for each in lists) for pid in pids}
        by_pid = {pid: amount for pid, amount in used.items() if amount}
        in_use = memory.used if memory is not None else sum(by_pid.values())
        return DeviceUsage(in_use, tuple(pids), by_pid, None if clients is None else tuple(sorted(clients)))

    def _no_longer_exists(self, device_id: str, error: Exception) -> bool:
        """Whether it was a MIG device of a card that answers: an administrator removed it, so nothing can use it."""
        if not isinstance(error, getattr(self._nvml, "NVMLError_NotFound", ())):
            return False
        with self._listing:
            return device_id.startswith(PREFIX) and device_id not in {device.id for device in self.list()} and not self._gone

    def utilization(self, device_id: str) -> int | None:
        try:
            handle = self._nvml.nvmlDeviceGetHandleByUUID(device_id)
            percent = int(self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        except self._nvml.NVMLError:
            return None
        return percent if 0 <= percent <= 100 else None

    def problems(self) -> dict[str, DeviceProblem]:
        """Devices off the bus or with pending row remaps, and Xid and uncorrected memory errors since the last call.

        Application errors are left out: they show in the exit of their process.
        """
        with self._listing:
            return self._problems() | self._xids()

    def _problems(self) -> dict[str, DeviceProblem]:
        found: dict[str, DeviceProblem] = {}
        more: dict[str, int] = {}
        for device in self.list():
            if device.id in self._gone:
                problem = self._gone[device.id]
                found[device.id] = DeviceProblem("driver" if problem == NO_UUID else "lost", problem)
                continue
            self._register_events(device.parent or device.id)
            if not device.healthy:
                found[device.id] = DeviceProblem("row-remap", REMAPS)
            card = device.parent or device.id
            if card not in more:
                more[card] = self._uncorrected_since(card)  # of a partitioned card: it may be of any of its MIG devices
            if more[card]:
                found[device.id] = DeviceProblem("ecc", f"{more[card]} uncorrected memory errors", lasts=True)
        return found

    def _register_events(self, device_id: str) -> None:
        if device_id in self._with_events:
            return
        nvml = self._nvml
        try:
            if self._events is None:
                self._events = nvml.nvmlEventSetCreate()
            handle = nvml.nvmlDeviceGetHandleByUUID(device_id)
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._events)
        except self._missing:
            pass  # the GPU or the driver supports no events
        except nvml.NVMLError:
            return  # tried again with the next check
        self._with_events.add(device_id)

    def _xids(self) -> dict[str, DeviceProblem]:
        nvml, found = self._nvml, dict[str, DeviceProblem]()
        for _ in range(MAX_EVENTS if self._events is not None else 0):
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError:
                break  # no (more) events
            code = int(event.eventData)
            device_id = self._text(nvml.nvmlDeviceGetUUID, event.device)
            if device_id == UNKNOWN:
                logger().error("an Xid of a GPU that cannot be read", code=code)  # the GPU itself is reported as lost
            elif code not in APPLICATION_XIDS:
                problem = DeviceProblem("xid", XIDS.get(code, "critical error"), code, lasts=True)
                instance = getattr(event, "gpuInstanceId", NO_INSTANCE)
                found |= dict.fromkeys(affected([*self._last_seen.values()], device_id, instance), problem)
        return found

    def _uncorrected_since(self, device_id: str) -> int:
        """Uncorrected memory errors since the last call; 0 where the GPU does not count them."""
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(device_id)
            kind, counter = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
            count = int(nvml.nvmlDeviceGetTotalEccErrors(handle, kind, counter))
        except (nvml.NVMLError, AttributeError):
            return 0
        before = self._uncorrected.get(device_id, count)
        self._uncorrected[device_id] = count
        return max(0, count - before)

    def close(self) -> None:
        self._nvml.nvmlShutdown()

    def _read(self, index: int, handle: Any) -> Device:
        nvml = self._nvml
        memory = self._memory(handle)
        return Device(
            index=index,
            id=_decoded(nvml.nvmlDeviceGetUUID(handle)),
            kind="gpu",
            model=self._text(nvml.nvmlDeviceGetName, handle),
            memory=memory.total if memory is not None else 0,
            parent=None,
            healthy=self._memory_is_healthy(handle),
            labels={"driver": self._driver, "pci": self._text(lambda: nvml.nvmlDeviceGetPciInfo(handle).busId)},
        )

    def _memory(self, handle: Any) -> Any:
        """None where the driver does not report it."""
        try:
            # Version 1 counts memory that the driver reserves as used.
            return self._nvml.nvmlDeviceGetMemoryInfo(handle, version=self._nvml.nvmlMemory_v2)
        except self._nvml.NVMLError:
            try:
                return self._nvml.nvmlDeviceGetMemoryInfo(handle)
            except self._unsupported:
                return None

    def _processes(self, name: str, handle: Any) -> dict[int, int] | None:
        """Bytes by pid; None where the driver does not report them."""
        try:
            return processes(self._nvml, name, handle)
        except self._missing:
            return None

    def _memory_is_healthy(self, handle: Any) -> bool:
        try:
            _, _, pending, failed = self._nvml.nvmlDeviceGetRemappedRows(handle)
        except self._unsupported:
            return True  # the GPU or the driver does not support it
        return not pending and not failed

    def _text(self, call: Callable[..., str | bytes], *arguments: Any) -> str:
        """`unknown` where the driver does not answer."""
        try:
            return _decoded(call(*arguments)) or UNKNOWN
        except self._nvml.NVMLError:
            return UNKNOWN


def _decoded(value: str | bytes) -> str:
    return (value.decode(errors="replace") if isinstance(value, bytes) else value)[:MAX_TEXT]
