"""Facts: records of what came from outside (requests, nodes, tasks, proposals, evictions, the clock, the log itself)."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bailiff_core.model.certificate import Certificate, Key, RootKeyChange
from bailiff_core.model.demand import JobDemand, Port
from bailiff_core.model.document import Count, Document, Duration, Hash, Integer, Label, Labels, Name, OpaqueId, Time
from bailiff_core.model.identity import SignIn
from bailiff_core.model.policy import Policy
from bailiff_core.model.proposal import Proposal

from .payload import Fact

X509 = Annotated[str, Field(min_length=100, max_length=1000, pattern=r"^[A-Za-z0-9_-]+$")]
"""An X.509 certificate: DER, base64url."""

# --- the log itself


class RequestId(Document):
    """The client's own id of a request: a repeat has no second effect. vouched_by: who the signed-in user is, says the signer."""

    source: Annotated[str, Field(min_length=1, max_length=256)]
    id: Annotated[str, Field(min_length=1, max_length=256)]
    digest: Hash
    vouched_by: SignIn | None = None


class PoolCreated(Fact):
    """The first record of a pool. Its hash is the log's identity.

    root_key: the public key that certifies this pool's participants; without one, nothing in the log is signed. certificate: of
    the writer that created the pool.
    """

    format: Literal["bailiff-audit-1"] = "bailiff-audit-1"
    hash: Literal["sha256"] = "sha256"
    pool: Name
    partition: Count
    nonce: str
    root_key: Key | None = None
    certificate: Certificate | None = None

    def to_data(self) -> dict[str, object]:
        """All fields, defaults too: the log must state its format."""
        return self.model_dump(mode="json", exclude_none=True)


class PolicyApplied(Fact):
    """The policy in force from here on, complete. The first one of a log has no request.

    enforce: jobs that it would not admit are evicted; without it a policy by itself evicts no jobs.
    """

    policy: Policy
    request: RequestId | None = None
    enforce: bool = False

    def to_data(self) -> dict[str, object]:
        """All fields that were written, defaults too: a later release may have other defaults, and other fields."""
        return self.model_dump(mode="json", exclude_unset=True)


class WriterStarted(Fact):
    """A new writer. It closes a cycle that its predecessor left open, and holds all input positions.

    certificate: of the key that signs this writer's records, in a pool with a root key.
    """

    writer: str
    release: str
    digest: str
    logic: Count
    state_schema: Count
    inputs: dict[str, Count] = Field(default_factory=dict)
    certificate: Certificate | None = None


class KeyRevoked(Fact):
    """Nothing that this key signs from here on has an effect: not its records, commands, reports or requests."""

    key: Key
    request: RequestId | None = None
    reason: Annotated[str, Field(max_length=1000)] = ""


class RootKeyChanged(Fact):
    """Another root key certifies this pool's participants from here on. The key before it has signed the change."""

    change: RootKeyChange
    request: RequestId | None = None


class EnrolmentPermitted(Fact):
    """An operator permits one enrolment under this node's name: to the holder of the token's private key, or to that of `key`.

    token_key, key: public; one of them is set.
    """

    request: RequestId
    node: Name
    token_key: Key | None = None
    key: Key | None = None
    expires: Time


class NodeWaiting(Fact):
    """An agent announced itself under the name of a node that is not enrolled. key: its public key; an operator may permit it."""

    node: Name
    key: Key


class NodeEnrolled(Fact):
    """From here on reports of this node count only with this key, and what is meant for it alone is encrypted to encryption_key.

    by: certificate: of the root key; token or operator: as `EnrolmentPermitted` (its seq is permitted_by) says.
    """

    node: Name
    key: Key
    encryption_key: Key
    by: Literal["certificate", "token", "operator"]
    permitted_by: Count | None = None


class ClockAdvanced(Fact):
    """Log time reached a timer of the core."""


class ClockStepped(Fact):
    """The writer's clock jumped. `jump`: how far log time moved with it, µs; durations exclude it."""

    jump: Integer


class InputsAdvanced(Fact):
    """Input positions advanced without another record; they are in the record's `inputs`."""


class InputsLost(Fact):
    """The topic no longer has inputs that were not read yet."""

    topic: str
    partition: Count
    from_offset: Count
    to_offset: Count


