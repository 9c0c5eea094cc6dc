"""Simulated GPUs and tasks for a node agent: a plug-in of its ports (`bailiff.devices`, `bailiff.runtimes`).

For scale tests, demos and machines without a GPU. An agent that runs where this package is installed accepts settings such as
`gpus: 8xH100-80GB`, and its nodes have the runtime `simulated`, whose tasks are timers instead of processes.
"""

from .devices import SimulatedInventory
from .images import MemoryImages
from .runtime import SimulatedRuntime
from .tasks import SimulatedMachine

__all__ = ["MemoryImages", "SimulatedInventory", "SimulatedMachine", "SimulatedRuntime"]
