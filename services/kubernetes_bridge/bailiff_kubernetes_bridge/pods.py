"""Which pod is which task: gates that are to be opened, and what is written to pods that wait."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bailiff_core.humanize import count_text
from bailiff_core.model.state import ENDED, Job, Task
from bailiff_kubernetes.names import task_hash
from bailiff_kubernetes.task_keys import task_key

from .actions import Action, CopyCheckpoint, EndPod, MarkPod, Nominate, OpenGate, SetPodStatus
from .messages import PoolView, Status, placed_text
from .workloads.model import Pod, Workload

NOT_GATED = Status(
    "NotGated",
    "it has no scheduling gate of Bailiff's and no task: it runs outside Bailiff, on resources that Bailiff only subtracts",
    warning=True,
)


def pod_actions(
    pool: PoolView, workload: Workload, job: Job | None, pods: Sequence[Pod], status: Status | None, *, is_resizing: bool
) -> Iterator[Action]:
    """status: of the workload, for the pods that wait, and for evicted ones whose workload has no object that says it.

    is_resizing: the job is about to get another number of tasks; until then no gate is opened.
    """
    active = [pod for pod in pods if pod.is_active]
    is_open = job is not None and job.phase not in ENDED
    tasks = {task_hash(key_of(job, task.index)): task for task in job.tasks} if job is not None and is_open else {}
    opened = (
        {pod.uid: task for task, pod in assignments(job, workload, pods)}
        if job is not None and is_open and not is_resizing
        else {}
    )
    reserved = reservations(job, workload, active) if job is not None and is_open else ()
    nominated = {pod.uid: pool.state.nodes[task.node].name for task, pod in reserved if pod.uid not in opened}
    for pod in active:
        if job is not None and (task := opened.get(pod.uid)) is not None:
            cost = str(-task.index) if workload.serves else ""
            yield OpenGate(pod, job.id, key_of(job, task.index), pool.state.nodes[task.node].name, cost)
            continue
        if job is not None and _is_left_over(job, pod):
            yield EndPod(pod, f"attempt {pod.attempt} of {job.id} is over")
            continue
        if pod.gated and pod.nominated != nominated.get(pod.uid, ""):
            yield Nominate(pod, nominated.get(pod.uid, ""), job.id if job is not None and pod.uid in nominated else "")
        if workload.is_pod_group and workload.requeues and job is not None and is_open and pod.gated and not pod.job:
            yield MarkPod(pod, job.id)
        yield from _told(pool, workload, job, tasks.get(pod.task_hash), pod, status)
        if pod.task_hash and workload.checkpoint and pod.checkpoint != workload.checkpoint and not workload.is_pod_group:
            yield CopyCheckpoint(pod, workload.checkpoint)
    if not workload.has_status:
        for pod in pods:
            if pod.deleting and not pod.finished and pod.task_hash in tasks:
                yield from _told(pool, workload, job, tasks[pod.task_hash], pod, status)


def _told(
    pool: PoolView, workload: Workload, job: Job | None, task: Task | None, pod: Pod, status: Status | None
) -> Iterator[SetPodStatus]:
    found = _status_of_pod(pool, workload, job, task, pod, status)
    tells_job = workload.is_single_pod or workload.serves  # no object of theirs says it
    if found is not None and pod.placed != (str(found.placed), found.message):
        yield SetPodStatus(pod, found, job.id if job is not None and tells_job else "")


def _is_left_over(job: Job, pod: Pod) -> bool:
    """Whether the pod is of an attempt that is over. That is never undone, so it holds however far the log was read."""
    if pod.gated or pod.job != job.id or pod.attempt is None or job.phase in ENDED:
        return False
    return pod.attempt < job.attempt or (pod.attempt == job.attempt and job.phase in ("pending", "reserved"))


def _status_of_pod(
    pool: PoolView, workload: Workload, job: Job | None, task: Task | None, pod: Pod, status: Status | None
) -> Status | None:
    """What the pod's condition is to say; None: as it is."""
    if pod.gated:
        return None if status is None else replace(status, placed=False)
    if not pod.task_hash:
        return NOT_GATED
    if job is None or task is None:
        return None
    if not workload.has_status and (job.eviction or task.eviction) is not None:
        return status
    return Status("Placed", placed_text(pool, job, task.index, pool.state.nodes[task.node].name, task.start_seq), placed=True)


