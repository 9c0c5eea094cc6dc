"""`bailiff.node-commands`: commands of admission and the executor to one node agent, with their fences."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bailiff_core.model.certificate import Key, Role, RootKeyChange
from bailiff_core.model.demand import Checkpointing, Port
from bailiff_core.model.document import Count, Document, Duration, Hash, Name, OpaqueId, SnapshotDriver
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.message import MessageBody
from bailiff_core.records.facts import X509


class RecordRef(Document):
    """The record that ordered this command; compared as the pair (epoch, seq)."""

    epoch: Count
    seq: Count


MAX_READERS = 1000
Sender = Literal["admission", "executor"]
ROLES: Mapping[Sender, Role] = {"admission": "admission", "executor": "eviction-executor"}
"""The role in the certificate of each sender of commands."""


class CommandBody(MessageBody):
    """Base of all commands. Other incarnations of the node ignore it. sender_epoch: the newest epoch that the sender has read.

    SENDERS: who may send it.
    """

    TYPE: ClassVar[str] = ""
    SENDERS: ClassVar[tuple[Sender, ...]] = ("admission",)
    node: Name
    incarnation: OpaqueId
    sender: Sender
    sender_epoch: Count


class Fence(CommandBody):
    """Admission commands of a lower epoch than `sender_epoch` are refused from now on.

    lease: how long the agent may be disconnected from Kafka before it stops its jobs. lost_margin: additional time until the
    node counts as lost; half of it is the jobs' time from notice to KILL. revoked_keys, root_key_changes: all of the pool's.
    log_end: seq of the newest record; commands of the executor that name one far beyond it are refused.
    """

    lease: Duration = 600_000_000
    lost_margin: Duration = 60_000_000
    revoked_keys: tuple[Key, ...] = ()
    root_key_changes: tuple[RootKeyChange, ...] = ()
    log_end: Count = 0


class SnapshotRef(Document):
    """A stored snapshot of the task: that of this attempt, by this driver (`park`: its processes). sha256: of its manifest."""

    attempt: Count
    driver: SnapshotDriver
    sha256: Hash
    bytes: Count


class TaskAssignment(Document):
    """One task of the job on this node, with its devices (ids), whole or the given share of each.

    restore: continue from this snapshot, if it is intact; else the task starts as it does without.
    """

    task: Count
    devices: tuple[OpaqueId, ...] = ()
    gpu_share_milli: Count | None = None
    gpu_share_bytes: Count | None = None
    cpu_milli: Count = 0
    memory_bytes: Count = 0
    rank: Count = 0
    local_rank: Count = 0
    restore: SnapshotRef | None = None


class JobCommand(CommandBody):
    """Base of commands about one attempt of one job."""

    TYPE: ClassVar[str] = ""
    ordered_by: RecordRef
    job: Name
    attempt: Count


class StartBase(JobCommand):
    """What both forms of a start command have. Ranks and sizes as in torchrun. user: who submitted the job.

    checkpoint: who saves its work in an eviction; with `snapshot` and `auto` its tasks are started so that they can be restored.
    """

    TYPE: ClassVar[str] = ""
    tasks: tuple[TaskAssignment, ...]
    grace: Duration
    node_rank: Count = 0
    nodes: Count = 1
    world_size: Count = 1
    local_world_size: Count = 1
    master_node: Name
    user: Annotated[str, Field(max_length=256)] = ""
    checkpoint: Checkpointing = "job"


class StartTask(StartBase):
    """Start these tasks of the gang."""

    spec: JobSpec


class EncryptedStartTask(StartBase):
    """Start these tasks of the gang, in a pool with a root key. encrypted_spec: the `JobSpec`, for the key of this node alone."""

    encrypted_spec: str


class SnapshotForm(Document):
    """How a snapshot is kept. readers: the X25519 keys of the nodes that alone can read it; None: it is not encrypted."""

    compressed: bool = False
    readers: Annotated[tuple[Key, ...], Field(max_length=MAX_READERS)] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether its files are kept as they are."""
        return not self.compressed and self.readers is None


