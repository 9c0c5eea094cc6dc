"""Facts about tasks: started, progressed, exited, released."""

from typing import Annotated, ClassVar, Literal

from bailiff_core.model.document import (
    Count,
    DeviceId,
    Document,
    Duration,
    Hash,
    Integer,
    JobName,
    MeasuredBytes,
    NodeName,
    Reason,
    SnapshotDriver,
)
from bailiff_core.model.privacy import PRIVATE
from bailiff_core.model.snapshot_offer import NotRestored

from .devices import DeviceReading
from .payload import Fact


class TaskFact(Fact):
    """Base of an agent's reports about one task of one attempt."""

    KIND: ClassVar[Literal["fact", "decision"]] = "fact"
    job: JobName
    attempt: Count
    task: Count
    node: NodeName


class TaskStarted(TaskFact):
    """The task's process runs.

    Attributes:
        devices: The devices that it got, where the node chose others than were allocated, as a kubelet does.
        damaged_checkpoints: How many checkpoints of this task in the job's directory cannot be read, newer than any that can.
        not_restored: Why it does not continue from the job's snapshot: `other-folder`: this node does not see its folder;
            `no-driver`: nothing here restores it; `other-cpu`: the CPU has other features; `other-node`: it was
            parked on another one; `other-tasks`: the job starts with others than were saved. For a gang, that of any of its
            tasks. Empty: it does, or there is none.
        lost_gpu_ms: The work that only this snapshot had.
    """

    devices: tuple[DeviceId, ...] = ()
    damaged_checkpoints: Count = 0
    not_restored: NotRestored = ""
    lost_gpu_ms: Count = 0


class TaskStartRefused(TaskFact):
    """The agent did not start the task; the attempt fails.

    Attributes:
        was_started: It had begun to start it before, and does not know what came of that.
        in_use: An earlier attempt on this node has not left yet what the task is to use.
    """

    reason: Reason
    was_started: bool = False
    in_use: bool = False

    @property
    def is_failed_start(self) -> bool:
        """Whether the attempt never started, for a reason that may last."""
        return not (self.was_started or self.in_use)


class TaskExited(TaskFact):
    """The task's main process ended. Its resources are not free before `TaskReleased`.

    Attributes:
        step: The last step that it published.
        unobserved: The exit was not observed, as after a reboot, or it never began; remaining processes were killed. It counts
            as lost.
        done: The job had said that this was its end: its last step, or `done`.
    """

    exit_code: Integer
    reason: Reason = ""
    step: Count | None = None
    unobserved: bool = False
    done: bool = False


class Checkpoint(Document):
    """A checkpoint that the task has committed, as it reports it.

    Attributes:
        duration: Duration of saving, µs.
        agreed: All ranks of the gang save this step; only such checkpoints can restore the gang.
    """

    step: Count
    bytes: MeasuredBytes
    duration: Count
    sha256: Hash
    agreed: bool = True


class TaskProgressed(TaskFact):
    """Progress that the task reports; only the newest of frequent reports is recorded.

    Attributes:
        step_rate_milli: Steps in 1,000 s.
        checkpoint: The newest checkpoint, committed `checkpoint_age` µs before the report, on the agent's clock.
    """

    step: Count | None = None
    total_steps: Annotated[Count | None, PRIVATE] = None
    step_rate_milli: Count = 0
    checkpoint: Checkpoint | None = None
    checkpoint_age: Duration = 0


class TaskResumed(TaskFact):
    """The task continues with `step`, from a checkpoint of `from_attempt`.

    Attributes:
        steps_lost: Known steps of earlier attempts that are repeated.
        skipped_checkpoints: Newer checkpoints that were damaged.
    """

    step: Count
    from_attempt: Count | None = None
    skipped_checkpoints: Count = 0
    steps_lost: Count = 0


class TaskRestored(TaskFact):
    """The task continues from the snapshot of `from_attempt`.

    Attributes:
        waits: It stands still until all tasks of its gang are restored; another such record follows when it continues.
        verified: How long it took to compare the snapshot with its digests, µs.
        restored: How long it took to restore it, µs.
    """

    from_attempt: Count
    driver: SnapshotDriver
    bytes: MeasuredBytes
    verified: Duration = 0
    restored: Duration = 0
    waits: bool = False


class TaskRestoreFailed(TaskFact):
    """The task was not restored; it started as it does without a snapshot. This snapshot is not tried again.

    Attributes:
        lost_gpu_ms: The work that only this snapshot had.
    """

    from_attempt: Count
    driver: SnapshotDriver
    reason: Reason
    lost_gpu_ms: Count = 0


class HostReading(Document):
    """Host resources of a task: processes, memory of its cgroup and scratch space, both in bytes.

    Attributes:
        scratch_is_more: Not all of the scratch space could be counted: it is at least `scratch_bytes`.
    """

    processes: Count
    memory_bytes: MeasuredBytes = 0
    scratch_bytes: MeasuredBytes = 0
    scratch_is_more: bool = False


ReleaseEvidence = Literal["node", "api"]


class TaskReleased(TaskFact):
    """The process tree is gone, and each device is seen free or is quarantined: its resources are free.

    Attributes:
        evidence: `node`: the agent on the node has seen it; `api`: another system says so, such as the Kubernetes API.
    """

    before: tuple[DeviceReading, ...] = ()
    after: tuple[DeviceReading, ...] = ()
    host_before: Annotated[HostReading | None, PRIVATE] = None
    host_after: Annotated[HostReading | None, PRIVATE] = None
    evidence: ReleaseEvidence = "node"


class ShareExceeded(TaskFact):
    """The task uses more of a shared device than its share.

    Attributes:
        used_bytes: Bytes in use.
        share_bytes: Allowed bytes.
    """

    device: DeviceId
    used_bytes: MeasuredBytes
    share_bytes: Count


class TaskIdle(TaskFact):
    """The task's GPUs were idle for `duration`; or, with `idle` false, are in use again."""

    idle: bool = True
    duration: Duration = 0


class TaskVanished(TaskFact):
    """The log has it as running, the node's inventory does not: it has ended, its exit is unknown."""
