"""The node's GPUs: which there are, which processes use them, and the proof that they are free again.

`inventory` is the interface and `registry` lists the implementations: NVML, a kubelet, and plug-ins of other packages. Nothing
here starts, stops or signals a process, talks to Kafka, or decides who gets a GPU.
"""

from .inventory import Device, DeviceInventory, DeviceProblem, DeviceUnavailable, DeviceUsage, NoDriver, check_count, query
from .nvml import NvmlInventory
from .registry import inventory_plugin
from .release import DeviceReading, ReleaseProof, prove_release, read_devices

__all__ = [
    "Device",
    "DeviceInventory",
    "DeviceProblem",
    "DeviceReading",
    "DeviceUnavailable",
    "DeviceUsage",
    "NoDriver",
    "NvmlInventory",
    "ReleaseProof",
    "check_count",
    "inventory_plugin",
    "prove_release",
    "query",
    "read_devices",
]
