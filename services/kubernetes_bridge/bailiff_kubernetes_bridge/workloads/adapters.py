"""One small adapter per kind: which pods a workload makes, which pods are its own, how it is suspended, how it ends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from bailiff_core.humanize import count_text
from bailiff_kubernetes import names, resources
from bailiff_kubernetes.quantities import whole_number
from bailiff_kubernetes_bridge.annotations import POD_GROUP

from .common import count_of, described, ended, template_of
from .model import Workload
from .replicas import ordinal_of, replicas, template_labels

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
JOBSET_NAME, JOBSET_ROLE, JOBSET_INDEX = (
    f"jobset.sigs.k8s.io/{name}" for name in ("jobset-name", "replicatedjob-name", "job-index")
)
KUBEFLOW_ROLE, KUBEFLOW_INDEX = (f"training.kubeflow.org/{name}" for name in ("replica-type", "replica-index"))
LWS_NAME, LWS_GROUP, LWS_SIZE = (f"leaderworkerset.sigs.k8s.io/{name}" for name in ("name", "group-index", "size"))
RAY_CLUSTER, RAY_GROUP = "ray.io/cluster", "ray.io/group"

DEADLINE = (
    "activeDeadlineSeconds counts the time in the queue, too: set it in the pod template instead, where it counts the time "
    "that a pod runs"
)
"""Of a workload, whose deadline its controller counts from its first pods on, which wait in their gates."""

Place = tuple[str, int | None]
"""A pod's role, and its rank in it where its controller gives it one."""


PodKey = tuple[str, str, str]
"""How pods name their workload: by its uid, or by the name of a JobSet, LeaderWorkerSet or RayCluster."""


@dataclass(frozen=True)
class Adapter:
    """A kind of workload.

    workload: reads one object; the second argument is the JobSet of the same name, or the PodDisruptionBudget of its pods,
    where there is one. key: one of its pods' `pod_keys`. place: the role and rank of a pod of this object. suspend: the patch
    that suspends it, or resumes it.
    """

    resource: resources.Resource
    workload: Callable[[resources.Object, resources.Object | None], Workload]
    key: Callable[[resources.Object], PodKey]
    place: Callable[[resources.Object, resources.Object], Place]
    suspend: Callable[[bool], resources.Object]


def pod_keys(pod: resources.Object) -> list[PodKey]:
    """How this pod names its workload, the most specific first."""
    owner, labels, namespace = resources.controller_of(pod), resources.labels_of(pod), pod["metadata"]["namespace"]
    found = [("uid", "", owner["uid"])] if owner is not None else []
    found += [(label, namespace, labels[label]) for label in (JOBSET_NAME, RAY_CLUSTER, LWS_NAME) if label in labels]
    return found


def _by_uid(item: resources.Object) -> PodKey:
    return "uid", "", resources.uid_of(item)


def _by_name(label: str) -> Callable[[resources.Object], PodKey]:
    """By the name of the object, which its pods have under this label."""
    return lambda item: (label, item["metadata"]["namespace"], item["metadata"]["name"])


def _by_ray_cluster(item: resources.Object) -> PodKey:
    return RAY_CLUSTER, item["metadata"]["namespace"], (item.get("status") or {}).get("rayClusterName") or ""


def _in_time(workload: Workload, *specs: resources.Object) -> Workload:
    """With what is wrong with a deadline in one of these."""
    late = not workload.problem and any(spec.get("activeDeadlineSeconds") is not None for spec in specs)
    return replace(workload, problem=DEADLINE) if late else workload


def _suspend(on: bool) -> resources.Object:
    return {"spec": {"suspend": on}}


# --- Job


def _job(item: resources.Object, _: resources.Object | None) -> Workload:
    spec = item["spec"]
    parallelism, completions = count_of(spec.get("parallelism")), spec.get("completions")
    pods = parallelism if completions is None else min(parallelism, completions)
    found = replace(described(item, resources.JOBS, {"pod": (pods, template_of(spec.get("template")))}), makes_all=True)
    owner = resources.controller_of(item)
    if owner is not None and owner.get("kind") in (resources.JOBSETS.kind, resources.RAY_JOBS.kind):
        return replace(found, pool="")  # its owner is the workload
    if isinstance(completions, int) and completions > parallelism:
        found = replace(found, apart=f"it runs {parallelism} of {count_text(completions, 'pod')} at once")
    elif spec.get("backoffLimitPerIndex") is not None:
        found = replace(found, apart="it has backoffLimitPerIndex, so none stops for another")
    found = _in_time(found, spec)
    if found.apart and found.min_tasks is not None:
        found = replace(found, problem=found.problem or f"{names.MIN_TASKS} is for pods that run together, and {found.apart}")
    done = "the Job has completed"
    return ended(found, item, {"Complete": done, "SuccessCriteriaMet": done}, {"Failed": "the Job has failed"})


