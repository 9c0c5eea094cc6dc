"""`bailiff.requests`: requests of users and operators. The client chooses the CloudEvents `id`; repeats have no effect."""

import hashlib
from typing import Annotated, ClassVar, Literal

import orjson
from pydantic import Field

from bailiff_core.canonical import json_bytes
from bailiff_core.model.certificate import Key, RootKeyChange
from bailiff_core.model.demand import JobDemand, Port
from bailiff_core.model.document import Count, Document, Duration, Integer, Name, OpaqueId, Time
from bailiff_core.model.identity import SignIn
from bailiff_core.model.policy import Policy
from bailiff_core.records.facts import X509

from .base import MessageBody

EVERY_NODE_RUNTIMES = ("process", "simulated")
"""Runtimes that every node has."""
IMAGE = r"^[a-zA-Z0-9][a-zA-Z0-9._/:@-]*$"


CORDONED = "cordoned in Kubernetes: "
"""Begins the reason of a drain that follows a cordon. It ends with the cordon; a drain by an operator has another reason."""


def runtime_label(name: str) -> str:
    """A node that runs images with this runtime has this label with the value `true`; a job with an image requires it."""
    return f"bailiff.runtime/{name}"


def sharing_label(name: str) -> str:
    """A node where this runtime's tasks can have parts of a GPU has this label as well; a job that requests one requires it."""
    return f"bailiff.shared-gpus/{name}"


ADDED_LABELS = (runtime_label(""), sharing_label(""))
"""Begin the labels that admission adds to those that a task requires."""


class Workload(Document):
    """The Kubernetes object whose pods are the job's tasks, for example one of the group batch. Its own controller makes them."""

    api_version: Annotated[str, Field(min_length=1, max_length=253)]
    kind: Annotated[str, Field(min_length=1, max_length=63)]
    namespace: Annotated[str, Field(min_length=1, max_length=63)]
    name: Annotated[str, Field(min_length=1, max_length=253)]
    uid: Annotated[str, Field(min_length=1, max_length=64)]


class JobSpec(Document):
    """The private part of a job: it goes to `bailiff.job-specs` and to the node, never into the audit log.

    command: a program with its arguments, or one line for the shell; none for a workload. runtime `simulated` runs no process
    (`BAILIFF_SIM_RUN_FOR` seconds long); `docker` runs a container of `image`, `kubernetes` a pod. workload: the pods are not the
    node's to make; only the Kubernetes bridge may submit one.
    secrets: names that the node resolves, by the variable that holds the value. tty: run each task under a pseudo-terminal, to
    which people can attach.
    """

    command: Annotated[tuple[str, ...], Field(min_length=1)] | Annotated[str, Field(min_length=1)] | None = None
    env: dict[str, str] = Field(default_factory=dict)
    working_dir: str | None = None
    secrets: dict[str, str] = Field(default_factory=dict)
    runtime: Name = "process"
    image: Annotated[str, Field(min_length=1, max_length=1000, pattern=IMAGE)] | None = None
    tty: bool = False
    workload: Workload | None = None


class RequestBody(MessageBody):
    """Base of all requests. vouched_by: in a signed request for a signed-in user: who that is."""

    TYPE: ClassVar[str] = ""
    vouched_by: SignIn | None = None


class SubmitJob(RequestBody):
    """Submit this job. demand: the public part, used by decisions. spec: the private part, for the node.

    salt: random bytes in hex, required in a signed request: what is signed has, in place of `spec` and `salt`, their digest
    `spec_digest`, so that the signature can be checked without the spec.
    """

    TYPE: ClassVar[str] = "bailiff.SubmitJob.v1"
    demand: JobDemand
    spec: JobSpec
    salt: Annotated[str, Field(min_length=32, max_length=128, pattern="^([0-9a-f]{2})+$")] | None = None

    def public_data(self, data: bytes) -> bytes:
        """With a salt, the data with the digest of salt and spec in their place."""
        if self.salt is None:
            return data
        members = orjson.loads(data)
        digest = spec_digest(bytes.fromhex(members.pop("salt")), json_bytes(members.pop("spec")))
        return json_bytes(members | {"spec_digest": digest})


def spec_of(data: bytes) -> bytes:
    """The private part of a submission's data as sent, as canonical JSON."""
    return json_bytes(orjson.loads(data)["spec"])


def spec_digest(salt: bytes, spec: bytes) -> str:
    """SHA-256(salt ‖ canonical JSON of the spec), in hex."""
    return hashlib.sha256(salt + spec).hexdigest()


class CancelJob(RequestBody):
    """Cancel this job, whatever its state."""

    TYPE: ClassVar[str] = "bailiff.CancelJob.v1"
    job: Name
    reason: Annotated[str, Field(max_length=1000)] = ""


class ScaleJob(RequestBody):
    """Change the number of tasks of the task group `group`; `min_tasks` is unchanged if left out."""

    TYPE: ClassVar[str] = "bailiff.ScaleJob.v1"
    job: Name
    group: Count = 0
    tasks: Annotated[Integer, Field(ge=1, le=10_000)]
    min_tasks: Annotated[Integer, Field(ge=1)] | None = None


