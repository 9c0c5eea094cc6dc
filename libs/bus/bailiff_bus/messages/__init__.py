"""What travels on the topics beside the audit log: requests, proposals, progress, node commands, node reports.

Each message type is a frozen document with a version; `envelope` puts it into CloudEvents. Audit records live in
`bailiff_core.records`.
"""

from .base import MESSAGE_TYPES, MessageBody
from .commands import Evict, Fence, SendInventory, Spare, StartTask, TaskAt
from .letters import Alarm, DeadLetter
from .progress import BegunEviction, GivenUpPlan
from .proposals import Proposal
from .reports import (
    EvictionStageReached,
    NodeAnnounced,
    NodeHeartbeat,
    ReportBody,
    TaskEnded,
    TaskHeld,
    TaskIsReleased,
    TaskIsRunning,
    TaskNotSpared,
    TaskNotStarted,
    TaskWasSpared,
)
from .requests import (
    AcceptTruncation,
    ApplyPolicy,
    CancelJob,
    DrainNode,
    EvictJob,
    JobSpec,
    MigrateJob,
    PauseJob,
    ReplaceNode,
    RequestBody,
    ReturnNode,
    ScaleJob,
    SetJob,
    SubmitJob,
    UndrainNode,
    UnpauseJob,
)

__all__ = [
    "MESSAGE_TYPES", "AcceptTruncation", "Alarm", "ApplyPolicy", "BegunEviction", "CancelJob", "DeadLetter",
    "DrainNode", "Evict", "EvictJob", "EvictionStageReached", "Fence", "GivenUpPlan", "JobSpec", "MessageBody",
    "MigrateJob", "NodeAnnounced", "NodeHeartbeat", "PauseJob", "Proposal", "ReplaceNode", "ReportBody",
    "RequestBody", "ReturnNode", "ScaleJob", "SendInventory", "SetJob", "Spare", "StartTask", "SubmitJob", "TaskAt",
    "TaskEnded", "TaskHeld", "TaskIsReleased", "TaskIsRunning", "TaskNotSpared", "TaskNotStarted", "TaskWasSpared",
    "UndrainNode", "UnpauseJob",
]  # fmt: skip
