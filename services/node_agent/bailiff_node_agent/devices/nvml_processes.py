"""The processes on an NVIDIA GPU.

nvidia-ml-py first asks for their number, and believes a library that answers that with success and not with "too small". So the
list is read here with a buffer from the start, which also takes one call instead of two.
"""

import ctypes
from typing import Any

BUFFER = 64
MAX_BUFFER = 1 << 16
NOT_AVAILABLE = (1 << 64) - 1


def processes(nvml: Any, name: str, handle: Any) -> dict[int, int]:
    """Bytes of device memory by pid, 0 where the driver does not count them. name: of the function. Raises `NVMLError`."""
    pointer = getattr(nvml, "_nvmlGetFunctionPointer", None)
    found = getattr(nvml, name)(handle) if pointer is None else _read(nvml, pointer(f"{name}_v3"), handle)
    used: dict[int, int] = {}
    for process in found:
        amount = getattr(process, "usedGpuMemory", None) or 0
        used[int(process.pid)] = max(used.get(process.pid, 0), 0 if amount == NOT_AVAILABLE else int(amount))
    return used


def _read(nvml: Any, function: Any, handle: Any) -> Any:
    size = BUFFER
    while True:
        count, found = ctypes.c_uint(size), (nvml.c_nvmlProcessInfo_v3_t * size)()
        code = function(handle, ctypes.byref(count), found)
        if code != nvml.NVML_ERROR_INSUFFICIENT_SIZE or size >= MAX_BUFFER:
            nvml._nvmlCheckReturn(code)
            return found[: min(count.value, size)]
        size = min(MAX_BUFFER, max(2 * size, 2 * count.value))
