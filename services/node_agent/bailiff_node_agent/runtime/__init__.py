"""Runtimes start, adopt, notify and stop tasks, and report truthfully how they ended.

A task outlives the agent, never starts twice, and has exited only when its whole process tree is gone. Runtimes decide
nothing: no Kafka, no message types, no policy and no deadlines of their own, and devices only as names that are passed on.
`port` is the interface, `registry` lists the implementations, `supervisor` is the small process beside each task.
"""

from .host_processes import memory_of, pids_of
from .plugin import NodeParts, RuntimePlugin
from .port import (
    Capabilities,
    DeviceUsers,
    Dumped,
    Exit,
    Image,
    JobMessage,
    Launch,
    Pod,
    Restored,
    Running,
    Runtime,
    Steps,
    TaskKey,
    TaskStillRunning,
    UnknownTask,
    User,
    WorkloadRef,
)
from .registry import open_runtimes

__all__ = [
    "Capabilities",
    "DeviceUsers",
    "Dumped",
    "Exit",
    "Image",
    "JobMessage",
    "Launch",
    "NodeParts",
    "Pod",
    "Restored",
    "Running",
    "Runtime",
    "RuntimePlugin",
    "Steps",
    "TaskKey",
    "TaskStillRunning",
    "UnknownTask",
    "User",
    "WorkloadRef",
    "memory_of",
    "open_runtimes",
    "pids_of",
]
