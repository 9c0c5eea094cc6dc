"""The object that `kubectl get bailiffjobs` shows for each workload: the job's state in columns.

It is compared with the one that the cluster has, and written where they differ; nothing is ever read from it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bailiff_core.model.state import Job
from bailiff_kubernetes import task_hash
from bailiff_kubernetes.resources import BAILIFF_JOBS, PODS, Object

from .actions import Show
from .messages import PoolView, Status, head_of, nodes_text
from .workloads.model import Pod, Workload

MAX_OWNERS = 10
MAX_NAME = 253
"""Characters of an object's name. A longer one is cut, and ends with the digest of the whole."""
RUNS = ("starting", "running")


def name_of(workload: Workload) -> str:
    """Of the object: kind and name of the workload, since two kinds may use one name."""
    kind = "podgroup" if workload.is_pod_group and not workload.is_single_pod else workload.resource.kind.lower()
    name = f"{kind}-{workload.name}"
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 41]}-{task_hash(name)}"


def show(
    pool: PoolView,
    workload: Workload,
    job: Job | None,
    pods: Sequence[Pod],
    status: Status,
    shown: Mapping[tuple[str, str], Object],
) -> Iterator[Show]:
    """Where what is shown differs. It is owned by the workload; that of a pod group by its pods, and made anew after them."""
    if workload.is_pod_group:
        owners = [(PODS.api_version, PODS.kind, pod.name, pod.uid) for pod in pods[:MAX_OWNERS]]
    else:
        owners = [(workload.resource.api_version, workload.resource.kind, workload.name, workload.uid)]
    references = [dict(zip(("apiVersion", "kind", "name", "uid"), owner, strict=True)) for owner in owners]
    name, wanted = name_of(workload), _status(pool, job, status)
    now = shown.get((workload.namespace, name))
    if now is not None and now.get("status") == wanted and _is_owned(now, {uid for *_, uid in owners}):
        return
    item: Object = {
        "apiVersion": BAILIFF_JOBS.api_version,
        "kind": BAILIFF_JOBS.kind,
        "metadata": {"name": name, "namespace": workload.namespace, "ownerReferences": references},
        "status": wanted,
    }
    yield Show(workload, item, "" if now is None else str(now["metadata"]["resourceVersion"]))


def _is_owned(item: Object, uids: set[str]) -> bool:
    """Whether it stays while one of these is there."""
    return any(owner["uid"] in uids for owner in item["metadata"].get("ownerReferences") or ())


def _status(pool: PoolView, job: Job | None, status: Status) -> dict[str, Any]:
    """What it is to say. An empty field is left out."""
    found: dict[str, Any] = {"state": status.reason, "pool": pool.state.pool, "message": status.message}
    if job is not None:
        head, nodes = head_of(pool.state), nodes_text(pool.state, job)
        away = job.phase not in RUNS and job.id in pool.preempted
        found |= {
            "job": job.id,
            "class": job.class_name,
            "gpus": job.gpus + sum(group.count * (group.gpu_devices or 0) for group in job.demand.tasks if group.mig_profile),
            "position": head.index(job.id) + 1 if job.id in head else None,
            "reserved": nodes if job.phase == "reserved" else "",
            "node": nodes if job.phase in (*RUNS, "evicting") else "",
            "preemptedBy": pool.preempted[job.id].preemptor if away else "",
        }
    return {name: value for name, value in found.items() if value not in ("", None)}
