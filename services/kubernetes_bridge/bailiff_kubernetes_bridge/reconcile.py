"""What the bridge has to do: a function of the cluster and the folded log, and of nothing else.

Whoever carries out a part of the actions and computes them again, or another replica, arrives at the same state.
"""

from collections.abc import Iterator, Mapping, Sequence

from bailiff_core.model.evictions import evictions_of
from bailiff_core.model.job_spec import WORKLOAD_UID
from bailiff_core.model.state import ENDED, Job, PoolState
from bailiff_core.records.job_requests import CancelJob, ScaleJob, SubmitJob

from .actions import Action, DeletePod, MarkPod, Send, SetWorkloadStatus, StopWorkload
from .changes import changes
from .cordons import cordons
from .messages import PoolView, Status, status_of
from .pods import lacks_pods, pod_actions, with_pods_there
from .responder import responses
from .shown import show
from .submission import KIND, NAME, NAMESPACE, Rules, is_of, run_of, submission, submission_id
from .view import ClusterView
from .workloads.model import Pod, Workload
from .workloads.pod_groups import group_uid, maker_of

EVICTED_GROUP_KEPT = 600_000_000
"""How long an evicted pod group keeps its place in the queue while none of its pods is there, µs."""


def reconcile(cluster: ClusterView, pool: PoolView, rules: Rules) -> list[Action]:
    """All that is to be done now."""
    newest = newest_jobs(pool.state, rules)
    actions: list[Action] = [*cordons(pool.state, cluster.nodes)]
    for uid in dict.fromkeys((*cluster.workloads, *newest)):
        actions += actions_of(uid, cluster, pool, rules, newest)
    return actions


def actions_of(uid: str, cluster: ClusterView, pool: PoolView, rules: Rules, newest: Mapping[str, str]) -> Iterator[Action]:
    """All that is to be done for one workload now, which may be gone. newest: `newest_jobs`."""
    workload, job = cluster.workloads.get(uid), pool.state.jobs.get(newest.get(uid, ""))
    if workload is not None and workload.pool == pool.state.pool:
        yield from _of_workload(cluster, pool, rules, workload, job)
    elif job is not None:
        yield from _without_workload(cluster, pool.state, workload, job)


def newest_jobs(state: PoolState, rules: Rules) -> Mapping[str, str]:
    """The newest job of each workload of this cluster, by the workload's uid."""
    found: dict[str, Job] = {}
    for job in state.jobs.values():
        uid = uid_of_workload(job, rules)
        if uid is not None and (uid not in found or found[uid].seq < job.seq):
            found[uid] = job
    return {uid: job.id for uid, job in found.items()}


def uid_of_workload(job: Job, rules: Rules) -> str | None:
    """The uid of the workload of this cluster that the job stands for; None for other jobs."""
    return job.demand.labels.get(WORKLOAD_UID) if is_of(job, rules) else None


def _of_workload(cluster: ClusterView, pool: PoolView, rules: Rules, workload: Workload, job: Job | None) -> Iterator[Action]:
    if workload.apart:
        found = Status("Apart", f"each of its pods says its own state: {workload.apart}")
        if workload.problem:
            found = _submitting(pool, workload.problem)
        if found.line != workload.status and not workload.deleting:
            yield SetWorkloadStatus(workload, found, "")
        if job is not None and job.phase not in ENDED and not job.cancelled:  # before its user changed it, it was one
            yield Send(
                f"{job.id}/cancel", "", CancelJob(job=job.id, reason=f"its pods are jobs of their own now: {workload.apart}")
            )
        return
    pods = cluster.pods.get(workload.uid, ())
    active = [pod for pod in pods if pod.is_active]
    requests: list[Send] = []
    if workload.deleting or workload.outcome:
        yield from _ended_workload(workload, job)
        status = status_of(pool, job, len(active)) if job is not None else None
    elif _needs_job(workload, job, active):
        if workload.serves:
            workload = with_pods_there(workload, pods, 0)
        run = 1 + max(run_of(workload, job.id if job else ""), run_of(workload, workload.stopped_for))
        request = submission(workload, run, rules, pool.state, pods, cluster)
        incomplete = _incomplete(workload, pods) if isinstance(request, SubmitJob) else None
        status = incomplete or _submitting(pool, request)
        if isinstance(request, SubmitJob) and incomplete is None:
            if workload.is_pod_group and not workload.is_single_pod:
                yield from (MarkPod(pod, request.demand.job) for pod in active if pod.job != request.demand.job)
            if not pool.is_final(submission_id(request, pool.state)):
                yield Send(submission_id(request, pool.state), request.vouched_by.subject if request.vouched_by else "", request)
    elif job is None:
        status = None  # suspended from the beginning
    else:
        status = status_of(pool, job, len(active))
        requests = list(changes(pool, rules, workload, job, pods)) if job.phase not in ENDED else []
        yield from requests or _stop(workload, job, status, active)
    if status is not None and status.line != workload.status and workload.has_status:
        yield SetWorkloadStatus(workload, status, job.id if job is not None else "")
    yield from responses(pool, workload, job, pods, status, cluster.evictions)
    if status is not None and cluster.shown is not None:
        yield from show(pool, workload, job, pods, status, cluster.shown)
    is_resizing = any(isinstance(each.body, ScaleJob) for each in requests)
    yield from pod_actions(pool, workload, job, pods, status, is_resizing=is_resizing)


