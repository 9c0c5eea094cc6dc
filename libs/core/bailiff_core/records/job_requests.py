"""Requests about jobs, and the record that each leads to."""

from typing import Annotated, ClassVar, Literal

import orjson
from pydantic import Field

from bailiff_core.canonical import json_bytes
from bailiff_core.model.certificate import Key
from bailiff_core.model.demand import JobDemand, Port
from bailiff_core.model.document import ClassName, Count, Duration, Hash, Integer, JobName, NodeName
from bailiff_core.model.job_spec import JobSpec, spec_digest
from bailiff_core.model.privacy import PRIVATE, SECRET, placeholder, pseudonym

from .request import Recorded, RequestBody, RequestFact, leads_to
from .tasks import TaskFact

X509 = Annotated[str, Field(min_length=100, max_length=1000, pattern=r"^[A-Za-z0-9_-]+$")]
"""An X.509 certificate: DER, base64url."""


class SubmitJob(RequestBody):
    """Submit this job.

    Attributes:
        demand: The public part, used by decisions.
        spec: The private part, for the node.
        salt: Random bytes in hex, required in a signed request. The signed text has `spec_digest`, their digest, in place of
            `spec` and `salt`, so that the signature can be checked without the spec.
    """

    SENDER = "submitter"
    VERB = "submit"
    demand: JobDemand
    spec: JobSpec
    salt: Annotated[str, Field(min_length=32, max_length=128, pattern="^([0-9a-f]{2})+$"), SECRET] | None = None

    def public_data(self, data: bytes) -> bytes:
        """With a salt, the data with the digest of salt and spec in their place."""
        if self.salt is None:
            return data
        members = orjson.loads(data)
        digest = spec_digest(bytes.fromhex(members.pop("salt")), json_bytes(members.pop("spec")))
        return json_bytes(members | {"spec_digest": digest})


class JobSubmitted(RequestFact):
    """A job was accepted. Command, environment and paths are not here: `spec_digest` = SHA-256(salt ‖ spec).

    Attributes:
        user: Who submitted it; where node agents run as root, its tasks run as the user of that name.
        user_verified: Whether that name was verified. A verified job belongs to this user, any other to whoever claims the name.
    """

    demand: JobDemand
    spec_digest: Hash
    user: Annotated[str, Field(max_length=256), pseudonym("user")] = ""
    user_verified: Annotated[bool, PRIVATE] = False


leads_to(SubmitJob, JobSubmitted)


class JobChange(RequestBody):
    """Base of requests that change what becomes of a job."""

    TYPE: ClassVar[str] = ""
    job: Annotated[JobName, Field(description="The job's name.")]


Within = Annotated[
    Duration | None, Field(description="The most time until KILL, of an eviction in progress, too. Default: its grace.")
]


Hold = Annotated[
    Literal["", "kubernetes"],
    Field(description="Whose pause it is: the Kubernetes bridge's, or people's. A job is paused until nobody holds it."),
]
KeepFailedStarts = Annotated[
    bool, Field(description="What kept its attempts from starting is as before: they count, and it evicts nobody for them again.")
]


class CancelJob(JobChange):
    """Cancel this job, pending or running. Running tasks are notified and get their grace, at most that of the policy."""

    SENDER = "cancel"
    VERB = "cancel"
    DONE = "cancel accepted"
    grace: Within = None
    reason: Recorded = ""


class JobCancelled(RequestFact, CancelJob):
    """Cancellation of the job was requested."""


class ScaleJob(JobChange):
    """Change the number of tasks of a job.

    Running tasks keep running: tasks are added as resources become free, surplus tasks are evicted.
    """

    SENDER = "scale"
    VERB = "scale"
    DONE = "scaled to {tasks}"
    group: Annotated[Count, Field(description="Index of the job's task group, from 0.")] = 0
    tasks: Annotated[Integer, Field(ge=1, le=10_000, description="The new number of tasks.")]
    min_tasks: Annotated[
        Annotated[Integer, Field(ge=1)] | None,
        Field(description="Minimum number of tasks that must run. Default: unchanged; all for a rigid gang."),
    ] = None


