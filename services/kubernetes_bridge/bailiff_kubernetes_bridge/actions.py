"""What the bridge can do: requests to Bailiff, and changes to objects in Kubernetes. Each may be repeated without harm."""

from dataclasses import dataclass

from bailiff_core.records.request import RequestBody
from bailiff_kubernetes.resources import BAILIFF_JOBS, EVICTIONS, Object, uid_of

from .messages import Status
from .workloads.model import Pod, Workload

Target = tuple[str, str]
"""Kind and uid of the object that an action changes; of a node its name."""


@dataclass(frozen=True)
class Send:
    """Publish a request under this id. user: in whose name; empty: the bridge's own."""

    id: str
    user: str
    body: RequestBody


@dataclass(frozen=True)
class PodChange:
    """Changes a pod."""

    pod: Pod

    @property
    def target(self) -> Target:
        """The object that it changes."""
        return "Pod", self.pod.uid

    @property
    def version(self) -> str:
        """Of the object, as the action saw it."""
        return self.pod.resource_version


@dataclass(frozen=True)
class WorkloadChange:
    """Changes a workload."""

    workload: Workload

    @property
    def target(self) -> Target:
        """The object that it changes."""
        return self.workload.resource.kind, self.workload.uid

    @property
    def version(self) -> str:
        """Of the object, as the action saw it."""
        return self.workload.resource_version


@dataclass(frozen=True)
class OpenGate(PodChange):
    """Make the pod this task: hash and key, pinned to the node, its gate removed, in one patch.

    deletion_cost: by which its ReplicaSet deletes the pods of the last tasks first when it is scaled down; empty: it has none.
    """

    job: str
    task_key: str
    node: str
    deletion_cost: str = ""


@dataclass(frozen=True)
class Nominate(PodChange):
    """Nominate a gated pod of this job to the node where its place is reserved; to none where the node is empty.

    kube-scheduler counts a nominated pod as if it were there, so that no other pod takes what its victims release.
    """

    node: str
    job: str = ""


@dataclass(frozen=True)
class MarkPod(PodChange):
    """Note on a pod of a pod group of which job it is."""

    job: str


@dataclass(frozen=True)
class DeletePod(PodChange):
    """Delete a gated pod of a pod group whose job has ended. Nothing runs in it."""

    message: str


@dataclass(frozen=True)
class EndPod(PodChange):
    """Delete a pod of an attempt that is over. It was opened, but no agent has followed it, as where the node has booted anew."""

    message: str


@dataclass(frozen=True)
class StopWorkload(WorkloadChange):
    """Suspend the workload: its job has ended in Bailiff."""

    job: str
    message: str


@dataclass(frozen=True)
class SetPodStatus(PodChange):
    """Write to a pod why it waits, or where it was placed: condition, message, and an Event.

    job: of which job it is; empty: that is on the pod already.
    """

    status: Status
    job: str = ""


@dataclass(frozen=True)
class SetWorkloadStatus(WorkloadChange):
    """Write to a workload its state in Bailiff, and its job's name: annotations, condition, Event."""

    status: Status
    job: str


@dataclass(frozen=True)
class Show(WorkloadChange):
    """Write the object that `kubectl get bailiffjobs` shows for the workload.

    item: all of it. shown_version: of the one in the cluster; empty: there is none.
    """

    item: Object
    shown_version: str

    @property
    def target(self) -> Target:
        """The object that it changes."""
        return BAILIFF_JOBS.kind, self.workload.uid

    @property
    def version(self) -> str:
        """Of the object, as the action saw it."""
        return self.shown_version


@dataclass(frozen=True)
class CopyCheckpoint(PodChange):
    """Copy what the workload says about its last checkpoint to a running pod, where its node's agent reads it."""

    checkpoint: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Respond:
    """Write into an Eviction of Kubernetes what becomes of the pod's job; is_complete: it is the next responder's turn."""

    eviction: Object
    message: str
    is_complete: bool

    @property
    def target(self) -> Target:
        """The object that it changes."""
        return EVICTIONS.kind, uid_of(self.eviction)

    @property
    def version(self) -> str:
        """Of the object, as the action saw it."""
        return str(self.eviction["metadata"]["resourceVersion"])


@dataclass(frozen=True)
class CordonNode:
    """Cordon the node for the drain that `mark` names; uncordon it where the mark is empty."""

    name: str
    version: str
    mark: str

    @property
    def target(self) -> Target:
        """The object that it changes."""
        return "Node", self.name


Change = PodChange | WorkloadChange | Respond | CordonNode
Action = Send | Change
