"""`bailiff.requests`: what anyone who may submit publishes. The client chooses the CloudEvents `id`: repeats are harmless."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.document import Count, Document, Duration, Integer, Name, OpaqueId
from bailiff_core.model.policy import Policy

from .base import MessageBody

DOCKER_LABEL = "bailiff.runtime/docker"
"""A node that runs containers carries this label with the value `true`; a job with an image asks for it."""
IMAGE = r"^[a-zA-Z0-9][a-zA-Z0-9._/:@-]*$"


class JobSpec(Document):
    """The private part of a job: it goes to `bailiff.job-specs` and to the node, never into the audit log.

    command: a program with its arguments, or one line for the shell. runtime `simulated` runs no process
    (`BAILIFF_SIM_RUN_FOR` seconds long); `docker` runs a container of `image`.
    secrets: names that the node resolves, by the variable that holds the value.
    """

    command: Annotated[tuple[str, ...], Field(min_length=1)] | Annotated[str, Field(min_length=1)]
    env: dict[str, str] = Field(default_factory=dict)
    working_dir: str | None = None
    secrets: dict[str, str] = Field(default_factory=dict)
    runtime: Literal["process", "simulated", "docker"] = "process"
    image: Annotated[str, Field(min_length=1, max_length=1000, pattern=IMAGE)] | None = None


class RequestBody(MessageBody):
    """Base of all requests."""

    TYPE: ClassVar[str] = ""


class SubmitJob(RequestBody):
    """Run this job. `demand` is what decisions need; `spec` is what the node needs."""

    TYPE: ClassVar[str] = "bailiff.JobSubmitted.v1"
    demand: JobDemand
    spec: JobSpec


class CancelJob(RequestBody):
    """End this job, whatever it is doing."""

    TYPE: ClassVar[str] = "bailiff.JobCancelled.v1"
    job: Name
    reason: Annotated[str, Field(max_length=1000)] = ""


class ScaleJob(RequestBody):
    """Let the job ask for another number of tasks, of the task group `group`; min_tasks as before where left out."""

    TYPE: ClassVar[str] = "bailiff.JobScaled.v1"
    job: Name
    group: Count = 0
    tasks: Annotated[Integer, Field(ge=1, le=10_000)]
    min_tasks: Annotated[Integer, Field(ge=1)] | None = None


class SetJob(RequestBody):
    """Give a waiting job another priority class."""

    TYPE: ClassVar[str] = "bailiff.JobReclassified.v1"
    job: Name
    priority_class: Name


class EvictJob(RequestBody):
    """Make this job leave its place; it goes back to the queue."""

    TYPE: ClassVar[str] = "bailiff.JobEvictionAsked.v1"
    job: Name
    reason: Annotated[str, Field(max_length=1000)] = ""


class PauseJob(RequestBody):
    """Set this job aside: it saves its state, leaves, and has no place until it is unpaused."""

    TYPE: ClassVar[str] = "bailiff.JobPaused.v1"
    job: Name
    reason: Annotated[str, Field(max_length=1000)] = ""


class UnpauseJob(RequestBody):
    """Let a paused job go on: through the queue, from its last checkpoint."""

    TYPE: ClassVar[str] = "bailiff.JobUnpaused.v1"
    job: Name
    reason: Annotated[str, Field(max_length=1000)] = ""


class MigrateJob(RequestBody):
    """Move this job to `node`, or, left out, to other nodes than those it stands on: a place is kept for it first."""

    TYPE: ClassVar[str] = "bailiff.JobMigrationAsked.v1"
    job: Name
    node: Name | None = None
    reason: Annotated[str, Field(max_length=1000)] = ""


class DrainNode(RequestBody):
    """Give this node nothing new, and let it become empty.

    graceful: jobs that listen move where there is room, others may finish until the deadline and leave then; quick: they leave
    now, with their whole grace; fast: now, with the policy's short grace. deadline: from now on; left out with graceful: jobs
    may finish, whenever that is.
    """

    TYPE: ClassVar[str] = "bailiff.NodeDrained.v1"
    node: Name
    mode: Literal["graceful", "quick", "fast"] = "graceful"
    deadline: Duration | None = None
    reason: Annotated[str, Field(max_length=1000)] = ""


class UndrainNode(RequestBody):
    """Let this node take work again."""

    TYPE: ClassVar[str] = "bailiff.NodeUndrained.v1"
    node: Name
    reason: Annotated[str, Field(max_length=1000)] = ""


class ApplyPolicy(RequestBody):
    """Put this policy in force.

    expected_revision: the position of the policy that this one was made from; where another is in force by now, it is
    refused. enforce: jobs that it would not have admitted leave; without it a policy by itself evicts nobody.
    """

    TYPE: ClassVar[str] = "bailiff.PolicyApplied.v1"
    policy: Policy
    expected_revision: Count | None = None
    enforce: bool = False


class ReplaceNode(RequestBody):
    """An operator says that the machine `machine_id` may take the name `node`."""

    TYPE: ClassVar[str] = "bailiff.NodeReplaced.v1"
    node: Name
    machine_id: OpaqueId


class ReturnNode(RequestBody):
    """An operator says that silence may be judged again: of one node, or of the pool after `ReportsStale`."""

    TYPE: ClassVar[str] = "bailiff.NodeReturned.v1"
    node: Name | None = None


class AcceptTruncation(RequestBody):
    """An operator says to go on with a log that is shorter than what agents have obeyed."""

    TYPE: ClassVar[str] = "bailiff.TruncationAccepted.v1"
    epoch: Count
    seq: Count
    reason: Annotated[str, Field(max_length=1000)] = ""
