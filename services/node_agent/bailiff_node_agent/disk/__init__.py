"""The agent's durable state in one folder: fences, unsent reports, running evictions, the machine's identity.

All of it is written through `Storage`, which is a folder or, in a simulation, memory. When a call returns, its effect
survives a power loss; a damaged file is an error and never read as empty. No processes, devices, Kafka or message
types here: reports are bytes, jobs and devices are names. Calls block for a disk flush (a few milliseconds).
"""

from .evictions import EvictionStore, RunningEviction
from .fences import Fences, Position, Verdict
from .incarnation import Incarnation, current_boot_id, new_incarnation, renewed
from .journal import NotWritable
from .lock import AgentLock, FolderInUse
from .parking import ParkedTask, ParkingStore
from .reports import Reports
from .storage import DamagedFile, FolderStorage, MemoryStorage, Storage

__all__ = [
    "AgentLock",
    "DamagedFile",
    "EvictionStore",
    "Fences",
    "FolderInUse",
    "FolderStorage",
    "Incarnation",
    "MemoryStorage",
    "NotWritable",
    "ParkedTask",
    "ParkingStore",
    "Position",
    "Reports",
    "RunningEviction",
    "Storage",
    "Verdict",
    "current_boot_id",
    "new_incarnation",
    "renewed",
]
