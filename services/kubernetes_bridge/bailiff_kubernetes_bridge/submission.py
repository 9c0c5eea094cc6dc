"""The job that stands for a workload: its name, its demand, and the request that submits it."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from bailiff_bus.validation_errors import describe_errors
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.document import TEN_YEARS
from bailiff_core.model.identity import SignIn
from bailiff_core.model.job_spec import WORKLOAD_UID, JobSpec
from bailiff_core.model.job_spec import Workload as WorkloadReference
from bailiff_core.model.state import Job, PoolState
from bailiff_core.records.job_requests import SubmitJob
from bailiff_kubernetes import names
from bailiff_kubernetes.quantities import whole_number
from bailiff_kubernetes.resources import annotations_of, owner_of

from .view import ClusterView
from .workloads.model import Pod, Role, Workload
from .workloads.node_affinity import meets, terms_text
from .workloads.quotas import forbids
from .workloads.taints import untolerated
from .workloads.volumes import ONE_POD, claim_names, is_for_one_pod, unmet_volume

CLUSTER, KIND, NAMESPACE, NAME = (f"kubernetes/{name}" for name in ("cluster", "kind", "namespace", "name"))
MAX_FAILURES = 1000  # the workload's own controller counts failures, and ends it
LONGEST_NAME = 44


@dataclass(frozen=True)
class Rules:
    """Settings of the bridge that actions depend on.

    cluster: the cluster's name in labels of jobs, and the issuer who vouches for its users. priority_classes: Bailiff's class for
    a PriorityClass of the cluster. controllers: accounts that create for the user of the workflow that controls what they create.
    """

    cluster: str
    priority_classes: Mapping[str, str] = field(default_factory=dict)
    controllers: tuple[str, ...] = ()


def job_name(workload: Workload, run: int) -> str:
    """The name of the workload's job. run: from 1; a workload that is resumed after its job ended gets another job."""
    base = f"{workload.namespace}.{workload.name}"[:LONGEST_NAME].rstrip(".-")
    name = f"{base}-{workload.uid.replace('-', '')[:8]}"
    return name if run == 1 else f"{name}-{run}"


def run_of(workload: Workload, job: str) -> int:
    """The run that a job of this workload is; 0 for no job."""
    if not job:
        return 0
    suffix = job.removeprefix(job_name(workload, 1))
    return whole_number(suffix[1:]) or 1


def class_of(workload: Workload, rules: Rules, state: PoolState) -> str | None:
    """The priority class: by its label, else by its PriorityClass where that is mapped or has the name of a class."""
    if workload.priority_class:
        return workload.priority_class
    given = workload.kubernetes_priority_class
    if given in rules.priority_classes:
        return rules.priority_classes[given]
    return given if given and state.rules.find_class(given) is not None else None


def submission(
    workload: Workload, run: int, rules: Rules, state: PoolState, pods: Sequence[Pod], cluster: ClusterView
) -> SubmitJob | str:
    """The request, or why the workload cannot be submitted. pods: of the workload."""
    if workload.problem:
        return workload.problem
    user = _requester(workload, rules, cluster)
    if user in rules.controllers:
        return f"{user} creates for others, and no workflow or experiment with the label {names.POOL} says for whom"
    if not user:
        return "nobody vouches for who created it: install the admission policies of deploy/kubernetes, and create it again"
    if workload.min_tasks is not None and not 1 <= workload.min_tasks <= workload.size:
        return f"bailiff.io/min-tasks is {workload.min_tasks}, and it has {workload.size} pods"
    if taken := _taken_claim(workload, cluster):
        return taken
    if not workload.makes_all and (why_not := forbids(cluster.quotas.get(workload.namespace, ()), workload, pods)):
        return why_not
    excluded: dict[str, list[str]] = {}
    for role in workload.roles:
        why = _why_not(role, workload.namespace, state, pods, cluster)
        if why and all(why.values()):
            return f"no node of the pool would admit its pods: {', '.join(dict.fromkeys(why.values()))}"
        excluded[role.name] = [name for name, reason in why.items() if reason]
    projects = {project.name for project in state.rules.projects}
    demand = {
        "job": job_name(workload, run),
        "tasks": [_task_group(role, excluded[role.name]) for role in workload.roles if role.count],
        "min_tasks": workload.min_tasks if workload.serves or workload.min_tasks != workload.size else None,
        "priority_class": class_of(workload, rules, state),
        "project": workload.project or (workload.namespace if workload.namespace in projects else None),
        "grace": workload.grace or None,
        "preemption_delay": None if workload.preempts and all(pod.preempts for pod in pods) else TEN_YEARS,
        "labels": {
            CLUSTER: rules.cluster,
            KIND: workload.resource.kind,
            NAMESPACE: workload.namespace,
            NAME: workload.name,
            WORKLOAD_UID: workload.uid,
        },
        "elastic": "live",  # controllers add pods, and restart none
        "on_eviction": "requeue" if workload.requeues else "end",
        "on_failure": _on_failure(workload),
        "stale_grace": "never" if workload.serves else None,
        "max_failures": MAX_FAILURES,
    }
    try:
        reference = WorkloadReference(
            api_version=workload.resource.api_version,
            kind=workload.resource.kind,
            namespace=workload.namespace,
            name=workload.name,
            uid=workload.uid,
        )
        # Through lists, as from JSON: the model is strict.
        return SubmitJob(
            demand=JobDemand.model_validate(demand, strict=False),
            spec=JobSpec(runtime="kubernetes", workload=reference),
            vouched_by=SignIn(issuer=f"kubernetes:{rules.cluster}", subject=user),
        )
    except ValidationError as error:
        return describe_errors(error.errors(include_url=False))


