"""Schema of a snapshot file: nodes, projects, jobs with their tasks, policy, and the current time."""

import json
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from bailiff_core.model.demand import Placement, SubGroup, TopologyRule
from bailiff_core.model.document import Count, Document, Duration, Integer, Label, Labels, MigProfile, Name, OpaqueId
from bailiff_core.model.policy import DEFAULT_POLICY, Policy, Project, Topology

from .parsing import DEFAULT_NOW, Bytes, Cpus, Gpus, Grace, MemoryPart, Moment, Part, moment

TaskState = Literal["pending", "running", "reserved", "releasing", "stuck_releasing", "succeeded", "failed"]
STALE_GANG = 60_000_000
MAX_TASKS = 10_000
DEVICE_MEMORY = 80 * 2**30


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
    """One GPU, by its id on the node; with `mig`, a MIG device of this profile. island: the same for GPUs that NVLink links."""

    id: Annotated[OpaqueId, BeforeValidator(as_text)]
    model: Label = "gpu"
    memory: Annotated[Bytes, Field(ge=1)] = DEVICE_MEMORY
    labels: Labels = Field(default_factory=dict)
    mig: MigProfile | None = None
    island: Annotated[str, Field(max_length=64)] = ""


class NodeDoc(Document):
    """One node. Its GPUs are counted (`gpus`, all of one model and memory, with ids 0, 1, ...) or listed (`devices`).

    drained: no new tasks are placed on it; its tasks continue.
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

    gpus: whole ones, or a fraction below 1. fraction, gpu_memory: of each of `gpu_devices` GPUs (`0.5 x 2` sets both). mig: a
    MIG device of this profile, or `gpu_devices` of them.
    node: the node it runs on; devices: its GPUs, by id. nodes: nodes that it may run on. state: by default running if a node
    is given, else pending. order: higher ones are placed first and evicted last.
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
    """Accepts a number of equal tasks in place of their list. Raises `ValueError`."""
    if isinstance(value, list):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_TASKS:
        raise ValueError(f"expected a list of tasks, or how many equal ones, from 1 to {MAX_TASKS}; found {value!r}")
    return [{"count": value}]


class JobDoc(TaskFields):
    """A gang. tasks: a list, or the number of equal tasks; default: one.

    class or priority: only one of them; a plain number of 100 or more is not preemptible by default. submitted: default `now`.
    last_start: default `submitted`. evicted_at: times of involuntary evictions, which `evictions` counts. stale_since: since
    when a running gang lacks a required task; default `now`. paused: it has no placement and is not scheduled.
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
    paused: bool = False


def with_defaults(value: dict[str, Any]) -> dict[str, Any]:
    """Defaults of a snapshot's policy: shipped classes, no protections, no restart backoff, greedy backfill.

    Gangs are stale after a minute.
    """
    found = {"priority_classes": [entry.to_data() for entry in DEFAULT_POLICY.priority_classes], "backfill": "greedy", **value}
    if isinstance(found.setdefault("protections", {}), dict):
        found["protections"] = {"stale_gang": STALE_GANG, **found["protections"]}
    if isinstance(found.setdefault("restarts", {}), dict):
        found["restarts"] = {"backoff": 0, **found["restarts"]}
    return found


class Snapshot(Document):
    """A pool at one point in time. Only `nodes` is required. reclaimed_at: when a project was last reclaimed from."""

    now: Moment = DEFAULT_NOW
    nodes: tuple[NodeDoc, ...]
    topologies: tuple[Topology, ...] = ()
    projects: tuple[ProjectDoc, ...] = ()
    jobs: tuple[JobDoc, ...] = ()
    policy: Policy
    reclaimed_at: dict[Name, Moment] = Field(default_factory=dict)


def read_snapshot(value: Any) -> Snapshot:
    """Parses a snapshot from JSON values. Raises `ValidationError`."""
    raw = value.get("now", DEFAULT_NOW) if isinstance(value, dict) else DEFAULT_NOW
    try:
        now = moment(raw if isinstance(raw, int) else str(raw), DEFAULT_NOW)
    except ValueError:
        now = DEFAULT_NOW  # validation reports the error
    whole = value
    policy = value.get("policy") if isinstance(value, dict) else None
    if isinstance(value, dict) and (policy is None or isinstance(policy, dict)):
        policy = policy or {}
        whole = {**value, "policy": with_defaults(policy)}
    context = {"now": now, "projects": names_of(whole.get("projects")) if isinstance(whole, dict) else ()}
    return Snapshot.model_validate_json(json.dumps(whole, default=str), context=context)


def names_of(entries: Any) -> tuple[str, ...]:
    """The `name` of each entry of a list; empty if it is not such a list."""
    found = [each.get("name") for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []
    return tuple(name for name in found if isinstance(name, str))