class JobScaled(RequestFact, ScaleJob):
    """The number of tasks of the task group `group` (index into the demand) is changed to `tasks`."""


class SetPriorityClass(JobChange):
    """Change the priority class of a pending job. A running job keeps the class with which it was placed."""

    SENDER = "set_priority_class"
    VERB = "set-priority-class"
    DONE = "pending with class {priority_class}"
    priority_class: Annotated[ClassName, Field(description="The new priority class, as in `bailiff class list`.")]


class JobPriorityClassChanged(RequestFact, SetPriorityClass):
    """A pending job gets another priority class."""


class EvictJob(JobChange):
    """Evict this job with its grace; it returns to the queue at its old position."""

    SENDER = "evict"
    VERB = "evict"
    DONE = "eviction requested"
    grace: Within = None
    reason: Recorded = ""


class JobEvictionRequested(RequestFact, EvictJob):
    """Eviction of the job was requested; it goes back to the queue."""


class PauseJob(JobChange):
    """Suspend this job: it saves a checkpoint, is evicted, and gets no resources until it is resumed: bailiff resume"""

    SENDER = "pause"
    VERB = "pause"
    DONE = "paused"
    reason: Recorded = ""
    hold: Hold = ""


class JobPaused(RequestFact, PauseJob):
    """Pausing the job was requested: it gets no resources until it is resumed."""


class CheckpointJob(JobChange):
    """Save this running job by its nodes, where its `checkpoint` lets them; it goes on, and if it is lost, again from there."""

    SENDER = "pause"
    VERB = "checkpoint"
    DONE = "is being saved"
    reason: Recorded = ""


class JobCheckpointRequested(RequestFact, CheckpointJob):
    """The nodes of the job are asked to save it while it runs."""


class ResumeJob(JobChange):
    """Resume a paused job: it is pending again, and continues from its last checkpoint."""

    SENDER = "resume"
    VERB = "resume"
    DONE = "resumed"
    reason: Recorded = ""
    keep_failed_starts: KeepFailedStarts = False
    hold: Hold = ""


class JobResumed(RequestFact, ResumeJob):
    """The job was resumed: it is pending again."""


class MigrateJob(JobChange):
    """Move this job to `node`, or without one to nodes other than its current ones; the place is reserved first."""

    SENDER = "migrate"
    VERB = "migrate"
    node: NodeName | None = None
    reason: Recorded = ""


class JobMigrationRequested(RequestFact, MigrateJob):
    """Migration of the job was requested: to `node`; omitted: to other nodes than its present ones."""


class AttachJob(RequestBody):
    """Let the sender attach to this running task, with the private key of this X.509 certificate (DER, base64url).

    Attributes:
        port: A port that the job declares; None: the task's terminal.
        shell: A shell beside the task, as its user and with its resources, instead of its terminal.
    """

    SENDER = "attach"
    VERB = "attach"
    job: JobName
    task: Count
    client_certificate: Annotated[X509, placeholder("A" * 100)]
    port: Port | None = None
    shell: bool = False


class AttachGranted(RequestFact, AttachJob, TaskFact):
    """The requester may attach to this running task once, with the private key of this X.509 certificate (DER, base64url).

    port: to this port of the task, by several connections; shell: to a shell beside it; else to its terminal.
    """


class ReadJobSpec(RequestBody):
    """Encrypt the private part of this job (command, environment …) for this X25519 key (base64url), of the sender."""

    SENDER = "spec"
    VERB = "resubmit"
    job: JobName
    encryption_key: Annotated[Key, placeholder("A" * 43)]


class JobSpecGranted(RequestFact, ReadJobSpec):
    """The requester may read the job's private part: admission encrypts a copy for this X25519 key (base64url)."""
