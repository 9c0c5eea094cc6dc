"""What a user changes in a workload while its job is in Bailiff: suspended, resumed, scaled, another priority class."""

from collections.abc import Iterator, Sequence
from typing import Final

from bailiff_core.model.state import Job
from bailiff_core.records.job_requests import PauseJob, ResumeJob, ScaleJob, SetPriorityClass
from bailiff_core.records.request import RequestBody

from .actions import Send
from .messages import PoolView
from .pods import finished_before, lacks_pods, with_pods_there
from .submission import Rules, class_of
from .workloads.model import Pod, Workload

SUSPENDED = "the workload is suspended in Kubernetes"
ABSENT = "its controller has not made its pods again"
HOLD: Final = "kubernetes"
PENDING = ("waiting", "pending", "paused")


def changes(pool: PoolView, rules: Rules, workload: Workload, job: Job, pods: Sequence[Pod]) -> Iterator[Send]:
    """Requests that the job needs; none that was rejected for good."""
    if job.cancelled:
        return
    found = [*_pause(workload, job, pods), *_class(pool, rules, workload, job)]
    if not workload.suspended and not workload.is_pod_group and not workload.problem:
        found += _scaling(workload, job, pods)
    yield from (Send(name, "", body) for name, body in found if not pool.is_final(name))


def _pause(workload: Workload, job: Job, pods: Sequence[Pod]) -> Iterator[tuple[str, RequestBody]]:
    """A suspended workload, and an evicted Job until its pods are there again, get no GPUs.

    The bridge has a hold of its own: it does not end a pause that somebody requested in Bailiff.
    """
    leaves = job.eviction is not None or job.phase in ("pending", "paused")
    reason = SUSPENDED if workload.suspended else ABSENT if leaves and lacks_pods(workload, pods) else ""
    held = next(((hold, *about) for hold, about in job.holds.items() if about[1] in (SUSPENDED, ABSENT)), None)
    if reason and held is None:
        at = f"{workload.generation}.{job.attempt}.{job.resumed_seq}"
        yield f"{job.id}/{'pause' if reason == SUSPENDED else 'absent'}/{at}", PauseJob(job=job.id, reason=reason, hold=HOLD)
    elif not reason and held is not None:
        hold, seq, why = held  # the hold of a bridge of before is people's
        absent = why == ABSENT
        name = f"{job.id}/{'present' if absent else 'resume'}/{workload.generation}.{seq}"
        yield name, ResumeJob(job=job.id, keep_failed_starts=absent, hold=HOLD if hold else "")


def _class(pool: PoolView, rules: Rules, workload: Workload, job: Job) -> Iterator[tuple[str, RequestBody]]:
    wanted = class_of(workload, rules, pool.state)
    if wanted is not None and wanted != job.class_name and job.phase in PENDING:
        yield f"{job.id}/class/{wanted}/{workload.resource_version}", SetPriorityClass(job=job.id, priority_class=wanted)


def _scaling(workload: Workload, job: Job, pods: Sequence[Pod]) -> Iterator[tuple[str, RequestBody]]:
    """Pods that have succeeded in earlier attempts are not made anew: the next attempt is smaller."""
    if workload.serves:  # OrderedReady: of pods that it has lost it makes one after the other
        least = job.size if workload.makes_all or job.phase not in PENDING else 0
        workload = with_pods_there(workload, pods, least)
    roles = [role for role in workload.roles if role.count]
    if len(roles) != len(job.demand.tasks):
        return  # a role has appeared or gone: it is another job
    if job.eviction is not None:
        return  # its next attempt has the new size
    for number, (role, group) in enumerate(zip(roles, job.demand.tasks, strict=True)):
        wanted = role.count - finished_before(job, role.name, pods)
        if not workload.resizes and sum(pod.role == role.name and not pod.deleting for pod in pods) != role.count:
            continue  # its pods are still those of the size before
        minimum = _minimum(workload, job, wanted - group.count)
        if 0 < wanted != group.count or (workload.serves and minimum is not None):
            name = f"{job.id}/scale/{number}/{wanted}/{workload.generation}.{job.attempt}"
            if workload.serves:  # what was rejected because too few of those that stay run is tried again
                name += f".{minimum or ''}.{sum(task.index < wanted for task in job.tasks)}"
            yield name, ScaleJob(job=job.id, group=number, tasks=wanted, min_tasks=minimum)


def _minimum(workload: Workload, job: Job, more: int) -> int | None:
    """The minimum that is to be stated. None: it stays; a gang without one stays rigid, at its new size."""
    size = job.size + more
    if job.demand.min_tasks is None:
        return size if more < 0 and job.phase not in PENDING else None
    wanted = min(workload.min_tasks or size, size)
    if workload.serves and job.phase not in PENDING:
        wanted = min(wanted, job.minimum)  # one that runs keeps what it was started with, or gets less
    return wanted if wanted != job.demand.min_tasks else None
