"""`bailiff.node-reports`: what an agent says. Numbers are gap-free per incarnation; heartbeats have none of their own."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bailiff_core.model.document import Count, Document, Duration, Integer, Label, Name, OpaqueId
from bailiff_core.records.facts import Checkpoint, DeviceFacts, DeviceReading, HostReading, QuarantineReason, Stage

from .base import MessageBody


class FenceSeen(Document):
    """The highest (epoch, seq) that the agent has obeyed, and the epoch of the newest writer that it has heard of.

    Higher than the log's head: the log was cut short.
    """

    epoch: Count = 0
    seq: Count = 0
    heard: Count | None = None


class TaskHeld(Document):
    """One task in an inventory. `stages`: those that its eviction has reached, in order. step: the last one that it published.

    order: seq of the record that ordered its start; an earlier member of that number may still be here.
    unseen: it has ended, and nobody saw how.
    """

    job: Name
    attempt: Count
    task: Count
    devices: tuple[OpaqueId, ...] = ()
    state: Literal["running", "exited", "released"]
    exit_code: Integer | None = None
    reason: Annotated[str, Field(max_length=1000)] = ""
    noticed: bool = False
    term_sent: bool = False
    kill_sent: bool = False
    stages: tuple[Stage, ...] = ()
    step: Count | None = None
    order: Count | None = None
    unseen: bool = False


class DirtyDevice(Document):
    """A device that was not seen free and is not given out. `job`, `attempt`, `task`: who left it so, where known."""

    device: OpaqueId
    reason: QuarantineReason
    detail: Annotated[str, Field(max_length=1000)] = ""
    reading: DeviceReading
    baseline: Count = 0
    job: Name | None = None
    attempt: Count | None = None
    task: Count | None = None


class ReportBody(MessageBody):
    """Base of all reports."""

    TYPE: ClassVar[str] = ""
    node: Name
    incarnation: OpaqueId
    number: Count


class NodeAnnounced(ReportBody):
    """Who the agent is and everything it holds: the first report of an incarnation, and again when asked.

    checkpoints: what is written in the folder in which its jobs keep checkpoints, where that is one that nodes share.
    """

    TYPE: ClassVar[str] = "bailiff.NodeAnnounced.v1"
    machine_id: OpaqueId
    boot_id: OpaqueId
    release: str
    cpu_milli: Count
    memory_bytes: Count
    max_tasks: Annotated[Integer, Field(ge=1)] = 1000
    labels: dict[Label, Label] = Field(default_factory=dict)
    devices: Annotated[tuple[DeviceFacts, ...], Field(max_length=64)] = ()
    tasks: tuple[TaskHeld, ...] = ()
    dirty: Annotated[tuple[DirtyDevice, ...], Field(max_length=64)] = ()
    checkpoints: OpaqueId | None = None
    fence: FenceSeen = FenceSeen()


class NodeHeartbeat(ReportBody):
    """Alive. `number` is that of the newest report, so that a lost one is noticed."""

    TYPE: ClassVar[str] = "bailiff.NodeHeartbeat.v1"
    fence: FenceSeen = FenceSeen()


class TaskReport(ReportBody):
    """Base of reports about one task. order: the seq that ordered what this is an answer to, where the agent knows it."""

    TYPE: ClassVar[str] = ""
    job: Name
    attempt: Count
    task: Count
    order: Count | None = None


class TaskIsRunning(TaskReport):
    """The process runs."""

    TYPE: ClassVar[str] = "bailiff.TaskIsRunning.v1"


class TaskNotStarted(TaskReport):
    """The command to start was refused, and why."""

    TYPE: ClassVar[str] = "bailiff.TaskNotStarted.v1"
    reason: Annotated[str, Field(max_length=1000)]


class EvictionStageReached(TaskReport, Stage):
    """The eviction of the task got this far."""

    TYPE: ClassVar[str] = "bailiff.EvictionStageReached.v1"


class TaskHasProgressed(TaskReport):
    """How far the task says it is, at most once in some seconds; `pace`: steps in 1,000 s.

    checkpoint: the newest one, committed `ago` µs before this was said.
    """

    TYPE: ClassVar[str] = "bailiff.TaskHasProgressed.v1"
    step: Count | None = None
    total: Count | None = None
    pace: Count = 0
    checkpoint: Checkpoint | None = None
    ago: Duration = 0


class TaskHasResumed(TaskReport):
    """The task goes on from a checkpoint; `passed_over` newer ones were damaged."""

    TYPE: ClassVar[str] = "bailiff.TaskHasResumed.v1"
    step: Count
    from_attempt: Count | None = None
    passed_over: Count = 0


class TaskEnded(TaskReport):
    """The main process ended. Negative: by that signal. `step`: the last one that it published. unseen: nobody saw how."""

    TYPE: ClassVar[str] = "bailiff.TaskEnded.v1"
    exit_code: Integer
    reason: Annotated[str, Field(max_length=1000)] = ""
    step: Count | None = None
    unseen: bool = False


class TaskIsReleased(TaskReport):
    """The process tree is gone, and each device was seen free or was reported dirty before."""

    TYPE: ClassVar[str] = "bailiff.TaskIsReleased.v1"
    before: tuple[DeviceReading, ...] = ()
    after: tuple[DeviceReading, ...] = ()
    host_before: HostReading | None = None
    host_after: HostReading | None = None


class TaskWasSpared(TaskReport):
    """The eviction was not obeyed and will not be."""

    TYPE: ClassVar[str] = "bailiff.TaskWasSpared.v1"


class TaskNotSpared(TaskReport):
    """The spare came too late: the eviction was obeyed."""

    TYPE: ClassVar[str] = "bailiff.TaskNotSpared.v1"
