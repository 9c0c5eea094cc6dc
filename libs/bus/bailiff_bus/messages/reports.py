"""`bailiff.node-reports`: reports of node agents. Numbers are gap-free per incarnation; heartbeats have no own number."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bailiff_core.model.certificate import Key, Signature
from bailiff_core.model.document import Count, Document, Duration, Hash, Integer, Label, Name, OpaqueId, SnapshotDriver, Time
from bailiff_core.model.message import MessageBody
from bailiff_core.records import facts


class OrderEvidence(Document):
    """What a signed command leaves behind: the parts that its signature covers, with the digest for its data."""

    digest: Hash
    source: Annotated[str, Field(max_length=256)]
    id: Annotated[str, Field(max_length=256)]
    time: Time
    subject: Annotated[str, Field(pattern=r"^[^/]+/[^/]+/[0-9]{1,16}\.[0-9]{1,16}/[0-9]{1,16}$", max_length=256)]
    sig: Signature
    certificate: Annotated[str, Field(max_length=1024)]


class FenceStatus(Document):
    """The highest (epoch, seq) that the agent has obeyed, and the newest writer epoch that it has seen.

    A position above the log's head means that the log was truncated, if `evidence` shows it: the signed commands that named
    these positions.
    """

    epoch: Count = 0
    seq: Count = 0
    newest_epoch: Count | None = None
    evidence: Annotated[tuple[OrderEvidence, ...], Field(max_length=2)] = ()


class TrackedTask(Document):
    """One task in an inventory. `stages`: those that its eviction has reached, in order. step: the last one published.

    ordered_by: seq of the record that ordered its start; a task of an earlier start with the same index may still be present.
    unobserved: it ended while the agent was not running, or before it had begun. done: it had said that this was its end. parked:
    it is released, and its processes stay in memory, stopped. begun: its program runs, or has run.
    """

    job: Name
    attempt: Count
    task: Count
    devices: tuple[OpaqueId, ...] = ()
    state: Literal["running", "exited", "released"]
    exit_code: Integer | None = None
    reason: Annotated[str, Field(max_length=1000)] = ""
    stages: tuple[facts.Stage, ...] = ()
    step: Count | None = None
    ordered_by: Count | None = None
    unobserved: bool = False
    done: bool = False
    parked: bool = False
    begun: bool = True


class QuarantinedDevice(Document):
    """A device that was not seen free and is not allocated. `job`, `attempt`, `task`: its last task, if known."""

    device: OpaqueId
    reason: facts.QuarantineReason
    detail: Annotated[str, Field(max_length=1000)] = ""
    reading: facts.DeviceReading
    baseline: Count = 0
    job: Name | None = None
    attempt: Count | None = None
    task: Count | None = None


class Enrolment(Document):
    """What a node that is not enrolled yet shows. encryption_key: X25519, public; its other key is the message's `keyid`.

    token_signature: with the key of an enrolment token, over pool, node, `keyid` and encryption_key.
    """

    encryption_key: Key
    token_key: Key | None = None
    token_signature: Signature | None = None


class ReportBody(MessageBody):
    """Base of all reports. In a pool with a root key they are signed with the key that the node was enrolled with."""

    TYPE: ClassVar[str] = ""
    node: Name
    incarnation: OpaqueId
    number: Count


class NodeInventory(ReportBody):
    """The agent's identity and all its tasks and devices: the first report of an incarnation, and again on request.

    checkpoint_store: id stored in the checkpoint folder, if nodes share it. cordon: why another system lets nothing new be placed
    on the node, as a cordoned node of Kubernetes; empty: it does not; omitted: there is no such system. snapshots: the drivers
    that save and restore tasks here, or why they cannot. parking: what the node keeps for parked tasks.
    """

    machine_id: OpaqueId
    boot_id: OpaqueId
    release: str
    cpu_milli: Count
    memory_bytes: Count
    max_tasks: Annotated[Integer, Field(ge=1)] = 1000
    labels: dict[Label, Label] = Field(default_factory=dict)
    devices: Annotated[tuple[facts.DeviceInfo, ...], Field(max_length=facts.MAX_DEVICES)] = ()
    tasks: tuple[TrackedTask, ...] = ()
    quarantined: Annotated[tuple[QuarantinedDevice, ...], Field(max_length=facts.MAX_DEVICES)] = ()
    checkpoint_store: OpaqueId | None = None
    fence: FenceStatus = FenceStatus()
    enrolment: Enrolment | None = None
    cordon: Annotated[str, Field(max_length=500)] | None = None
    snapshots: Annotated[tuple[facts.SnapshotOffer, ...], Field(max_length=facts.MAX_SNAPSHOT_DRIVERS)] = ()
    parking: facts.ParkingOffer | None = None


class NodeHeartbeat(ReportBody):
    """The agent is alive. number: of its newest report, so that a lost report is detected.

    refused_commands: number of commands since the agent's start that no certified key had signed; refusal: why the newest one.
    left_folders: number of folders of ended tasks that the agent could not remove; left_example: the first, and why.
    exposed: what of the agent and its machine is in reach of jobs and should not be.
    """

    fence: FenceStatus = FenceStatus()
    refused_commands: Count = 0
    refusal: Annotated[str, Field(max_length=500)] = ""
    left_folders: Count = 0
    left_example: Annotated[str, Field(max_length=500)] = ""
    exposed: Annotated[str, Field(max_length=500)] = ""


class TaskReport(ReportBody):
    """Base of reports about one task. ordered_by: seq of the record that ordered the reported action, if known."""

    TYPE: ClassVar[str] = ""
    job: Name
    attempt: Count
    task: Count
    ordered_by: Count | None = None


class TaskStartedReport(TaskReport):
    """The process runs. devices: those that it got, where the node chose others than were allocated, as a kubelet does.

    damaged_checkpoints: those that cannot be read, newer than any that can.
    """

    devices: tuple[OpaqueId, ...] = ()
    damaged_checkpoints: Count = 0


class TaskStartRefusedReport(TaskReport):
    """The agent refused the command to start the task, for this reason.

    was_started: it had begun to start it before, and does not know what came of that. in_use: an earlier attempt on this node has
    not left yet what the task is to use.
    """

    reason: Annotated[str, Field(max_length=1000)]
    was_started: bool = False
    in_use: bool = False


class EvictionStageReport(TaskReport, facts.Stage):
    """The eviction of the task reached this stage."""


class SnapshotStageReport(TaskReport, facts.Stage):
    """A snapshot of the task, which goes on or is parked, reached this stage. ordered_by: seq of the record that ordered it.

    A parked one is gone with `park_lost`, which nothing orders.
    """


class TaskProgressReport(TaskReport):
    """Progress as reported by the task, at most once in a few seconds; `step_rate_milli`: steps per 1,000 s.

    checkpoint: the newest one, committed `checkpoint_age` µs before this report.
    """

    step: Count | None = None
    total_steps: Count | None = None
    step_rate_milli: Count = 0
    checkpoint: facts.Checkpoint | None = None
    checkpoint_age: Duration = 0


class TaskResumedReport(TaskReport):
    """The task continues from a checkpoint; `skipped_checkpoints` newer ones were damaged."""

    step: Count
    from_attempt: Count | None = None
    skipped_checkpoints: Count = 0


class TaskRestoredReport(TaskReport):
    """The task continues from the snapshot of `from_attempt`. verified, restored: how long it took, µs.

    waits: it stands still until all tasks of its gang are restored.
    """

    from_attempt: Count
    driver: SnapshotDriver
    bytes: Count
    verified: Duration = 0
    restored: Duration = 0
    waits: bool = False


class TaskRestoreFailedReport(TaskReport):
    """The task was not restored from the snapshot of `from_attempt`, for this reason; it started as it does without one."""

    from_attempt: Count
    driver: SnapshotDriver
    reason: Annotated[str, Field(max_length=1000)]


class TaskExitedReport(TaskReport):
    """The main process ended. Negative codes are signals. `step`: the last one published. unobserved: the agent missed it, or
    it never began.

    done: the job had said that this was its end.
    """

    exit_code: Integer
    reason: Annotated[str, Field(max_length=1000)] = ""
    step: Count | None = None
    unobserved: bool = False
    done: bool = False


class TaskReleasedReport(TaskReport):
    """The process tree is gone, and each device was seen free or was reported dirty before. evidence: as in `TaskReleased`."""

    before: tuple[facts.DeviceReading, ...] = ()
    after: tuple[facts.DeviceReading, ...] = ()
    host_before: facts.HostReading | None = None
    host_after: facts.HostReading | None = None
    evidence: facts.ReleaseEvidence = "node"


class TaskEvictionCancelledReport(TaskReport):
    """The eviction was not obeyed and will not be."""


class TaskCancelEvictionRefusedReport(TaskReport):
    """The cancellation came too late: the eviction was carried out."""


class AttachReadyReport(TaskReport):
    """The agent waits at this address for whom the record `grant` names. fingerprint: SHA-256 of its X.509 certificate."""

    grant: Count
    address: Annotated[str, Field(min_length=3, max_length=300)]
    fingerprint: Hash


class AttachStartedReport(TaskReport):
    """A client is attached to the task."""

    grant: Count


class AttachEndedReport(TaskReport):
    """An attachment has ended, or did not begin."""

    grant: Count
    reason: facts.AttachEnd
