"""Facts: records of what came from outside (requests, nodes, tasks, proposals, evictions, the clock, the log itself)."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.document import Count, Document, Duration, Hash, Integer, Label, Labels, Name, OpaqueId, Time
from bailiff_core.model.policy import Policy
from bailiff_core.model.proposal import Proposal

from .payload import Fact

# --- the log itself


class RequestId(Document):
    """The client's own id of a request: a repeat has no second effect."""

    source: Annotated[str, Field(min_length=1, max_length=256)]
    id: Annotated[str, Field(min_length=1, max_length=256)]
    digest: Hash


class PoolCreated(Fact):
    """The first record of a pool. Its hash is the log's identity."""

    format: Literal["bailiff-audit-1"] = "bailiff-audit-1"
    hash: Literal["sha256"] = "sha256"
    pool: Name
    partition: Count
    nonce: str

    def to_data(self) -> dict[str, object]:
        """All fields, defaults too: what the log's format is must stand in it."""
        return self.model_dump(mode="json")


class PolicyApplied(Fact):
    """The policy in force from here on, complete. The first one of a log has no request.

    enforce: jobs that it would not have admitted leave; without it a policy by itself evicts nobody.
    """

    policy: Policy
    request: RequestId | None = None
    enforce: bool = False

    def to_data(self) -> dict[str, object]:
        """All fields that were written, defaults too: a later release may have other defaults, and other fields."""
        return self.model_dump(mode="json", exclude_unset=True)


class WriterStarted(Fact):
    """A new writer. It closes a cycle that its predecessor left open, and holds all input positions."""

    writer: str
    release: str
    digest: str
    logic: Count
    state_schema: Count
    inputs: dict[str, Count] = Field(default_factory=dict)


class ClockAdvanced(Fact):
    """Log time reached a moment at which time alone leads to decisions."""


class ClockStepped(Fact):
    """The writer's clock jumped. `jump`: how far log time moved with it, µs; durations are counted without it."""

    jump: Integer


class InputsAdvanced(Fact):
    """Inputs moved on without a record of their own; the positions stand in the record's `inputs`."""


class InputsLost(Fact):
    """The topic no longer holds what the log had not read yet."""

    topic: str
    partition: Count
    from_offset: Count
    to_offset: Count


class InputRejected(Fact):
    """An input without effect, and why. Its bytes are a dead letter; here stand only its digest and position.

    `count` above 1: so many inputs of one source were rejected since the last such record, this being the newest.
    """

    ESSENTIAL: ClassVar[bool] = True
    topic: str
    partition: Count
    offset: Count
    digest: Hash
    code: str
    reason: Annotated[str, Field(max_length=2000)]
    source: Annotated[str, Field(max_length=256)] | None = None
    id: Annotated[str, Field(max_length=256)] | None = None
    job: Name | None = None
    count: Annotated[Integer, Field(ge=1)] = 1


class StateDigest(Fact):
    """SHA-256 of the state after the record before this one."""

    schema_version: Count
    digest: Hash


class DecisionFailed(Fact):
    """Deciding about this job failed; it is suspended, and the rest goes on."""

    job: Name
    error: Annotated[str, Field(max_length=2000)]


class LogTruncated(Fact):
    """The log was found shorter than what agents had obeyed, up to (epoch, seq); an operator says to go on."""

    request: RequestId
    epoch: Count
    seq: Count
    reason: Annotated[str, Field(max_length=1000)] = ""


class TruncationReconciled(Fact):
    """After a loss every agent has said what it runs, and what this log does not know has ended: starts go on."""


# --- requests


class JobSubmitted(Fact):
    """A job was accepted. Command, environment and paths are not here: `spec_digest` = SHA-256(salt ‖ spec).

    user: who submitted it, as its request proved that; where node agents are root its tasks run as the user of that name.
    """

    request: RequestId
    demand: JobDemand
    spec_digest: Hash
    user: Annotated[str, Field(max_length=256)] = ""


class JobCancelled(Fact):
    """Cancellation of the job was requested."""

    request: RequestId
    job: Name
    reason: Annotated[str, Field(max_length=1000)] = ""


class JobScaled(Fact):
    """The job asks for another number of tasks. `tasks` of the task group `group` (a list position of its demand)."""

    request: RequestId
    job: Name
    group: Count = 0
    tasks: Annotated[Integer, Field(ge=1, le=10_000)]
    min_tasks: Annotated[Integer, Field(ge=1)] | None = None


class JobPriorityClassChanged(Fact):
    """A pending job gets another priority class."""

    request: RequestId
    job: Name
    priority_class: Name


class JobEvictionRequested(Fact):
    """Eviction of the job was requested; it goes back to the queue."""

    request: RequestId
    job: Name
    reason: Annotated[str, Field(max_length=1000)] = ""


class JobPaused(Fact):
    """Pausing the job was requested: it gets no resources until it is resumed."""

    request: RequestId
    job: Name
    reason: Annotated[str, Field(max_length=1000)] = ""