def _on_failure(workload: Workload) -> str:
    """`end`: the failed pod is not made anew, or only if its controller so decides."""
    if workload.serves:
        return "replace"
    return "restart" if workload.requeues and not workload.in_place else "end"


def _requester(workload: Workload, rules: Rules, cluster: ClusterView) -> str:
    """Who created it, or the workflow or experiment that it is a part of."""
    user, owner = workload.submitted_by, workload.owner
    for _ in range(2):  # Workflow and CronWorkflow, Trial and Experiment
        if user in rules.controllers and owner in cluster.workflows:
            workflow = cluster.workflows[owner]
            user, owner = annotations_of(workflow).get(names.SUBMITTED_BY, ""), owner_of(workflow)
    return user


def submission_id(request: SubmitJob, state: PoolState) -> str:
    """The same for a repeat; another one once the workload, the policy or the number of nodes has changed."""
    content = hashlib.sha256(request.to_json()).hexdigest()[:16]
    return f"{request.demand.job}/submit/{content}/{state.policy_revision}.{len(state.nodes)}"


def is_of(job: Job, rules: Rules) -> bool:
    """Whether the job stands for a workload of this cluster."""
    return job.demand.labels.get(CLUSTER) == rules.cluster


def _taken_claim(workload: Workload, cluster: ClusterView) -> str:
    """A claim of one pod at a time that several of its pods, or another pod on a node, would use, for people; empty: none."""
    users: Counter[str] = Counter()
    for role in workload.roles:
        users.update(dict.fromkeys(claim_names(role.volumes), role.count))
    for name, count in users.items():
        if not is_for_one_pod(cluster.storage.claims.get((workload.namespace, name))):
            continue
        if count > 1:
            return f"the claim {name} is for one pod ({ONE_POD}), and {count} of its pods use it"
        for uid, pods in cluster.pods.items():
            for pod in pods:
                if uid != workload.uid and name in pod.claims and _holds(pod, workload.namespace):
                    return f"the claim {name} is for one pod ({ONE_POD}), and {pod.name} uses it"
    return ""


def _holds(pod: Pod, namespace: str) -> bool:
    return pod.namespace == namespace and bool(pod.node) and not pod.finished


def _why_not(role: Role, namespace: str, state: PoolState, pods: Sequence[Pod], cluster: ClusterView) -> dict[str, str]:
    """Of each node of the pool, why kube-scheduler would bind no such pod to it; empty: it may.

    Taints are judged by the pods that are there, since the cluster may add tolerations to what their template says, and not on
    a node that is drained: its agent drains it for taints that no pod of Bailiff's tolerates, for as long as it has them.
    """
    pod = next((pod for pod in pods if pod.role == role.name), None)
    found = {}
    for node in state.nodes.values():
        if (item := cluster.nodes.get(node.name)) is None:
            continue
        taint = untolerated(item, pod.tolerations) if pod is not None and node.drain is None else ""
        is_unmet = bool(role.node_terms) and not meets(item, role.node_terms)
        why = f"node affinity {terms_text(role.node_terms)}" if is_unmet else f"taint {taint}" if taint else ""
        found[node.name] = why or unmet_volume(item, namespace, role.volumes, cluster.storage)
    return found


def _task_group(role: Role, excluded: Sequence[str]) -> dict[str, object]:
    needs = role.resources
    devices = {"mig_profile": needs.mig[0], "gpu_devices": needs.mig[1]} if needs.mig else {"gpu_milli": needs.gpus * 1000}
    return {
        "count": role.count,
        **devices,
        "cpu_milli": needs.cpu_milli,
        "memory_bytes": needs.memory_bytes,
        "node_labels": role.node_selector,
        "excluded_nodes": excluded,
    }
