"""The kinds of objects that Bailiff reads and writes, and where the API has them. An object is the JSON of the API."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .names import GATE

Object = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """A kind of object. api_version: `v1` or `group/version`."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path of one object, of a namespace's collection, or of all of them."""
        root = f"/api/{self.api_version}" if "/" not in self.api_version else f"/apis/{self.api_version}"
        parts = [root]
        if self.namespaced and namespace is not None:
            parts.append(f"namespaces/{quote(namespace, safe='')}")
        elif self.namespaced and name is not None:
            raise ValueError(f"a {self.kind} has a namespace")
        parts += [self.plural] + [quote(part, safe="") for part in (name, subresource) if part is not None]
        return "/".join(parts)


PODS = Resource("v1", "Pod", "pods")
NODES = Resource("v1", "Node", "nodes", namespaced=False)
CONFIG_MAPS = Resource("v1", "ConfigMap", "configmaps")
SECRETS = Resource("v1", "Secret", "secrets")
NAMESPACES = Resource("v1", "Namespace", "namespaces", namespaced=False)
SERVICE_ACCOUNTS = Resource("v1", "ServiceAccount", "serviceaccounts")
EVENTS = Resource("events.k8s.io/v1", "Event", "events")
JOBS = Resource("batch/v1", "Job", "jobs")
REPLICA_SETS = Resource("apps/v1", "ReplicaSet", "replicasets")
STATEFUL_SETS = Resource("apps/v1", "StatefulSet", "statefulsets")
DISRUPTION_BUDGETS = Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
JOBSETS = Resource("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets")
TRAIN_JOBS = Resource("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs")
PYTORCH_JOBS = Resource("kubeflow.org/v1", "PyTorchJob", "pytorchjobs")
RAY_JOBS = Resource("ray.io/v1", "RayJob", "rayjobs")
EVICTIONS = Resource("lifecycle.k8s.io/v1alpha1", "Eviction", "evictions")
BAILIFF_JOBS = Resource("bailiff.io/v1alpha1", "BailiffJob", "bailiffjobs")
WORKFLOWS = Resource("argoproj.io/v1alpha1", "Workflow", "workflows")
CRON_WORKFLOWS = Resource("argoproj.io/v1alpha1", "CronWorkflow", "cronworkflows")
TRIALS = Resource("kubeflow.org/v1beta1", "Trial", "trials")
EXPERIMENTS = Resource("kubeflow.org/v1beta1", "Experiment", "experiments")
LEADER_WORKER_SETS = Resource("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets")
LEASES = Resource("coordination.k8s.io/v1", "Lease", "leases")
VOLUME_CLAIMS = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUMES = Resource("v1", "PersistentVolume", "persistentvolumes", namespaced=False)
STORAGE_CLASSES = Resource("storage.k8s.io/v1", "StorageClass", "storageclasses", namespaced=False)
QUOTAS = Resource("v1", "ResourceQuota", "resourcequotas")
RESOURCE_CLAIMS = Resource("resource.k8s.io/v1", "ResourceClaim", "resourceclaims")
RESOURCE_SLICES = Resource("resource.k8s.io/v1", "ResourceSlice", "resourceslices", namespaced=False)


def without_managed_fields(item: Object) -> Object:
    """The object without the record of who set which field, which is half of it."""
    return {**item, "metadata": {name: value for name, value in item["metadata"].items() if name != "managedFields"}}


def key_of(item: Object) -> tuple[str, str]:
    """Namespace (empty without one) and name: unique among the objects of one kind at one time."""
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def uid_of(item: Object) -> str:
    """The uid: unique for ever."""
    return str(item["metadata"]["uid"])


def labels_of(item: Object) -> dict[str, str]:
    """The labels; empty without any."""
    return item["metadata"].get("labels") or {}


def annotations_of(item: Object) -> dict[str, str]:
    """The annotations; empty without any."""
    return item["metadata"].get("annotations") or {}


def controller_of(item: Object) -> Object | None:
    """The owner reference of what controls the object."""
    owners: list[Object] = item["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def owner_of(item: Object) -> str:
    """The uid of what controls the object; empty: nothing does."""
    owner = controller_of(item)
    return "" if owner is None else str(owner["uid"])


def is_gated(pod: Object) -> bool:
    """Whether the pod waits in Bailiff's gate."""
    return any(gate.get("name") == GATE for gate in (pod.get("spec") or {}).get("schedulingGates") or ())


def condition_of(item: Object, kind: str) -> Object | None:
    """The condition of this type in the object's status."""
    conditions: list[Object] = item.get("status", {}).get("conditions") or []
    return next((each for each in conditions if each.get("type") == kind), None)