def assignments(job: Job, workload: Workload, pods: Sequence[Pod]) -> Iterator[tuple[Task, Pod]]:
    """Gated pods for tasks that were ordered to start and have no pod yet, nor one that is ending or not proven released."""
    if job.eviction is not None:
        return
    taken = {pod.task_hash for pod in pods if pod.task_hash and (pod.is_held or not pod.finished)}
    yield from _pairs(
        job,
        workload,
        [pod for pod in pods if pod.is_active],
        [
            task
            for task in job.tasks
            if task.state in ("starting", "running") and task.eviction is None and task_hash(key_of(job, task.index)) not in taken
        ],
    )


def reservations(job: Job, workload: Workload, active: Sequence[Pod]) -> Iterator[tuple[Task, Pod]]:
    """Gated pods for tasks whose places are reserved: while victims leave, or for the next attempt of a job that is moved."""
    yield from _pairs(job, workload, active, [*(task for task in job.tasks if task.state == "reserved"), *job.reservation])


def _pairs(job: Job, workload: Workload, active: Sequence[Pod], tasks: Sequence[Task]) -> Iterator[tuple[Task, Pod]]:
    """Each of these tasks with a gated pod.

    A pod with a rank becomes the task of its rank; other pods are taken by name. Ranks beyond the job's size are those of an
    indexed Job that has finished a part of its pods in earlier attempts: they are taken by name, too.
    """
    first = 0
    for role, group in zip((role for role in workload.roles if role.count), job.demand.tasks, strict=False):
        waiting = [task for task in tasks if first <= task.index < first + group.count]
        free = sorted(
            (pod for pod in active if pod.gated and not pod.task_hash and pod.role == role.name), key=lambda pod: pod.name
        )
        ranked = {pod.index: pod for pod in free if pod.index is not None and pod.index < group.count}
        others = [pod for pod in free if pod.index is None or pod.index >= group.count]
        for task in waiting:
            found = ranked.get(task.index - first) or (others.pop(0) if others else None)
            if found is not None:
                yield task, found
        first += group.count


def key_of(job: Job, index: int) -> str:
    """The key of the task of the job's present attempt."""
    return task_key(job.id, job.attempt, str(index))


def lacks_pods(workload: Workload, pods: Sequence[Pod]) -> str:
    """How many of its pods are there, where they are too few to run; empty: enough, or its controller makes some later."""
    wanted = workload.min_tasks or workload.size
    there = sum(not pod.deleting and (pod.succeeded or not pod.finished) for pod in pods)
    is_short = (workload.makes_all or workload.serves) and there < wanted
    return f"{there} of {count_text(wanted, 'pod')}" if is_short else ""


def with_pods_there(workload: Workload, pods: Sequence[Pod], least: int) -> Workload:
    """Of a workload that serves: with as many pods as are there, since nothing is to be reserved for those that are not.

    least: how many it has in any case, as far as it asks for them.
    """
    (role,) = workload.roles
    there = sum(pod.is_active for pod in pods)
    count = min(role.count, max(there, least, workload.min_tasks or 1))
    return workload if count == role.count else replace(workload, roles=(replace(role, count=count),))


def finished_before(job: Job, role: str, pods: Sequence[Pod]) -> int:
    """How many pods of the role have succeeded in earlier attempts."""
    present = {task_hash(key_of(job, task.index)) for task in job.tasks}
    return sum(pod.succeeded and pod.role == role and bool(pod.task_hash) and pod.task_hash not in present for pod in pods)
