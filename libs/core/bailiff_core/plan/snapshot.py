"""Schema of a snapshot file: nodes, projects, jobs with their tasks, policy, and the current time."""

import json
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from bailiff_core.model.demand import Placement, SubGroup, TopologyRule
from bailiff_core.model.document import Count, Document, Duration, Integer, Label, Labels, MigProfile, Name, OpaqueId
from bailiff_core.model.policy import DEFAULT_POLICY, Policy, Project, Topology
from bailiff_core.model.references import names_of

from .parsing import DEFAULT_NOW, Bytes, Cpus, Gpus, Grace, MemoryPart, Moment, Part, moment

TaskState = Literal["pending", "running", "reserved", "releasing", "stuck_releasing", "succeeded", "failed"]
MAX_TASKS = 10_000
DEVICE_MEMORY = 80 * 2**30
SHIPPED_CLASSES = [entry.to_data() for entry in DEFAULT_POLICY.priority_classes]


class ProjectDoc(Project):
    """A project as in the policy; `created` may be in any time format."""

    created: Moment = 0


def as_text(value: Any) -> Any:
    """Converts an id that was written as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def as_list(value: Any) -> Any:
    """Accepts one name in place of a list."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def as_ids(value: Any) -> Any:
    """Accepts one id or several, as text or as numbers."""
    found = [value] if isinstance(value, str | int) and not isinstance(value, bool) else value
    return tuple(as_text(each) for each in found) if isinstance(found, list) else found


DeviceIds = Annotated[tuple[OpaqueId, ...], BeforeValidator(as_ids)]
Names = Annotated[tuple[Name, ...], BeforeValidator(as_list)]
LabelTexts = Annotated[tuple[Label, ...], BeforeValidator(as_list)]


class DeviceDoc(Document):
    """One GPU, by its id on the node; with `mig`, a MIG device of this profile.

    Attributes:
        island: The same for GPUs that NVLink connects.
        healthy: An unhealthy one is assigned to no task.
    """

    id: Annotated[OpaqueId, BeforeValidator(as_text)]
    model: Label = "gpu"
    memory: Annotated[Bytes, Field(ge=1)] = DEVICE_MEMORY
    labels: Labels = Field(default_factory=dict)
    mig: MigProfile | None = None
    island: Annotated[str, Field(max_length=64)] = ""
    healthy: bool = True


class NodeDoc(Document):
    """One node. Its GPUs are counted (`gpus`, all of one model and memory, with ids 0, 1, ...) or listed (`devices`).

    Attributes:
        drained: No new tasks are placed on it; its tasks continue.
    """

    name: Name
    gpus: Annotated[Integer, Field(ge=0, le=64)] | None = None
    gpu_model: Label = "gpu"
    gpu_memory: Annotated[Bytes, Field(ge=1)] = DEVICE_MEMORY
    devices: Annotated[tuple[DeviceDoc, ...], Field(max_length=64)] | None = None
    cpus: Cpus = 0
    memory: Bytes = 0
    max_tasks: Count = 1000
    labels: Labels = Field(default_factory=dict)
    drained: bool = False


class TaskFields(Document):
    """Requirements and place of a task. On a job, they are the defaults of its tasks.

    Attributes:
        gpus: Whole GPUs, or a fraction below 1.
        fraction: Fraction of each of `gpu_devices` GPUs; `0.5 x 2` sets both.
        gpu_memory: Memory of each of `gpu_devices` GPUs; `10GiB x 2` sets both.
        mig: A MIG device of this profile, or `gpu_devices` of them.
        node: The node it runs on; `devices` are its GPUs there, by id.
        nodes: Nodes that it may run on.
        state: Default: running if a node is given, else pending.
        order: Higher ones are placed first and evicted last.
    """

    gpus: Gpus | None = None
    fraction: Part | None = None
    gpu_memory: MemoryPart | None = None
    mig: MigProfile | None = None
    gpu_devices: Annotated[Integer, Field(ge=1, le=64)] | None = None
    gpu_models: LabelTexts | None = None
    cpus: Cpus | None = None
    memory: Bytes | None = None
    node_labels: Labels | None = None
    nodes: Names | None = None
    sub_group: Name | None = None
    order: Integer | None = None
    state: TaskState | None = None
    node: Name | None = None


