"""NVIDIA GPUs as the driver's own library (NVML) sees them."""

import importlib
from dataclasses import replace
from typing import Any

from bailiff_node_agent.devices.inventory import Device, DeviceUnavailable, DeviceUsage, NoDriver


class NvmlInventory:
    """The library is loaded here and not with the module, so that a machine without a driver can import everything."""

    def __init__(self) -> None:
        try:
            self._nvml: Any = importlib.import_module("pynvml")
        except ImportError:
            raise NoDriver("real GPUs need the package nvidia-ml-py, which is not installed") from None
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise NoDriver(f"NVML does not start ({error}): no NVIDIA driver here, or this container cannot see it") from error
        self._driver = _text(self._nvml.nvmlSystemGetDriverVersion())
        self._last_seen: dict[int, Device] = {}

    def list(self) -> list[Device]:
        """A GPU that answered before and does not any more stays in the list, unhealthy."""
        for index in range(self._nvml.nvmlDeviceGetCount()):
            try:
                self._last_seen[index] = self._read(index)
            except self._nvml.NVMLError:
                if index in self._last_seen:
                    self._last_seen[index] = replace(self._last_seen[index], healthy=False)
        return [self._last_seen[index] for index in sorted(self._last_seen)]

    def usage(self, device_id: str) -> DeviceUsage:
        try:
            handle = self._nvml.nvmlDeviceGetHandleByUUID(device_id)
            processes = [
                *self._nvml.nvmlDeviceGetComputeRunningProcesses(handle),
                *self._nvml.nvmlDeviceGetGraphicsRunningProcesses(handle),
            ]
            return DeviceUsage(self._memory(handle).used, tuple(sorted({process.pid for process in processes})))
        except self._nvml.NVMLError as error:
            raise DeviceUnavailable(f"device {device_id} cannot be read: {error}") from error

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
            healthy=self._memory_is_sound(handle),
            labels={"driver": self._driver, "pci": _text(self._nvml.nvmlDeviceGetPciInfo(handle).busId)},
        )

    def _memory(self, handle: Any) -> Any:
        try:
            # The first version counts what the driver keeps for itself as used.
            return self._nvml.nvmlDeviceGetMemoryInfo(handle, version=self._nvml.nvmlMemory_v2)
        except self._nvml.NVMLError:
            return self._nvml.nvmlDeviceGetMemoryInfo(handle)

    def _memory_is_sound(self, handle: Any) -> bool:
        try:
            _, _, pending, failed = self._nvml.nvmlDeviceGetRemappedRows(handle)
        except (self._nvml.NVMLError_NotSupported, self._nvml.NVMLError_FunctionNotFound):
            return True  # a card or a driver from before there was such a thing
        return not pending and not failed


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
