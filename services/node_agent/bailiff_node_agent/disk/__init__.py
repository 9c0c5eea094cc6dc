"""The agent's durable state in one folder: fences, reports not yet sent, evictions under way, who this machine is.

Each thing is written once, over a small `Storage`, which is a folder or, in a simulation, memory; what a call has
said stands after a power loss, and a damaged file is an error and never an empty one. No processes, no devices, no
Kafka and no message types may enter: reports are bytes here, and jobs and devices are names. Calls block for a disk
flush (a few milliseconds).
"""

from bailiff_node_agent.disk.evictions import Evictions, RunningEviction
from bailiff_node_agent.disk.fences import Fences, Position, Verdict
from bailiff_node_agent.disk.incarnation import Incarnation, current_boot_id, draw_incarnation
from bailiff_node_agent.disk.journal import NotWritable
from bailiff_node_agent.disk.lock import AgentLock, FolderInUse
from bailiff_node_agent.disk.reports import Reports
from bailiff_node_agent.disk.storage import DamagedFile, FolderStorage, MemoryStorage, Storage

__all__ = [
    "AgentLock",
    "DamagedFile",
    "Evictions",
    "Fences",
    "FolderInUse",
    "FolderStorage",
    "Incarnation",
    "MemoryStorage",
    "NotWritable",
    "Position",
    "Reports",
    "RunningEviction",
    "Storage",
    "Verdict",
    "current_boot_id",
    "draw_incarnation",
]