class SetPriorityClass(RequestBody):
    """Give a pending job another priority class."""

    TYPE: ClassVar[str] = "bailiff.SetPriorityClass.v1"
    job: Name
    priority_class: Name


class EvictJob(RequestBody):
    """Evict this job; it goes back to the queue."""

    TYPE: ClassVar[str] = "bailiff.EvictJob.v1"
    job: Name
    reason: Annotated[str, Field(max_length=1000)] = ""


class PauseJob(RequestBody):
    """Suspend this job: it checkpoints, is evicted, and gets no resources until it is resumed."""

    TYPE: ClassVar[str] = "bailiff.PauseJob.v1"
    job: Name
    reason: Annotated[str, Field(max_length=1000)] = ""


class ResumeJob(RequestBody):
    """Resume a paused job: it is pending again, and continues from its last checkpoint."""

    TYPE: ClassVar[str] = "bailiff.ResumeJob.v1"
    job: Name
    reason: Annotated[str, Field(max_length=1000)] = ""


class MigrateJob(RequestBody):
    """Move this job to `node`, or without one to nodes other than its current ones; the place is reserved first."""

    TYPE: ClassVar[str] = "bailiff.MigrateJob.v1"
    job: Name
    node: Name | None = None
    reason: Annotated[str, Field(max_length=1000)] = ""


class AttachJob(RequestBody):
    """Let the sender attach to this running task, with the private key of this X.509 certificate (DER, base64url).

    port: to this port that the job declares; without one, to its terminal.
    """

    TYPE: ClassVar[str] = "bailiff.AttachJob.v1"
    job: Name
    task: Count
    client_certificate: X509
    port: Port | None = None


class ReadJobSpec(RequestBody):
    """Encrypt the private part of this job (command, environment …) for this X25519 key (base64url), of the sender."""

    TYPE: ClassVar[str] = "bailiff.ReadJobSpec.v1"
    job: Name
    encryption_key: Key


class DrainNode(RequestBody):
    """Place nothing new on this node, and empty it.

    graceful: jobs that handle eviction notices move if they fit elsewhere; others may finish until the deadline, then they are
    evicted. quick: jobs are evicted now, with their full grace. fast: now, with the policy's short grace. deadline: from now on;
    without one, graceful lets jobs finish.
    """

    TYPE: ClassVar[str] = "bailiff.DrainNode.v1"
    node: Name
    mode: Literal["graceful", "quick", "fast"] = "graceful"
    deadline: Duration | None = None
    reason: Annotated[str, Field(max_length=1000)] = ""


class UndrainNode(RequestBody):
    """Make this node schedulable again."""

    TYPE: ClassVar[str] = "bailiff.UndrainNode.v1"
    node: Name
    reason: Annotated[str, Field(max_length=1000)] = ""


class ApplyPolicy(RequestBody):
    """Put this policy in force.

    expected_revision: revision of the policy that this one is based on; the request is rejected if another is in force. enforce:
    evict jobs that this policy would not admit; without it, applying a policy evicts no job.
    """

    TYPE: ClassVar[str] = "bailiff.ApplyPolicy.v1"
    policy: Policy
    expected_revision: Count | None = None
    enforce: bool = False


class ReplaceNode(RequestBody):
    """Let the machine `machine_id` take the name `node`; an operator's request."""

    TYPE: ClassVar[str] = "bailiff.ReplaceNode.v1"
    node: Name
    machine_id: OpaqueId


class ReturnNode(RequestBody):
    """Evaluate the silence of a node, or of the pool after `NodesSilent`, again; an operator's request."""

    TYPE: ClassVar[str] = "bailiff.ReturnNode.v1"
    node: Name | None = None


class AcceptTruncation(RequestBody):
    """Continue with a log that ends before commands that agents have obeyed; an operator's request."""

    TYPE: ClassVar[str] = "bailiff.AcceptTruncation.v1"
    epoch: Count
    seq: Count
    reason: Annotated[str, Field(max_length=1000)] = ""


class EnrolNode(RequestBody):
    """Permit one agent to enrol under this node's name, until `expires`; an operator's request.

    Either token_key: public half of a token's key; or key: the agent's own public key, as in `bailiff nodes`.
    """

    TYPE: ClassVar[str] = "bailiff.EnrolNode.v1"
    node: Name
    token_key: Key | None = None
    key: Key | None = None
    expires: Time


class RevokeKey(RequestBody):
    """Nothing that this key signs has an effect any more; an operator's request."""

    TYPE: ClassVar[str] = "bailiff.RevokeKey.v1"
    key: Key
    reason: Annotated[str, Field(max_length=1000)] = ""


class ChangeRootKey(RequestBody):
    """Let another root key certify this pool's participants; signed with the present one; an operator's request."""

    TYPE: ClassVar[str] = "bailiff.ChangeRootKey.v1"
    change: RootKeyChange
