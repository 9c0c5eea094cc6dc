"""Resource requests of a job: its task groups and placement rules, without private data (command, environment, paths)."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from .document import (
    ClassName,
    Count,
    Document,
    Duration,
    GpuModel,
    Integer,
    JobName,
    Label,
    Labels,
    MigProfile,
    Name,
    NodeName,
    OpaqueId,
    ProjectName,
    Time,
    sort_by_name,
)
from .privacy import Treatment, pseudonym

Placement = Literal["any", "prefer nvlink"]
Checkpointing = Literal["job", "snapshot", "auto", "none"]
"""Who saves a job's work in an eviction (`model/snapshots.py`)."""
Port = Annotated[Integer, Field(ge=1, le=65_535)]
"""A TCP port."""


class TaskGroup(Document):
    """`count` equal tasks. GPUs in thousandths of one (2000: two whole ones), CPU in millicores, memory in bytes.

    `gpu_share_milli` and `gpu_share_bytes` request a share of each of `gpu_devices` devices instead of whole ones;
    `mig_profile` requests `gpu_devices` MIG devices of that profile. `nodes` are the only ones that it may use, if any are
    named; `excluded_nodes` are those that it may not.
    """

    count: Annotated[Integer, Field(ge=1, le=10_000)] = 1
    gpu_milli: Count = 0
    cpu_milli: Count = 0
    memory_bytes: Count = 0
    gpu_share_milli: Annotated[Integer, Field(ge=100, le=1000)] | None = None
    gpu_share_bytes: Annotated[Integer, Field(ge=1)] | None = None
    gpu_devices: Annotated[Integer, Field(ge=1, le=64)] | None = None
    mig_profile: MigProfile | None = None
    gpu_models: tuple[GpuModel, ...] = ()
    node_labels: Labels = Field(default_factory=dict)
    nodes: tuple[NodeName, ...] = ()
    excluded_nodes: tuple[NodeName, ...] = ()
    sub_group: Annotated[Name, pseudonym("group")] | None = None
    order: Integer | None = None


class SubGroup(Document):
    """A node in the tree of a gang: a leaf counts tasks (`min_tasks`), an inner group counts children (`min_groups`)."""

    name: Annotated[Name, pseudonym("group")]
    parent: Annotated[Name, pseudonym("group")] | None = None
    min_tasks: Count | None = None
    min_groups: Count | None = None
    topology: "TopologyRule | None" = None


class TopologyRule(Document):
    """Places the members within one topology domain of a level: always (`required`) or where possible (`preferred`)."""

    topology: Annotated[Name, pseudonym("topology")]
    required: Annotated[Label, pseudonym("label")] | None = None
    preferred: Annotated[Label, pseudonym("label")] | None = None


class Dependency(Document):
    """Another job of the pool that must succeed, or only end, before this one may start.

    Attributes:
        job: Its name at the submission.
    """

    job: JobName
    until: Literal["succeeded", "ended"] = "succeeded"


class JobDemand(Document):
    """A gang of tasks, scheduled all or nothing. Omitted fields take the policy's defaults.

    What makes the job harder to evict is a claim: it holds as far as the policy's `claims` grant it.

    Attributes:
        preemptible: Whether it may be preempted; `false` is a claim.
        labels: That the policy protects jobs with some labels is a claim of the job that has them.
        preemption_delay: How long it is pending before it may preempt; a shorter one than the policy's is a claim.
        grace: Time from eviction notice to KILL; a claim.
        kill_after: The part of the grace from TERM to KILL.
        stale_grace: How long the gang may run below its minimum; never: it is not evicted for that. A claim.
        on_failure: Whether the gang restarts after a task fails or is lost, or ends. After failures it restarts at most
            `max_failures` times. Or `replace`, for tasks that serve: one that ends, with whatever exit code, is lost, and the
            others run on while the job has its minimum.
        restart_backoff: Delay before the first restart, doubled for each further one; at least the policy's.
        on_term: What exit code 0 after an eviction notice means: the task was preempted and starts again, or it has finished.
        elastic: How the number of tasks of a job with a minimum changes: live, or by restarting all tasks; live where the record
            omits it.
        placement: Whether its GPUs should be on one island (GPUs of a node that NVLink connects) where possible; omitted: the
            policy's.
        after: Jobs that this one waits for.
        begin: Time, µs UTC, before which it is not in the queue.
        ports: TCP ports that its tasks serve, which people may reach.
        checkpoint: Who saves its work in an eviction. `job`: it saves checkpoints itself; `snapshot`: the node saves the task, at
            once; `auto`: the node does if the job has not acknowledged the notice when TERM is due; `none`: nobody does, and TERM
            is sent at once. Omitted: as its class says.
        checkpoint_every: How often its nodes save it while it runs, at most as often as the policy allows; omitted: never.
    """

    job: JobName
    tasks: Annotated[tuple[TaskGroup, ...], Field(min_length=1, max_length=1000)]
    min_tasks: Annotated[Integer, Field(ge=1)] | None = None
    priority_class: ClassName | None = None
    preemptible: bool | None = None
    project: ProjectName | None = None
    user: Annotated[OpaqueId, pseudonym("user")] | None = None
    labels: Annotated[dict[Label, Label], Field(max_length=64), AfterValidator(sort_by_name), Treatment("labels")] = Field(
        default_factory=dict
    )
    sub_groups: Annotated[tuple[SubGroup, ...], Field(max_length=1000)] = ()
    topology: TopologyRule | None = None
    grace: Duration | None = None
    kill_after: Duration | None = None
    run_time_limit: Duration | None = None
    preemption_delay: Duration | None = None
    stale_grace: Duration | Literal["never"] | None = None
    on_eviction: Literal["requeue", "end"] = "requeue"
    on_term: Literal["restart", "finish"] = "restart"
    max_failures: Annotated[Integer, Field(ge=0, le=1000)] | None = None
    on_failure: Literal["restart", "end", "replace"] = "restart"
    restart_backoff: Duration | None = None
    elastic: Literal["live", "restart"] | None = None
    pack: Literal["binpack", "spread"] | None = None
    placement: Placement | None = None
    after: Annotated[tuple[Dependency, ...], Field(max_length=100)] = ()
    begin: Time | None = None
    ports: Annotated[tuple[Port, ...], Field(max_length=8)] = ()
    checkpoint: Checkpointing | None = None
    checkpoint_every: Annotated[Duration, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _gang_is_countable(self) -> "JobDemand":
        total = sum(group.count for group in self.tasks)
        if total > 10_000:
            raise ValueError(f"a job may have at most 10000 tasks, this one has {total}")
        if self.min_tasks is not None and self.min_tasks > total:
            raise ValueError(f"min_tasks is {self.min_tasks}, but the job has only {total} tasks")
        return self