class Evict(JobCommand):
    """Evict the job's tasks on this node: notice now, TERM after `term_after`, KILL after `grace`.

    Without `term_after`, and for tasks that have not subscribed to notices, TERM follows with the notice. respect_budgets: TERM
    is a request to Kubernetes' eviction API, repeated until a PodDisruptionBudget allows it or KILL is due. nominated: a bridge
    nominates pods of `for_job` to this node, and TERM waits a moment for that, so that no other pod gets what the task releases.
    save: with `snapshot` the node saves the tasks at once, in place of notice and TERM; with `auto` when TERM is due, unless the
    task has acknowledged the notice; with `none` nobody waits for a checkpoint. A task that cannot be saved gets TERM.
    together: all tasks of a gang are saved: each waits for `SnapshotStep` once it is frozen, and once it is stored. park: where
    it would be saved, it stays in memory instead, stopped, until it resumes here; if that fails, it is saved. form: how its
    snapshot is kept.
    """

    SENDERS: ClassVar[tuple[Sender, ...]] = ("admission", "executor")
    tasks: tuple[Count, ...]
    grace: Duration
    term_after: Duration | None = None
    cause: str
    for_job: Name | None = None
    respect_budgets: bool = False
    nominated: bool = False
    save: Checkpointing = "job"
    together: bool = False
    park: bool = False
    form: SnapshotForm = SnapshotForm()


class SaveTasks(JobCommand):
    """Save these running tasks, which go on, or parked ones, which end; `ordered_by` is what their reports name.

    together: all tasks of a gang are saved: each waits for `SnapshotStep` once it is frozen. form: how its snapshot is kept.
    """

    SENDERS: ClassVar[tuple[Sender, ...]] = ("executor",)
    tasks: tuple[Count, ...]
    together: bool = False
    form: SnapshotForm = SnapshotForm()


class CheckpointAtStep(JobCommand):
    """All tasks of the evicted gang save a checkpoint at this step. agreed: all ranks have confirmed the step."""

    SENDERS: ClassVar[tuple[Sender, ...]] = ("executor",)
    tasks: tuple[Count, ...]
    step: Count
    agreed: bool = False


class SnapshotStep(JobCommand):
    """What these tasks of a gang do next. Frozen for their snapshot: `dump`, `end` (all are stored) or `thaw` (one is not saved).

    Restored and standing still: `continue`, or `anew`: end, and start the command, because one was not restored.
    """

    SENDERS: ClassVar[tuple[Sender, ...]] = ("executor",)
    tasks: tuple[Count, ...]
    step: Literal["dump", "end", "thaw", "continue", "anew"]


class CancelEviction(JobCommand):
    """Cancel the eviction: withdraw notice and deadlines, unless the task yields already or has received TERM."""

    SENDERS: ClassVar[tuple[Sender, ...]] = ("executor",)
    tasks: tuple[Count, ...]


class AttachTask(JobCommand):
    """Let one client attach to this task, once: the holder of the certificate's private key, within `valid_for` of the arrival.

    requester: who asked, for the agent's log. port: the grant is for this port of the task, and for several connections.
    shell: it is for a shell beside the task.
    """

    task: Count
    port: Port | None = None
    shell: bool = False
    client_certificate: X509
    valid_for: Duration
    requester: Annotated[str, Field(max_length=300)] = ""


class TaskSnapshot(Document):
    """A stored snapshot of a task, or its parked processes. sha256: of its manifest; another one in its place is kept."""

    job: Name
    attempt: Count
    task: Count
    sha256: Hash


class RemoveSnapshots(CommandBody):
    """Remove these snapshots: their jobs have ended."""

    snapshots: Annotated[tuple[TaskSnapshot, ...], Field(max_length=1000)]


class SendInventory(CommandBody):
    """Send an inventory: admission has missed reports."""
