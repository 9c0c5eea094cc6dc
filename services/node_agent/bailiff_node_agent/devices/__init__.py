"""The machine's GPUs: which there are, who is on them, and the proof that they are free again.

Real ones come from NVML, simulated ones from a name such as `8xH100-80GB`; whoever asks cannot tell the difference.
Nothing in here starts, stops or signals a process, writes to disk or talks to Kafka, and nothing decides who may have
a GPU: this room only looks.
"""

from bailiff_node_agent.devices.inventory import (
    Device,
    DeviceInventory,
    DeviceUnavailable,
    DeviceUsage,
    NoDriver,
    Trouble,
    looked,
)
from bailiff_node_agent.devices.nvml import NvmlInventory
from bailiff_node_agent.devices.release import DeviceReading, ReleaseProof, prove_release, read_devices
from bailiff_node_agent.devices.simulated import SimulatedInventory

__all__ = [
    "Device",
    "DeviceInventory",
    "DeviceReading",
    "DeviceUnavailable",
    "DeviceUsage",
    "NoDriver",
    "NvmlInventory",
    "ReleaseProof",
    "SimulatedInventory",
    "Trouble",
    "looked",
    "prove_release",
    "read_devices",
]