class InputRejected(Fact):
    """An input without effect, and why. Its bytes are in a dead letter; the record has its digest and position.

    count: inputs of this source rejected since the last such record; this one is the newest. rule: for `not-permitted`, the
    rule that denies the request.
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
    rule: Annotated[str, Field(max_length=64)] | None = None


class StateDigest(Fact):
    """SHA-256 of the state after the record before this one."""

    schema_version: Count
    digest: Hash


class DecisionFailed(Fact):
    """Deciding about this job failed; it is blocked, other jobs are not affected."""

    job: Name
    error: Annotated[str, Field(max_length=2000)]


class LogTruncated(Fact):
    """The log is shorter than the commands that agents executed, up to (epoch, seq); an operator accepted the loss."""

    request: RequestId
    epoch: Count
    seq: Count
    reason: Annotated[str, Field(max_length=1000)] = ""


class TruncationReconciled(Fact):
    """After a truncation, all agents reported their tasks, and tasks unknown to the log have ended: starts continue."""


# --- requests


class JobSubmitted(Fact):
    """A job was accepted. Command, environment and paths are not here: `spec_digest` = SHA-256(salt ‖ spec).

    user: who submitted it; where node agents run as root, its tasks run as the user of that name. user_verified: whether that
    name was verified; the job then belongs to the user of that name, else to whoever claims the same name.
    """

    request: RequestId
    demand: JobDemand
    spec_digest: Hash
    user: Annotated[str, Field(max_length=256)] = ""
    user_verified: bool = False


class JobCancelled(Fact):
    """Cancellation of the job was requested."""

    request: RequestId
    job: Name
    reason: Annotated[str, Field(max_length=1000)] = ""


class JobScaled(Fact):
    """The number of tasks of the task group `group` (index into the demand) is changed to `tasks`."""

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
    """Migration of the job was requested: to `node`; omitted: to other nodes than its present ones."""

    request: RequestId
    job: Name
    node: Name | None = None
    reason: Annotated[str, Field(max_length=1000)] = ""


class NodeDrained(Fact):
    """An operator drains the node: nothing new is placed there, and its tasks are evicted.

    mode: graceful: at `deadline`, earlier only by migration or exit; quick: now, with full grace; fast: now, with the
    policy's short grace. deadline: time from now; omitted with graceful: none.
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
    """An operator allows another machine to take this node's name."""

    request: RequestId
    node: Name
    machine_id: OpaqueId


class NodeReturned(Fact):
    """An operator ends the hold on silent nodes: they are judged again like single ones. node: omitted: all."""

    request: RequestId
    node: Name | None = None


# --- nodes


MAX_DEVICES = 64
"""Devices of one node."""


class DeviceInfo(Document):
    """One device of a node's inventory: a GPU, or a MIG device (kind `mig`, with its profile) of the card `parent`.

    fault: why it is not healthy. island: GPUs of the node that NVLink (or one PCIe switch) connects have the same one.
    """

    id: OpaqueId
    kind: str = "gpu"
    model: Label
    memory_bytes: Count
    parent: OpaqueId | None = None
    healthy: bool = True
    labels: Labels = Field(default_factory=dict)
    fault: Annotated[str, Field(max_length=1000)] = ""
    profile: Annotated[str, Field(max_length=64)] = ""
    island: Annotated[str, Field(max_length=64)] = ""


class NodeJoined(Fact):
    """An agent incarnation announced itself; commands carry it from now on. Device numbers are list positions.

    checkpoint_store: identity of the checkpoint directory, where it is shared: nodes with the same one see the same files.
    announced: when the agent sent its inventory, as it signed it.
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
    devices: Annotated[tuple[DeviceInfo, ...], Field(max_length=MAX_DEVICES)] = ()
    checkpoint_store: OpaqueId | None = None
    announced: Time | None = None


class NodeRefused(Fact):
    """A second machine announced itself under a living node's name."""

    node: Name
    machine_id: OpaqueId
    reason: str


class NodeUnreachable(Fact):
    """No report from the node since `last_contact` (append time, µs). Nothing new is placed there."""

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
    """Reading of a device by the driver. memory_used: bytes."""

    device: OpaqueId
    memory_used: Count
    processes: Count


class DeviceFact(Fact):
    """Base of an agent's reports about one device."""

    KIND: ClassVar[Literal["fact", "decision"]] = "fact"
    node: Name
    device: OpaqueId


QuarantineReason = Literal["not-free", "hung", "foreign"]
UnhealthyReason = Literal["xid", "ecc", "row-remap", "lost", "driver"]


class DeviceQuarantined(DeviceFact):
    """The device was not seen free in time: it is not assigned before `DeviceCleared`.

    not-free: its task is gone, and processes or memory are left; hung: its task does not end even when killed; foreign:
    processes that belong to no task. baseline: memory in use when it was last free, bytes. job: the job that left it so.
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
    """The device may be used again: it was seen free, or an operator requested it. requested_by: the seq of that request.

    reading: None if a new incarnation of its agent no longer lists it as dirty.
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
    """Base of an agent's reports about one task of one attempt."""

    KIND: ClassVar[Literal["fact", "decision"]] = "fact"
    job: Name
    attempt: Count
    task: Count
    node: Name


class TaskStarted(TaskFact):
    """The task's process runs. devices: those that it got, where the node chose others than were allocated, as a kubelet does."""

    devices: tuple[OpaqueId, ...] = ()


class TaskStartRefused(TaskFact):
    """The agent did not start the task; the attempt fails."""

    reason: Annotated[str, Field(max_length=1000)]


