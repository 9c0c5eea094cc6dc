"""CUDA's driver library, as far as the tests need it. It needs a driver and the standard library, and nothing else."""

import ctypes
from typing import Any

SM_COUNT = 16


class CudaError(Exception):
    """A call of the driver failed."""


class Cuda:
    """A context on the first visible GPU. Raises `OSError` where there is no driver."""

    def __init__(self) -> None:
        self._library: Any = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        """Raises `CudaError`."""
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise CudaError(f"{name}: error {code}")

    def allocate(self, size: int) -> int:
        """The address of so many bytes."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def fill(self, address: int, word: int, size: int) -> None:
        """Write this 32-bit word everywhere."""
        self.call("cuMemsetD32_v2", ctypes.c_uint64(address), ctypes.c_uint(word), ctypes.c_size_t(size // 4))
        self.call("cuCtxSynchronize")

    def host_buffer(self, size: int) -> Any:
        """Page-locked memory of this machine."""
        pointer = ctypes.c_void_p()
        self.call("cuMemAllocHost_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        assert pointer.value is not None
        return (ctypes.c_ubyte * size).from_address(pointer.value)

    def to_host(self, buffer: Any, address: int, size: int) -> None:
        """Copy from the GPU."""
        self.call("cuMemcpyDtoH_v2", buffer, ctypes.c_uint64(address), ctypes.c_size_t(size))

    def to_device(self, address: int, buffer: Any, size: int) -> None:
        """Copy to the GPU."""
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), buffer, ctypes.c_size_t(size))

    def multiprocessors(self) -> int:
        """How many this process may use."""
        count = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(count), SM_COUNT, 0)
        return count.value