def _job_place(_: resources.Object, pod: resources.Object) -> Place:
    return "pod", whole_number(resources.annotations_of(pod).get(COMPLETION_INDEX))


# --- JobSet, and the JobSet of a TrainJob


def _jobset_templates(item: resources.Object) -> Mapping[str, tuple[int, resources.Object]]:
    found: dict[str, tuple[int, resources.Object]] = {}
    for replicated in (item.get("spec") or {}).get("replicatedJobs") or []:
        spec = (replicated.get("template") or {}).get("spec") or {}
        parallelism = count_of(spec.get("parallelism"))
        pods = min(parallelism, count_of(spec.get("completions"), parallelism)) * count_of(replicated.get("replicas"))
        found[str(replicated.get("name"))] = (pods, template_of(spec.get("template")))
    return found


def _starts_at_once(jobset: resources.Object) -> bool:
    """Whether none of its jobs waits for another."""
    spec = jobset["spec"]
    in_order = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    return not in_order and not any(replicated.get("dependsOn") for replicated in spec.get("replicatedJobs") or ())


def _jobset(item: resources.Object, _: resources.Object | None) -> Workload:
    jobs = ((replicated.get("template") or {}).get("spec") or {} for replicated in item["spec"].get("replicatedJobs") or ())
    found = replace(_in_time(described(item, resources.JOBSETS, _jobset_templates(item)), *jobs), makes_all=_starts_at_once(item))
    owner = resources.controller_of(item)
    if owner is not None and owner.get("kind") == resources.TRAIN_JOBS.kind:
        return replace(found, pool="")  # its TrainJob is the workload
    return ended(found, item, {"Completed": "the JobSet has completed"}, {"Failed": "the JobSet has failed"})


def _jobset_place(item: resources.Object, pod: resources.Object) -> Place:
    labels = resources.labels_of(pod)
    role = labels.get(JOBSET_ROLE, "")
    job, index = whole_number(labels.get(JOBSET_INDEX)), whole_number(resources.annotations_of(pod).get(COMPLETION_INDEX))
    if job is None or index is None:
        return role, None
    for replicated in (item.get("spec") or {}).get("replicatedJobs") or []:
        if replicated.get("name") == role:
            return role, job * count_of(((replicated.get("template") or {}).get("spec") or {}).get("parallelism")) + index
    return role, None  # of a TrainJob, whose pods have no fixed order


def _train_job(item: resources.Object, jobset: resources.Object | None) -> Workload:
    found = described(item, resources.TRAIN_JOBS, _jobset_templates(jobset or {}))
    if jobset is None:
        found = replace(found, problem="Kubeflow Trainer has not made its JobSet yet")
    else:
        found = replace(found, makes_all=_starts_at_once(jobset))
    return ended(found, item, {"Complete": "the TrainJob has completed"}, {"Failed": "the TrainJob has failed"})


# --- PyTorchJob


def _pytorch_job(item: resources.Object, _: resources.Object | None) -> Workload:
    spec = item["spec"]
    templates = {
        role.lower(): (count_of(replicas.get("replicas")), template_of(replicas.get("template")))
        for role, replicas in (spec.get("pytorchReplicaSpecs") or {}).items()
    }
    policy = spec.get("runPolicy") or {}
    found = _in_time(described(item, resources.PYTORCH_JOBS, templates), policy)
    found = replace(found, suspended=policy.get("suspend") is True, makes_all=True)
    return ended(found, item, {"Succeeded": "the PyTorchJob has succeeded"}, {"Failed": "the PyTorchJob has failed"})


def _pytorch_place(_: resources.Object, pod: resources.Object) -> Place:
    labels = resources.labels_of(pod)
    return labels.get(KUBEFLOW_ROLE, "").lower(), whole_number(labels.get(KUBEFLOW_INDEX))


# --- RayJob


