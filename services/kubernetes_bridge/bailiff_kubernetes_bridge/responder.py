"""What the bridge answers to an `Eviction` of Kubernetes (KEP-4563): the pod's job is evicted, so that it saves first.

The pods name Bailiff as a responder. While the cluster's controller calls it active, the job is asked to leave as by
`bailiff evict`; what becomes of that is written into the Eviction. Once the pod has ended, or where there is nothing to save, it
is the next responder's turn.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from bailiff_core.model.state import Job
from bailiff_core.records.job_requests import EvictJob
from bailiff_kubernetes.names import RESPONDER, task_hash
from bailiff_kubernetes.resources import Object

from .actions import Respond, Send
from .messages import PoolView, Status
from .pods import key_of
from .workloads.model import Pod, Workload

NOTHING_TO_SAVE = "nothing of it runs that could save"
SERVES = "its controller makes it anew, and the other replicas run on"
ENDED = "its containers have ended"
WITHDRAWN = "every requester has withdrawn: its job runs on"
TOO_LATE = "every requester has withdrawn, but its job is being evicted already: it saves, and starts again by itself"


def responses(
    pool: PoolView,
    workload: Workload,
    job: Job | None,
    pods: Sequence[Pod],
    status: Status | None,
    evictions: Mapping[str, Object],
) -> Iterator[Send | Respond]:
    """evictions: those for which Bailiff is the active responder, by the pod's uid. status: of the workload."""
    for pod in pods:
        eviction = evictions.get(pod.uid)
        if eviction is None:
            continue
        is_task = job is not None and any(task_hash(key_of(job, task.index)) == pod.task_hash for task in job.tasks)
        if is_task and workload.serves and not pod.finished:
            yield from _respond(eviction, SERVES, is_complete=True)
            continue
        if pod.finished or not is_task or job is None or status is None:
            yield from _respond(eviction, ENDED if pod.finished else NOTHING_TO_SAVE, is_complete=True)
            continue
        if not _requesters(eviction):
            yield from _respond(eviction, WITHDRAWN if job.eviction is None else TOO_LATE, is_complete=False)
            continue
        name = f"{job.id}/evict/{eviction['metadata']['uid']}"
        if job.phase in ("starting", "running") and not pool.is_final(name):
            yield Send(name, "", EvictJob(job=job.id, reason=_reason(eviction)))
        yield from _respond(eviction, status.message, is_complete=False)


def active_evictions(evictions: Iterable[Object]) -> Mapping[str, Object]:
    """Those for which it is Bailiff's turn, by the pod's uid."""
    return {item["spec"]["target"]["pod"]["uid"]: item for item in evictions if _is_our_turn(item)}


def _is_our_turn(eviction: Object) -> bool:
    status = eviction.get("status") or {}
    states = {each["name"]: each["state"] for each in status.get("targetResponders") or ()}
    return states.get(RESPONDER) == "Active" and "completionTime" not in _ours(eviction) and "pod" in eviction["spec"]["target"]


def _ours(eviction: Object) -> Object:
    """What Bailiff has answered so far."""
    responders: list[Object] = (eviction.get("status") or {}).get("responders") or []
    return next((each for each in responders if each["name"] == RESPONDER), {})


def _requesters(eviction: Object) -> list[str]:
    """Who still wants it."""
    return sorted(each["name"] for each in eviction["status"].get("requesters") or () if each.get("intent") == "Eviction")


def _reason(eviction: Object) -> str:
    return f"EvictionRequest of {', '.join(_requesters(eviction))}"[:1000]


def _respond(eviction: Object, message: str, *, is_complete: bool) -> Iterator[Respond]:
    if is_complete or _ours(eviction).get("message") != message:
        yield Respond(eviction, message, is_complete)