class TaskExited(TaskFact):
    """The task's main process ended. Its resources are not free before `TaskReleased`. `step`: the last one that it published.

    unobserved: the exit was not observed, as after a reboot; remaining processes were killed. It counts as lost. done: the job
    had said that this was its end: its last step, or `done`.
    """

    exit_code: Integer
    reason: Annotated[str, Field(max_length=1000)] = ""
    step: Count | None = None
    unobserved: bool = False
    done: bool = False


class Checkpoint(Document):
    """A checkpoint that the task has committed, as it reports it. duration: of saving, µs.

    agreed: all ranks of the gang save this step; only such checkpoints can restore the gang.
    """

    step: Count
    bytes: Count
    duration: Count
    sha256: Hash
    agreed: bool = True


class TaskProgressed(TaskFact):
    """Progress that the task reports; only the newest of frequent reports is recorded.

    step_rate_milli: steps in 1,000 s. checkpoint: the newest one, committed `checkpoint_age` µs before the report, on the
    agent's clock.
    """

    step: Count | None = None
    total_steps: Count | None = None
    step_rate_milli: Count = 0
    checkpoint: Checkpoint | None = None
    checkpoint_age: Duration = 0


class TaskResumed(TaskFact):
    """The task continues with `step`, from a checkpoint of `from_attempt`.

    steps_lost: known steps of earlier attempts that are repeated. skipped_checkpoints: newer checkpoints that
    were damaged.
    """

    step: Count
    from_attempt: Count | None = None
    skipped_checkpoints: Count = 0
    steps_lost: Count = 0


class HostReading(Document):
    """Host resources of a task: processes, memory of its cgroup and scratch space, both in bytes."""

    processes: Count
    memory_bytes: Count = 0
    scratch_bytes: Count = 0


ReleaseEvidence = Literal["node", "api"]


class TaskReleased(TaskFact):
    """The process tree is gone, and each device is seen free or is quarantined: its resources are free.

    evidence: `node`: the agent on the node has seen it; `api`: another system says so, such as the Kubernetes API.
    """

    before: tuple[DeviceReading, ...] = ()
    after: tuple[DeviceReading, ...] = ()
    host_before: HostReading | None = None
    host_after: HostReading | None = None
    evidence: ReleaseEvidence = "node"


class ShareExceeded(TaskFact):
    """The task uses more of a shared device than its share. used_bytes, share_bytes: in use, allowed."""

    device: OpaqueId
    used_bytes: Count
    share_bytes: Count


class TaskIdle(TaskFact):
    """The task's GPUs were idle for `duration`; or, with `idle` false, are in use again."""

    idle: bool = True
    duration: Duration = 0


class JobSpecGranted(Fact):
    """The requester may read the job's private part: admission encrypts a copy for this X25519 key (base64url)."""

    request: RequestId
    job: Name
    encryption_key: Key


class AttachGranted(TaskFact):
    """The requester may attach to this running task once, with the private key of this X.509 certificate (DER, base64url).

    port: to this port of the task, by several connections; without one, to its terminal.
    """

    request: RequestId
    client_certificate: X509
    port: Port | None = None


class AttachReady(TaskFact):
    """The task's agent waits at this address for whom the record `grant` names.

    fingerprint: SHA-256 of the agent's own X.509 certificate, for this connection.
    """

    grant: Count
    address: Annotated[str, Field(min_length=3, max_length=300)]
    fingerprint: Hash


class AttachStarted(TaskFact):
    """The holder of the certificate has connected, and is attached to the task."""

    grant: Count


AttachEnd = Literal["detached", "task-ended", "expired", "agent-restarted", "no-terminal", "not-running", "not-offered", "failed"]


class AttachEnded(TaskFact):
    """The attachment has ended, or did not begin, for this reason. Nothing is recorded of what was typed or shown."""

    grant: Count
    reason: AttachEnd


class TaskVanished(TaskFact):
    """The log has it as running, the node's inventory does not: it has ended, its exit is unknown."""


EvictionStage = Literal[
    "noticed", "acknowledged", "step_confirmed", "step_agreed", "checkpoint_started", "saving_in_flight",
    "checkpoint_committed", "yielding", "term_sent", "kill_sent",
]  # fmt: skip


class Stage(Document):
    """How far a task's eviction came. `elapsed` is µs since the notice, on the agent's boot-time clock.

    step: of the stage; with `noticed`, the last one that the task published. attached, with `noticed`: the
    task listens for notices, so TERM follows `term_after` µs after the notice instead of with it; KILL follows
    `kill_after` µs after the notice. step_rate_milli: steps in 1,000 s, 0 unknown. stuck_in, with `term_sent` and
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
    """Proposals of victim selection for selection `selection`, computed on the state at `computed_at` (a seq).

    They are claims. That state has the requests and, in its policy, the step budget, so anybody can search again.
    """

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