def _ray_job(item: resources.Object, _: resources.Object | None) -> Workload:
    cluster = item["spec"].get("rayClusterSpec") or {}
    templates = {"headgroup": (1, template_of((cluster.get("headGroupSpec") or {}).get("template")))}
    for group in cluster.get("workerGroupSpecs") or []:
        pods = count_of(group.get("replicas"), 0) * count_of(group.get("numOfHosts"))
        templates[str(group.get("groupName"))] = (pods, template_of(group.get("template")))
    found = described(item, resources.RAY_JOBS, {role: (pods, template) for role, (pods, template) in templates.items() if pods})
    found = _in_time(found, item["spec"])
    status = item.get("status") or {}
    found = replace(found, resizes=False, makes_all=True, problem=found.problem or _ray_problem(item["spec"], cluster))
    if status.get("jobDeploymentStatus") == "Complete":
        return replace(found, outcome="complete", outcome_reason="the RayJob has completed")
    if status.get("jobDeploymentStatus") in ("Failed", "ValidationFailed"):
        text = status.get("message") or status.get("reason") or ""
        return replace(
            found, outcome="failed", outcome_reason=f"the RayJob has failed: {text}" if text else "the RayJob has failed"
        )
    return found


def _ray_problem(spec: resources.Object, cluster: resources.Object) -> str:
    """Why Bailiff cannot place it, or could not end it; empty if it can."""
    if spec.get("clusterSelector"):
        return "it runs on a RayCluster that exists already (clusterSelector)"
    if cluster.get("enableInTreeAutoscaling"):
        return "Ray's autoscaler changes its number of pods (enableInTreeAutoscaling)"
    if not spec.get("shutdownAfterJobFinishes"):
        return "set shutdownAfterJobFinishes: KubeRay suspends no other RayJob, and its pods would keep their GPUs after its end"
    return ""


def _ray_place(_: resources.Object, pod: resources.Object) -> Place:
    return resources.labels_of(pod).get(RAY_GROUP, ""), None


# --- LeaderWorkerSet


def _leader_worker_set(item: resources.Object, _: resources.Object | None) -> Workload:
    """Its groups are jobs: a leader with its workers each."""
    spec = item["spec"]
    replicas, group = count_of(spec.get("replicas")), spec.get("leaderWorkerTemplate") or {}
    workers = template_of(group.get("workerTemplate"))
    leader = template_of(group.get("leaderTemplate")) or workers
    templates = {"leader": (replicas, leader), "worker": (replicas * (count_of(group.get("size")) - 1), workers)}
    return replace(
        described(item, resources.LEADER_WORKER_SETS, templates), apart="each group of a leader and its workers is a gang"
    )


# --- ReplicaSet, StatefulSet


def _replicas(resource: resources.Resource, item: resources.Object, budget: resources.Object | None) -> Workload:
    """Those of a LeaderWorkerSet, and those whose pods are gangs by a label, are no workloads of their own."""
    found = replicas(item, resource, budget)
    return replace(found, pool="") if is_of_group(template_labels(item)) else found


def is_of_group(labels: Mapping[str, str]) -> bool:
    """Whether a pod with these labels is a gang with others, whatever controls it."""
    return POD_GROUP in labels or LWS_NAME in labels


ADAPTERS: tuple[Adapter, ...] = (
    Adapter(resources.JOBS, _job, _by_uid, _job_place, _suspend),
    Adapter(resources.JOBSETS, _jobset, _by_name(JOBSET_NAME), _jobset_place, _suspend),
    Adapter(resources.TRAIN_JOBS, _train_job, _by_name(JOBSET_NAME), _jobset_place, _suspend),
    Adapter(resources.PYTORCH_JOBS, _pytorch_job, _by_uid, _pytorch_place, lambda on: {"spec": {"runPolicy": {"suspend": on}}}),
    Adapter(resources.LEADER_WORKER_SETS, _leader_worker_set, _by_name(LWS_NAME), lambda _, __: ("", None), _suspend),
    Adapter(resources.REPLICA_SETS, partial(_replicas, resources.REPLICA_SETS), _by_uid, lambda _, __: ("pod", None), _suspend),
    Adapter(
        resources.STATEFUL_SETS,
        partial(_replicas, resources.STATEFUL_SETS),
        _by_uid,
        lambda item, pod: ("pod", ordinal_of(item, pod)),
        _suspend,
    ),
    Adapter(resources.RAY_JOBS, _ray_job, _by_ray_cluster, _ray_place, _suspend),
)
"""All kinds of workloads that are objects of their own; pod groups are in `pod_groups`."""
BY_KIND: Mapping[str, Adapter] = {adapter.resource.kind: adapter for adapter in ADAPTERS}