class TaskDoc(TaskFields):
    """`count` equal tasks. Tasks without a name are named after their job: `train-0`, `train-1`."""

    name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    count: Annotated[Integer, Field(ge=1, le=MAX_TASKS)] = 1
    devices: DeviceIds = ()


def as_tasks(value: Any) -> Any:
    """Accepts a number of equal tasks in place of their list.

    Raises:
        ValueError: If it is invalid.
    """
    if isinstance(value, list):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_TASKS:
        raise ValueError(f"expected a list of tasks, or how many equal ones, from 1 to {MAX_TASKS}; found {value!r}")
    return [{"count": value}]


class JobDoc(TaskFields):
    """A gang.

    `class` and `priority` exclude each other; a plain number of 100 or more is not preemptible by default.

    Attributes:
        tasks: A list, or the number of equal tasks; default: one.
        submitted: Default: `now`.
        last_start: Default: `submitted`.
        evicted_at: Times of involuntary evictions, which `evictions` counts.
        stale_since: Since when a running gang lacks a required task; default: `now`.
        elastic: How a job with a minimum changes its number of tasks; default: as for a submitted job.
        backfilled: It started while a job ahead of it in the queue was waiting for resources there.
        paused: It has no placement and is not scheduled.
    """

    name: Name
    project: Name | None = None
    priority_class: Annotated[Name | None, Field(alias="class")] = None
    priority: Integer | None = None
    preemptible: bool | None = None
    tasks: Annotated[tuple[TaskDoc, ...], BeforeValidator(as_tasks), Field(min_length=1, max_length=10_000, strict=False)] = (
        TaskDoc(),
    )
    devices: DeviceIds = ()
    min_tasks: Annotated[Integer, Field(ge=1)] | None = None
    elastic: Literal["live", "restart"] | None = None
    submitted: Moment | None = None
    last_start: Moment | None = None
    last_eviction: Moment | None = None
    last_checkpoint: Moment | None = None
    evicted_at: tuple[Moment, ...] = ()
    evictions: Count | None = None
    preemption_delay: Duration | None = None
    on_eviction: Literal["requeue", "end"] = "requeue"
    stale_since: Moment | None = None
    stale_grace: Grace | None = None
    sub_groups: tuple[SubGroup, ...] = ()
    topology: TopologyRule | None = None
    run_time_limit: Duration | None = None
    grace: Duration | None = None
    labels: Labels = Field(default_factory=dict)
    user: OpaqueId | None = None
    pack: Literal["binpack", "spread"] | None = None
    placement: Placement | None = None
    backfilled: bool = False
    paused: bool = False


class Snapshot(Document):
    """A pool at one point in time. Only `nodes` is required.

    Attributes:
        reclaimed_at: When a project was last reclaimed from.
    """

    now: Moment = DEFAULT_NOW
    nodes: tuple[NodeDoc, ...]
    topologies: tuple[Topology, ...] = ()
    projects: tuple[ProjectDoc, ...] = ()
    jobs: tuple[JobDoc, ...] = ()
    policy: Policy
    reclaimed_at: dict[Name, Moment] = Field(default_factory=dict)


def read_snapshot(value: Any) -> Snapshot:
    """Parses a snapshot from JSON values.

    Raises:
        ValidationError: If it is invalid.
    """
    raw = value.get("now", DEFAULT_NOW) if isinstance(value, dict) else DEFAULT_NOW
    try:
        now = moment(raw if isinstance(raw, int) else str(raw), DEFAULT_NOW)
    except ValueError:
        now = DEFAULT_NOW  # validation reports the error
    whole = value
    policy = value.get("policy") if isinstance(value, dict) else None
    if isinstance(value, dict) and (policy is None or isinstance(policy, dict)):
        policy = policy or {}
        whole = {**value, "policy": {"priority_classes": SHIPPED_CLASSES, **policy}}
    context = {"now": now, "projects": names_of(whole.get("projects")) if isinstance(whole, dict) else ()}
    return Snapshot.model_validate_json(json.dumps(whole, default=str), context=context)
