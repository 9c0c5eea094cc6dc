"""Workloads as the bridge sees them: the same few fields for every kind."""

from dataclasses import dataclass, field
from typing import Literal

from bailiff_kubernetes.resources import PODS, Object, Resource


@dataclass(frozen=True)
class PodResources:
    """What one pod requests, as a task group counts it. mig: profile and number of MIG devices."""

    gpus: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    mig: tuple[str, int] | None = None


@dataclass(frozen=True)
class Role:
    """Equal pods of a workload: one task group of the job.

    node_selector: labels that their node must have. node_terms: the node selector terms of their affinity, of which their node
    must meet one; empty: any node. volumes: those of a pod that are claims.
    """

    name: str
    count: int
    resources: PodResources
    node_selector: dict[str, str] = field(default_factory=dict)
    node_terms: tuple[Object, ...] = ()
    volumes: tuple[Object, ...] = ()


@dataclass(frozen=True)
class Workload:
    """One labelled workload.

    submitted_by: who created it, as the admission policy wrote it; empty: nobody vouches for it. owner: the uid of what
    controls it. generation: rises with every change of its spec. min_tasks: the least number of pods that run together; None:
    all. makes_all: its controller makes all pods at once, so that one that is missing is none of later. requeues: its
    controller makes evicted pods anew. resizes: its controller makes or deletes pods when its size changes; else only the next
    time that it makes them all. outcome: that it has ended, and why. problem: why it cannot be submitted. is_single_pod: it is
    one plain pod, which never is another workload's. apart: why its pods, or groups of them, are jobs of their own; empty: they
    are its tasks. in_place: it is one of these, made anew under the same number. serves: its pods serve: none waits for
    another, and one that ends is made anew. stopped_for: the ended job for which the bridge has suspended it. status: what the
    bridge last wrote about it. grace: from the notice to KILL, as a job file has it. preempts: whether its pods may have others
    evicted for them.
    """

    resource: Resource
    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    pool: str
    roles: tuple[Role, ...]
    submitted_by: str = ""
    owner: str = ""
    min_tasks: int | None = None
    priority_class: str = ""
    kubernetes_priority_class: str = ""
    project: str = ""
    grace: str = ""
    preempts: bool = True
    suspended: bool = False
    makes_all: bool = False
    requeues: bool = True
    resizes: bool = True
    deleting: bool = False
    outcome: Literal["", "complete", "failed"] = ""
    outcome_reason: str = ""
    problem: str = ""
    is_single_pod: bool = False
    apart: str = ""
    in_place: bool = False
    serves: bool = False
    stopped_for: str = ""
    status: str = ""
    checkpoint: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """Number of pods of the gang."""
        return sum(role.count for role in self.roles)

    @property
    def is_pod_group(self) -> bool:
        """Whether it is made of plain pods, without an object of its own."""
        return self.resource == PODS

    @property
    def has_status(self) -> bool:
        """Whether its object has a place for its state. What Bailiff wrote on a ReplicaSet, its Deployment would overwrite."""
        return not self.is_pod_group and not self.serves


@dataclass(frozen=True)
class Pod:
    """A pod of a workload.

    index: its rank within its role, where its controller gives it one. placed: its condition `bailiff.io/Placed`, as status and
    message. task_hash: of the task that it is, in this attempt of its job; job: that job, or the one of its group. finished: its
    containers have ended. node_terms: how many node selector terms it requires by itself. tolerations: of taints of nodes.
    nominated: the node where kube-scheduler keeps room for it. preempts: whether others may be evicted for it. claims: the names
    of its PersistentVolumeClaims. is_held: its object stays until its node's agent has proven its devices free.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    workload: str
    role: str
    index: int | None = None
    gated: bool = False
    node_terms: int = 0
    tolerations: tuple[Object, ...] = ()
    deleting: bool = False
    finished: bool = False
    succeeded: bool = False
    preempts: bool = True
    task_hash: str = ""
    attempt: int | None = None
    job: str = ""
    node: str = ""
    nominated: str = ""
    placed: tuple[str, str] | None = None
    claims: tuple[str, ...] = ()
    is_held: bool = False
    checkpoint: tuple[tuple[str, str], ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether it has not ended and is not being deleted."""
        return not self.finished and not self.deleting
