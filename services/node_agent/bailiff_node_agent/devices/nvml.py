"""NVIDIA GPUs, read through the driver's library (NVML)."""

import importlib
from dataclasses import replace
from typing import Any

from .inventory import Device, DeviceProblem, DeviceUnavailable, DeviceUsage, NoDriver

# Application errors in NVIDIA's list of Xid errors: the process dies, and the device is fine for the next one.
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
XIDS = {
    48: "uncorrectable memory error",
    62: "the device's own processor halted",
    63: "a page or row of memory is retired",
    64: "a page or row of memory could not be retired",
    74: "NVLink error",
    79: "the device has fallen off the bus",
    92: "many correctable memory errors",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "the device's system processor does not answer",
    120: "error of the device's system processor",
    140: "unrecovered memory error",
}
MAX_EVENTS = 1000


class NvmlInventory:
    """The library is loaded on construction, so that the module can be imported on a machine without a driver."""

    blocking = True
    users = None

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
        self._driver = _text(self._nvml.nvmlSystemGetDriverVersion())
        self._last_seen: dict[int, Device] = {}
        self._gone: dict[str, str] = {}
        self._uncorrected: dict[str, int] = {}
        self._events: Any = None
        self._with_events: set[str] = set()

    def list(self) -> list[Device]:
        """A GPU that no longer answers stays in the list, unhealthy."""
        for index in range(self._nvml.nvmlDeviceGetCount()):
            try:
                self._last_seen[index] = self._read(index)
                self._gone.pop(self._last_seen[index].id, None)
            except self._nvml.NVMLError as error:
                if index in self._last_seen:
                    self._last_seen[index] = replace(self._last_seen[index], healthy=False)
                    self._gone[self._last_seen[index].id] = str(error)
        return [self._last_seen[index] for index in sorted(self._last_seen)]

    def usage(self, device_id: str) -> DeviceUsage:
        try:
            handle = self._nvml.nvmlDeviceGetHandleByUUID(device_id)
            processes = [
                *self._nvml.nvmlDeviceGetComputeRunningProcesses(handle),
                *self._nvml.nvmlDeviceGetGraphicsRunningProcesses(handle),
            ]
            used = {process.pid: getattr(process, "usedGpuMemory", None) or 0 for process in processes}
            by_pid = {pid: amount for pid, amount in used.items() if amount}
            return DeviceUsage(self._memory(handle).used, tuple(sorted(used)), by_pid)
        except self._nvml.NVMLError as error:
            raise DeviceUnavailable(f"device {device_id} cannot be read: {error}") from error

    def utilization(self, device_id: str) -> int | None:
        try:
            handle = self._nvml.nvmlDeviceGetHandleByUUID(device_id)
            return int(self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        except self._nvml.NVMLError:
            return None

    def problems(self) -> dict[str, DeviceProblem]:
        """Devices off the bus or with pending row remaps, and Xid and uncorrected memory errors since the last call.

        Application errors are left out: they show in the exit of their process.
        """
        found: dict[str, DeviceProblem] = {}
        for device in self.list():
            if device.id in self._gone:
                found[device.id] = DeviceProblem("lost", f"the driver cannot reach it: {self._gone[device.id]}")
                continue
            self._register_events(device.id)
            if not device.healthy:
                found[device.id] = DeviceProblem("row-remap", "rows of its memory are to be remapped, or could not be remapped")
            more = self._uncorrected_since(device.id)
            if more:
                found[device.id] = DeviceProblem("ecc", f"{more} uncorrected memory errors", lasts=True)
        return found | self._xids()

    def _register_events(self, device_id: str) -> None:
        if device_id in self._with_events:
            return
        self._with_events.add(device_id)
        nvml = self._nvml
        try:
            if self._events is None:
                self._events = nvml.nvmlEventSetCreate()
            handle = nvml.nvmlDeviceGetHandleByUUID(device_id)
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._events)
        except (nvml.NVMLError, AttributeError):
            return  # the GPU or the driver supports no events

    def _xids(self) -> dict[str, DeviceProblem]:
        nvml, found = self._nvml, dict[str, DeviceProblem]()
        for _ in range(MAX_EVENTS if self._events is not None else 0):
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
                device_id = _text(nvml.nvmlDeviceGetUUID(event.device))
            except nvml.NVMLError:
                break  # no (more) events
            code = int(event.eventData)
            if code not in APPLICATION_XIDS:
                found[device_id] = DeviceProblem("xid", XIDS.get(code, "critical error"), code, lasts=True)
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

    def _read(self, index: int) -> Device:
        handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
        return Device(
            index=index,
            id=_text(self._nvml.nvmlDeviceGetUUID(handle)),
            kind="gpu",
            model=_text(self._nvml.nvmlDeviceGetName(handle)),
            memory=self._memory(handle).total,
            parent=None,
            healthy=self._memory_is_healthy(handle),
            labels={"driver": self._driver, "pci": _text(self._nvml.nvmlDeviceGetPciInfo(handle).busId)},
        )

    def _memory(self, handle: Any) -> Any:
        try:
            # Version 1 counts memory that the driver reserves as used.
            return self._nvml.nvmlDeviceGetMemoryInfo(handle, version=self._nvml.nvmlMemory_v2)
        except self._nvml.NVMLError:
            return self._nvml.nvmlDeviceGetMemoryInfo(handle)

    def _memory_is_healthy(self, handle: Any) -> bool:
        try:
            _, _, pending, failed = self._nvml.nvmlDeviceGetRemappedRows(handle)
        except (self._nvml.NVMLError_NotSupported, self._nvml.NVMLError_FunctionNotFound):
            return True  # the GPU or the driver does not support it
        return not pending and not failed


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
