"""What travels on the topics beside the audit log: requests, proposals, progress, node commands, node reports.

Each message type is a frozen document with a version; `envelope` puts it into CloudEvents. Audit records live in
`bailiff_core.records`.
"""

from .base import MESSAGE_TYPES, MessageBody
from .commands import Evict, Fence, SaveTogether, SendInventory, Spare, StartTask, TaskAt
from .devices import (
    ClearDevice,
    ClearQuarantine,
    DeviceIsBroken,
    DeviceIsClean,
    DeviceIsDirty,
    DeviceReport,
    DeviceWorks,
    TaskIsIdle,
    TaskOverShare,
)
from .letters import Alarm, DeadLetter
from .progress import BegunEviction, GivenUpPlan
from .proposals import Proposal
from .reports import (
    DirtyDevice,
    EvictionStageReached,
    NodeAnnounced,
    NodeHeartbeat,
    ReportBody,
    TaskEnded,
    TaskHasProgressed,
    TaskHasResumed,
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
from .rollups import (
    ClassWindow,
    EvictionsOf,
    LateStarts,
    MeasuredOf,
    MeasuredWindow,
    ProjectWindow,
    RollupState,
    RollupWindow,
    WorkLost,
)
from .seals import LogSealed, SealingKey, SealsSetAside
from .telemetry import DeviceMeasured, NodeTelemetry

__all__ = [
    "MESSAGE_TYPES", "AcceptTruncation", "Alarm", "ApplyPolicy", "BegunEviction", "CancelJob", "ClassWindow",
    "ClearDevice", "ClearQuarantine", "DeadLetter", "DeviceIsBroken", "DeviceIsClean", "DeviceIsDirty", "DeviceMeasured",
    "DeviceReport", "DeviceWorks", "DirtyDevice", "DrainNode", "Evict", "EvictJob", "EvictionStageReached", "EvictionsOf",
    "Fence", "GivenUpPlan", "JobSpec", "LateStarts", "LogSealed", "MeasuredOf", "MeasuredWindow", "MessageBody",
    "MigrateJob", "NodeAnnounced", "NodeHeartbeat", "NodeTelemetry", "PauseJob", "ProjectWindow", "Proposal",
    "ReplaceNode", "ReportBody", "RequestBody", "ReturnNode", "RollupState", "RollupWindow", "SaveTogether", "ScaleJob",
    "SealingKey", "SealsSetAside", "SendInventory", "SetJob", "Spare", "StartTask", "SubmitJob", "TaskAt", "TaskEnded",
    "TaskHasProgressed", "TaskHasResumed", "TaskHeld", "TaskIsIdle", "TaskIsReleased", "TaskIsRunning", "TaskNotSpared",
    "TaskNotStarted", "TaskOverShare", "TaskWasSpared", "UndrainNode", "UnpauseJob", "WorkLost",
]  # fmt: skip