def _needs_job(workload: Workload, job: Job | None, active: Sequence[Pod]) -> bool:
    """Whether the workload is to be submitted: for the first time, or because it was resumed after its job had ended."""
    if workload.suspended:
        return False
    if job is None:
        return True
    if job.phase not in ENDED or workload.is_single_pod:
        return False
    if workload.serves:
        return True  # it still asks for pods
    if workload.is_pod_group:
        return any(pod.gated and pod.job != job.id for pod in active)
    return workload.stopped_for == job.id


def _incomplete(workload: Workload, pods: Sequence[Pod]) -> Status | None:
    """That it lacks pods: nobody is evicted for those that a quota forbids."""
    lacks = lacks_pods(workload, pods)
    why = f"kubectl get events -n {workload.namespace} says why, as a quota that is used up"
    return Status("Incomplete", f"not submitted: its controller has made {lacks}; {why}") if lacks else None


def _submitting(pool: PoolView, request: SubmitJob | str) -> Status:
    if isinstance(request, str):
        return Status("NotSubmitted", f"not submitted to {pool.state.pool}: {request}", warning=True)
    rejection = pool.rejected.get(submission_id(request, pool.state))
    if rejection is None:
        return Status("Submitted", f"submitted to {pool.state.pool} as {request.demand.job}")
    return Status("Rejected", f"{rejection.reason} ({rejection.code}, {pool.state.pool}#{rejection.seq})", warning=True)


def _ended_workload(workload: Workload, job: Job | None) -> Iterator[Action]:
    """The workload has ended, or is being deleted. One that is complete waits until its tasks' exits are on record."""
    if job is None or job.phase in ENDED or job.cancelled:
        return
    is_active = any(task.state in ("starting", "running") for task in job.tasks)
    if workload.outcome == "complete" and is_active and not workload.deleting and not workload.serves:
        return
    reason = f"the {workload.resource.kind} was deleted" if workload.deleting else workload.outcome_reason
    yield Send(f"{job.id}/cancel", "", CancelJob(job=job.id, reason=reason[:1000]))


def _stop(workload: Workload, job: Job, status: Status, active: Sequence[Pod]) -> Iterator[Action]:
    """The job has ended, and the workload has not. A job that succeeded is about to complete its workload, too."""
    if job.phase not in ENDED:
        return
    if workload.is_pod_group:
        yield from (
            DeletePod(pod, status.message) for pod in active if pod.gated and (pod.job == job.id or workload.is_single_pod)
        )
    elif job.phase != "succeeded" and workload.stopped_for != job.id:
        yield StopWorkload(workload, job.id, status.message)


def _without_workload(cluster: ClusterView, state: PoolState, workload: Workload | None, job: Job) -> Iterator[Action]:
    """Cancels the job of a workload that is gone, or belongs to another pool by now."""
    if job.phase in ENDED or job.cancelled or job.demand.labels.get(KIND) not in cluster.kinds:
        return
    if workload is None and _keeps_place(cluster, state, job):
        return
    what = job.demand.labels[KIND]
    reason = f"the {what} was deleted" if workload is None else f"the {what} was moved to the pool {workload.pool}"
    yield Send(f"{job.id}/cancel", "", CancelJob(job=job.id, reason=reason))


def _keeps_place(cluster: ClusterView, state: PoolState, job: Job) -> bool:
    """Whether this is an evicted pod group whose controller is about to make its pods anew. They may go before the log knows.

    Of pods with a label of their own nobody knows what makes them.
    """
    is_evicted = job.last_eviction is not None or bool(evictions_of(job))
    if not is_evicted or job.demand.labels.get(KIND) != "Pod" or job.demand.on_eviction != "requeue":
        return False
    namespace, name, uid = (job.demand.labels.get(label, "") for label in (NAMESPACE, NAME, WORKLOAD_UID))
    parents = (each for each in cluster.workloads.values() if each.apart and each.namespace == namespace)
    if uid != group_uid((namespace, "", name)) and all(uid != group_uid((namespace, maker_of(each), name)) for each in parents):
        return False  # what made them is gone
    return bool(job.tasks) or state.now - (job.last_eviction or 0) < EVICTED_GROUP_KEPT