class JobResumed(Fact):
    """The job was resumed: it is pending again."""

    request: RequestId
    job: Name
    reason: Annotated[str, Field(max_length=1000)] = ""


class JobMigrationRequested(Fact):
    """Migration of the job was requested: to `node`, or, left out, to other nodes than its present ones."""

    request: RequestId
    job: Name
    node: Name | None = None
    reason: Annotated[str, Field(max_length=1000)] = ""


class NodeDrained(Fact):
    """An operator drains the node: nothing new is placed there, and its tasks are evicted.

    mode: graceful: after `deadline`, and before it only by itself; quick: now, with its whole grace; fast: now, with the
    policy's short grace. deadline: from now on, by when the node is to be empty; left out with graceful: whenever.
    """

    request: RequestId
    node: Name
    mode: Literal["graceful", "quick", "fast"] = "graceful"
    deadline: Duration | None = None
    reason: Annotated[str, Field(max_length=1000)] = ""


class NodeUndrained(Fact):
    """An operator makes the node schedulable again."""

    request: RequestId
    node: Name
    reason: Annotated[str, Field(max_length=1000)] = ""


class NodeReplaced(Fact):
    """An operator says that another machine may take this node's name."""

    request: RequestId
    node: Name
    machine_id: OpaqueId


class NodeReturned(Fact):
    """An operator says that a node declared lost, or reports held stale, may be trusted again."""

    request: RequestId
    node: Name | None = None


# --- nodes


class DeviceInfo(Document):
    """One device of a node's inventory. fault: why it is not healthy, in words."""

    id: OpaqueId
    kind: str = "gpu"
    model: Label
    memory_bytes: Count
    parent: OpaqueId | None = None
    healthy: bool = True
    labels: Labels = Field(default_factory=dict)
    fault: Annotated[str, Field(max_length=1000)] = ""


class NodeJoined(Fact):
    """An agent incarnation announced itself; commands carry it from now on. Device numbers are list positions.

    checkpoint_store: the identity of the folder in which its jobs keep checkpoints, where that is shared: who has the same one
    sees
    the same files.
    """

    node: Name
    number: Count
    incarnation: OpaqueId
    machine_id: OpaqueId
    boot_id: OpaqueId
    report_number: Count
    cpu_milli: Count
    memory_bytes: Count
    max_tasks: Count = 1000
    labels: Labels = Field(default_factory=dict)
    devices: Annotated[tuple[DeviceInfo, ...], Field(max_length=64)] = ()
    checkpoint_store: OpaqueId | None = None


class NodeRefused(Fact):
    """A second machine announced itself under a living node's name."""

    node: Name
    machine_id: OpaqueId
    reason: str


class NodeUnreachable(Fact):
    """No word from the node since `last_contact` (append time, µs). Nothing new is placed there."""

    node: Name
    last_contact: Time


class NodeReachable(Fact):
    """The node reports again."""

    node: Name


class NodeLost(Fact):
    """The node's lease expired: its agent has stopped the jobs, or the machine is down."""

    node: Name
    last_contact: Time


class NodesSilent(Fact):
    """Too many nodes fell silent at once; none is declared lost until an operator says so."""

    nodes: tuple[Name, ...]


# --- devices


class DeviceReading(Document):
    """What the driver showed of a device."""

    device: OpaqueId
    memory_used: Count
    processes: Count


class DeviceFact(Fact):
    """Base of what an agent reports of one device."""

    KIND: ClassVar[Literal["fact", "decision"]] = "fact"
    node: Name
    device: OpaqueId


QuarantineReason = Literal["not-free", "hung", "foreign"]
UnhealthyReason = Literal["xid", "ecc", "row-remap", "lost", "driver"]


class DeviceQuarantined(DeviceFact):
    """The device was not seen free in time: nobody gets it before `DeviceCleared`.

    not-free: its task is gone, and processes or memory are left; hung: its task does not end even when killed; foreign:
    processes that belong to no task. baseline: memory in use when it was last free, bytes. job: who left it so.
    """

    reason: QuarantineReason
    detail: Annotated[str, Field(max_length=1000)] = ""
    reading: DeviceReading
    baseline: Count = 0
    job: Name | None = None
    attempt: Count | None = None
    task: Count | None = None


class DeviceClearRequested(DeviceFact):
    """An operator requested that the device be used again, whatever is seen on it."""

    request: RequestId
    reason: Annotated[str, Field(max_length=1000)]


class DeviceCleared(DeviceFact):
    """The device may be used again: it was seen free, or a person's word is taken for it. requested_by: the seq of that.

    Without a reading it stood no more among those that a new incarnation of its agent announced as dirty.
    """

    reading: DeviceReading | None = None
    requested_by: Count | None = None


class DeviceUnhealthy(DeviceFact):
    """The driver reports that the device is unhealthy. code: the Xid's number. Its tasks are evicted."""

    reason: UnhealthyReason
    code: Count | None = None
    detail: Annotated[str, Field(max_length=1000)] = ""


class DeviceHealthy(DeviceFact):
    """The device works again."""

    detail: Annotated[str, Field(max_length=1000)] = ""


