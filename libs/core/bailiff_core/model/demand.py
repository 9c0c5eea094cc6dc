"""Resource requests of a job: its task groups and placement rules, without private data (command, environment, paths)."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from .document import Count, Document, Duration, Integer, Label, Labels, MigProfile, Name, OpaqueId, sort_by_name

Placement = Literal["any", "prefer nvlink"]
Port = Annotated[Integer, Field(ge=1, le=65_535)]
"""A TCP port."""


class TaskGroup(Document):
    """`count` equal tasks. GPUs in thousandths of one (2000: two whole ones), CPU in millicores, memory in bytes.

    `gpu_share_milli` and `gpu_share_bytes` request a share of each of `gpu_devices` devices instead of whole ones;
    `mig_profile` requests `gpu_devices` MIG devices of that profile.
    """

    count: Annotated[Integer, Field(ge=1, le=10_000)] = 1
    gpu_milli: Count = 0
    cpu_milli: Count = 0
    memory_bytes: Count = 0
    gpu_share_milli: Annotated[Integer, Field(ge=100, le=1000)] | None = None
    gpu_share_bytes: Annotated[Integer, Field(ge=1)] | None = None
    gpu_devices: Annotated[Integer, Field(ge=1, le=64)] | None = None
    mig_profile: MigProfile | None = None
    gpu_models: tuple[Label, ...] = ()
    node_labels: Labels = Field(default_factory=dict)
    nodes: tuple[Name, ...] = ()
    sub_group: Name | None = None
    order: Integer | None = None


class SubGroup(Document):
    """A node in the tree of a gang: a leaf counts tasks (`min_tasks`), an inner group counts children (`min_groups`)."""

    name: Name
    parent: Name | None = None
    min_tasks: Count | None = None
    min_groups: Count | None = None
    topology: "TopologyRule | None" = None


class TopologyRule(Document):
    """Places the members within one topology domain of a level: always (`required`) or where possible (`preferred`)."""

    topology: Name
    required: Label | None = None
    preferred: Label | None = None


class Dependency(Document):
    """Another job of the pool that must succeed, or only end, before this one may start. `job`: its name at the submission."""

    job: Name
    until: Literal["succeeded", "ended"] = "succeeded"


class JobDemand(Document):
    """A gang of tasks, scheduled all or nothing. Omitted fields take the policy's defaults.

    grace: time from eviction notice to KILL; kill_after: the part of it from TERM to KILL. stale_grace: how long the gang may
    run below its minimum; never: it is not evicted for that. on_failure: after a task fails or is lost, the gang restarts
    (after failures at most `max_failures` times) or ends. restart_backoff: delay before the first restart, doubled for each
    further one. on_term: what exit code 0 after an eviction notice means: the task was preempted and starts again, or it has
    finished. elastic: how the number of tasks of a job with a minimum changes: live, or by restarting all tasks. The
    records of accepted jobs state both; where records of the first release lack them, they are 0 and live. placement: whether
    its GPUs should be on one island (GPUs of a node that NVLink connects) where possible; omitted: the policy's. after: jobs that
    this one waits for. ports: TCP ports that its tasks serve, which people may reach.
    """

    job: Name
    tasks: Annotated[tuple[TaskGroup, ...], Field(min_length=1, max_length=1000)]
    min_tasks: Annotated[Integer, Field(ge=1)] | None = None
    priority_class: Name | None = None
    preemptible: bool | None = None
    project: Name | None = None
    user: OpaqueId | None = None
    labels: Annotated[dict[Label, Label], Field(max_length=64), AfterValidator(sort_by_name)] = Field(default_factory=dict)
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
    on_failure: Literal["restart", "end"] = "restart"
    restart_backoff: Duration | None = None
    elastic: Literal["live", "restart"] | None = None
    pack: Literal["binpack", "spread"] | None = None
    placement: Placement | None = None
    after: Annotated[tuple[Dependency, ...], Field(max_length=100)] = ()
    ports: Annotated[tuple[Port, ...], Field(max_length=8)] = ()

    @model_validator(mode="after")
    def _gang_is_countable(self) -> "JobDemand":
        total = sum(group.count for group in self.tasks)
        if total > 10_000:
            raise ValueError(f"a job may have at most 10000 tasks, this one has {total}")
        if self.min_tasks is not None and self.min_tasks > total:
            raise ValueError(f"min_tasks is {self.min_tasks}, but the job has only {total} tasks")
        return self
