"""Checks of `bailiff doctor --kubeconfig`: what the bridge needs in a cluster, and what makes a preemption cost a retry."""

from collections.abc import Callable
from pathlib import Path

from bailiff_core.humanize import count_text, first_names
from bailiff_kubernetes import Api, ApiError, NotFound, names
from bailiff_kubernetes.resources import JOBS, LEASES, PODS, PYTORCH_JOBS, RAY_JOBS, Object, Resource, condition_of, is_gated

from .finding import Check, finding

MUTATING = Resource(
    "admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", namespaced=False
)
VALIDATING = Resource(
    "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False
)
POLICIES = {
    MUTATING: ("bailiff-submitted-by", "bailiff-templates", "bailiff-cron-jobs", "bailiff-gate"),
    VALIDATING: ("bailiff-identity", "bailiff-placement", "bailiff-kinds"),
}
FOREIGN_GPUS = "bailiff-foreign-gpus"
ENDED = ("Complete", "Completed", "Succeeded", "Failed")
LEASE = "bailiff-kubernetes-bridge"


async def kubernetes_checks(kubeconfig: Path) -> list[Check]:
    """All checks of this cluster. Read-only."""
    try:
        async with await Api.connect(kubeconfig) as api:
            return [await policies_check(api), await bridge_check(api), *await jobs_checks(api), *await kinds_checks(api)]
    except ApiError as error:
        advice = "check the kubeconfig, and its rights to read jobs, pods, leases and admission policies"
        return [finding("kubernetes", "wrong", error.message, advice)]


async def policies_check(api: Api) -> Check:
    """Without the admission policies nobody vouches for users, pods are not gated, and others take what an eviction freed."""
    there = {item["metadata"]["name"] for resource in POLICIES for item in (await api.list(resource)).items}
    missing = [name for wanted in POLICIES.values() for name in wanted if name not in there]
    if missing:
        return finding(
            "kubernetes policies",
            "wrong",
            f"not installed: {', '.join(missing)}",
            "install the admission policies: kubectl apply -f deploy/kubernetes/admission-policies.yaml",
        )
    if FOREIGN_GPUS not in there:
        text = "pods that are in no pool are not refused: they may take GPUs that an eviction has freed"
        return finding("kubernetes policies", "warn", text, "kubectl apply -f deploy/kubernetes/foreign-gpus.yaml")
    return finding("kubernetes policies", "ok", "the admission policies are installed")


async def bridge_check(api: Api) -> Check:
    """Whether a bridge holds the Lease."""
    leases = [item for item in (await api.list(LEASES)).items if item["metadata"]["name"].endswith("kubernetes-bridge")]
    holders = [lease["spec"]["holderIdentity"] for lease in leases if (lease.get("spec") or {}).get("holderIdentity")]
    if holders:
        return finding("kubernetes bridge", "ok", f"{', '.join(holders)} leads")
    return finding("kubernetes bridge", "warn", "no bridge has the Lease", f"start one; its Lease is called {LEASE} by default")


async def jobs_checks(api: Api) -> list[Check]:
    """How many Jobs there are; pods that run without a gate."""
    jobs, pods = (await api.list(JOBS, labels=names.POOL)).items, (await api.list(PODS, labels=names.POOL)).items
    outside = [_name(pod) for pod in pods if _runs_outside(pod)]
    found = [finding("kubernetes jobs", "ok", f"{count_text(len(jobs), 'Job')} in Bailiff's pools")]
    if outside:
        found.append(
            finding(
                "kubernetes pods",
                "warn",
                f"outside of Bailiff, in spite of its label: {first_names(outside)}",
                "they were created before the admission policies were installed: create them again",
            )
        )
    return found


async def kinds_checks(api: Api) -> list[Check]:
    """Workloads of the other kinds whose preemptions count as failures."""
    found = []
    for resource, (counts, advice) in COUNTING.items():
        try:
            items = (await api.list(resource)).items
        except NotFound:  # the cluster does not have the kind
            continue
        counting = [_name(item) for item in items if not _has_ended(item) and counts(item)]
        if counting:
            text = f"a preemption counts as a failure of the {resource.kind} {first_names(counting)}"
            found.append(finding("kubernetes jobs", "warn", text, advice))
    return found


def _pytorch_job_counts(item: Object) -> bool:
    replicas = (item["spec"].get("pytorchReplicaSpecs") or {}).values()
    return _is_in_pool(item) and any(each.get("restartPolicy") == "Never" for each in replicas)


def _ray_job_counts(item: Object) -> bool:
    return _is_in_pool(item) and not item["spec"].get("backoffLimit")


COUNTING: dict[Resource, tuple[Callable[[Object], bool], str]] = {
    PYTORCH_JOBS: (_pytorch_job_counts, "restartPolicy: OnFailure"),
    RAY_JOBS: (_ray_job_counts, "backoffLimit: as many preemptions as it may survive; KubeRay starts another cluster for each"),
}
"""By kind: whether one counts a preemption as its failure, and what to write instead."""


def _is_in_pool(item: Object) -> bool:
    return names.POOL in ((item.get("metadata") or {}).get("labels") or {})


def _has_ended(item: Object) -> bool:
    of_ray = (item.get("status") or {}).get("jobDeploymentStatus") in ("Complete", "Failed", "ValidationFailed")
    return of_ray or any((condition_of(item, kind) or {}).get("status") == "True" for kind in ENDED)


def _runs_outside(pod: Object) -> bool:
    is_active = (pod.get("status") or {}).get("phase") in ("Pending", "Running")
    return is_active and not is_gated(pod) and names.TASK_HASH not in (pod["metadata"].get("labels") or {})


def _name(item: Object) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"