# --- tasks


class TaskFact(Fact):
    """Base of what an agent reports of one task of one attempt."""

    KIND: ClassVar[Literal["fact", "decision"]] = "fact"
    job: Name
    attempt: Count
    task: Count
    node: Name


class TaskStarted(TaskFact):
    """The task's process runs."""


class TaskStartRefused(TaskFact):
    """The agent did not start the task; the attempt fails."""

    reason: Annotated[str, Field(max_length=1000)]


class TaskExited(TaskFact):
    """The task's main process ended. The room is not free before `TaskReleased`. `step`: the last one that it published.

    unobserved: nobody was there to see how, as after a reboot; what is left of it was killed. It counts as lost.
    """

    exit_code: Integer
    reason: Annotated[str, Field(max_length=1000)] = ""
    step: Count | None = None
    unobserved: bool = False


class Checkpoint(Document):
    """A checkpoint that the task has committed, in its own words. `duration`: what saving it took.

    agreed: all ranks of the gang save this step; without that it is of no use for restoring the gang.
    """

    step: Count
    bytes: Count
    duration: Count
    sha256: Hash
    agreed: bool = True


class TaskProgressed(TaskFact):
    """How far the task says it is: of a flood of such words the newest, now and then.

    step_rate_milli: steps in 1,000 s. checkpoint: the newest one, committed `checkpoint_age` µs before the report, on the
    agent's clock.
    """

    step: Count | None = None
    total_steps: Count | None = None
    step_rate_milli: Count = 0
    checkpoint: Checkpoint | None = None
    checkpoint_age: Duration = 0


class TaskResumed(TaskFact):
    """The task goes on with `step`, from a checkpoint of `from_attempt`.

    steps_lost: how many that earlier attempts are known to have done are done again. skipped_checkpoints: newer checkpoints that
    were damaged.
    """

    step: Count
    from_attempt: Count | None = None
    skipped_checkpoints: Count = 0
    steps_lost: Count = 0


class HostReading(Document):
    """What a task had of its machine, beside devices: living processes, memory of its cgroup, and scratch space, bytes."""

    processes: Count
    memory_bytes: Count = 0
    scratch_bytes: Count = 0


class TaskReleased(TaskFact):
    """The process tree is gone, and each device is seen free or is quarantined: the other room may be given to someone else."""

    before: tuple[DeviceReading, ...] = ()
    after: tuple[DeviceReading, ...] = ()
    host_before: HostReading | None = None
    host_after: HostReading | None = None


class ShareExceeded(TaskFact):
    """The task uses more of a shared device than it was given. May be used: `share_bytes`."""

    device: OpaqueId
    used_bytes: Count
    share_bytes: Count


class TaskIdle(TaskFact):
    """None of the task's GPUs has done anything for `duration`; or, with `idle` false, they work again."""

    idle: bool = True
    duration: Duration = 0


class TaskVanished(TaskFact):
    """The log held it for running, the node's inventory lacks it: it has ended, its exit unknown."""


EvictionStage = Literal[
    "noticed", "acknowledged", "step_confirmed", "step_agreed", "checkpoint_started", "saving_in_flight",
    "checkpoint_committed", "yielding", "term_sent", "kill_sent",
]  # fmt: skip


class Stage(Document):
    """How far a task's eviction came. `elapsed` is µs since the notice, on the agent's boot-time clock.

    step: that the stage is about; with `noticed`, the last one that the task published. attached, with `noticed`: the
    task has said that it listens for notices, so TERM waits until `term_after` µs after the notice instead of going with it;
    KILL comes `kill_after` µs after it. step_rate_milli: steps in 1,000 s, 0 unknown. stuck_in, with `term_sent` and
    `kill_sent`: the
    last stage before it; `noticed` means that the task never acknowledged.
    """

    stage: EvictionStage
    elapsed: Duration = 0
    step: Count | None = None
    attached: bool = False
    term_after: Duration | None = None
    kill_after: Duration | None = None
    step_rate_milli: Count = 0
    checkpoint: Checkpoint | None = None
    stuck_in: EvictionStage | None = None


class EvictionStageReached(TaskFact, Stage):
    """A stage of the task's eviction was reached."""


class TaskEvictionCancelled(TaskFact):
    """The agent confirms that the task's eviction is cancelled."""


class TaskCancelEvictionRefused(TaskFact):
    """The task had acknowledged, or got TERM, before the cancellation arrived; its eviction continues."""


# --- proposals and progress


class ProposalReceived(Fact):
    """Victim selection's answer to selection `selection`, computed on the state at `computed_at` (a seq)."""

    selection: Count
    computed_at: Count
    logic: Count
    proposals: tuple[Proposal, ...]


class EvictionStarted(Fact):
    """The executor starts the eviction: agents are notified from here on."""

    job: Name
    attempt: Count
    decided_by: Count


class PreemptionAbandoned(Fact):
    """The executor found that the preemption is not needed any more."""

    preemption: Count
    reason: str
