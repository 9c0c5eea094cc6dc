"""Running tasks on this machine: start, adopt, notify, stop, and tell truly how they ended.

A task outlives the agent, never starts twice, and has ended only when its whole process tree is gone. Who may run, in
which order and how long a grace lasts is decided elsewhere: no Kafka, no message types, no policy and no deadlines may
enter, and no device but as a name that is passed on. The supervisor has a room of its own, with the standard
library and nothing else.
"""

from bailiff_node_agent.runtime.cgroups import Cgroups
from bailiff_node_agent.runtime.contract import (
    DeviceHolds,
    Exit,
    Launch,
    Running,
    Runtime,
    Said,
    Steps,
    TaskKey,
    TaskStillRuns,
    UnknownTask,
    User,
)
from bailiff_node_agent.runtime.docker import DockerRuntime
from bailiff_node_agent.runtime.process import ProcessRuntime
from bailiff_node_agent.runtime.simulated import SimulatedMachine, SimulatedRuntime

__all__ = [
    "Cgroups",
    "DeviceHolds",
    "DockerRuntime",
    "Exit",
    "Launch",
    "ProcessRuntime",
    "Running",
    "Runtime",
    "Said",
    "SimulatedMachine",
    "SimulatedRuntime",
    "Steps",
    "TaskKey",
    "TaskStillRuns",
    "UnknownTask",
    "User",
]
