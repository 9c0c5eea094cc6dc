"""What the bridge can do: requests to Bailiff, and changes to objects in Kubernetes. Each may be repeated without harm."""

from dataclasses import dataclass

from bailiff_bus.messages import RequestBody

from .messages import Status
from .workloads.model import Pod, Workload


@dataclass(frozen=True)
class Send:
    """Publish a request under this id. user: in whose name; empty: the bridge's own."""

    id: str
    user: str
    body: RequestBody


@dataclass(frozen=True)
class OpenGate:
    """Make the pod this task: hash and key, pinned to the node, its gate removed, in one patch."""

    pod: Pod
    job: str
    task_key: str
    node: str


@dataclass(frozen=True)
class MarkPod:
    """Note on a pod of a pod group of which job it is."""

    pod: Pod
    job: str


@dataclass(frozen=True)
class DeletePod:
    """Delete a gated pod of a pod group whose job has ended. Nothing runs in it."""

    pod: Pod
    message: str


@dataclass(frozen=True)
class EndPod:
    """Delete a pod of an attempt that is over. It was opened, but no agent has followed it, as where the node has booted anew."""

    pod: Pod
    message: str


@dataclass(frozen=True)
class StopWorkload:
    """Suspend the workload: its job has ended in Bailiff."""

    workload: Workload
    job: str
    message: str


@dataclass(frozen=True)
class SetPodStatus:
    """Write to a pod why it waits, or where it was placed: condition, message, and an Event.

    job: of which job it is; empty: that is on the pod already.
    """

    pod: Pod
    status: Status
    job: str = ""


@dataclass(frozen=True)
class SetWorkloadStatus:
    """Write to a workload its state in Bailiff, and its job's name: annotations, condition, Event."""

    workload: Workload
    status: Status
    job: str


@dataclass(frozen=True)
class CopyCheckpoint:
    """Copy what the workload says about its last checkpoint to a running pod, where its node's agent reads it."""

    pod: Pod
    checkpoint: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class CordonNode:
    """Cordon the node for the drain that `mark` names; uncordon it where the mark is empty."""

    name: str
    resource_version: str
    mark: str


Action = (
    Send | CordonNode | OpenGate | MarkPod | DeletePod | EndPod | StopWorkload | SetPodStatus | SetWorkloadStatus | CopyCheckpoint
)
