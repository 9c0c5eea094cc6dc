"""Keeps each node's sums (`held`, `releasing`, `reserved`) and the pool's indices true while tasks change."""

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType

from bailiff_core.model.places import NodeShare, numbers
from bailiff_core.model.pool import ENDED, Eviction, Job, JobPhase, Node, Pool, Room, Task
from bailiff_core.model.room import add, remove
from bailiff_core.model.sharing import amount_of, devices_of
from bailiff_core.queue.order import dequeue, enqueue

# --- sums


class changing:  # noqa: N801 - reads as a statement; a class, because a generator costs as much as what stands inside
    """Whatever changes inside about the job's tasks (or the one given) is reflected in the nodes' sums after it."""

    __slots__ = ("_job", "_only", "_pool")

    def __init__(self, pool: Pool, job: Job, only: Task | None = None) -> None:
        self._pool, self._job, self._only = pool, job, only

    def __enter__(self) -> None:
        _count(self._pool, self._job, self._job.tasks if self._only is None else (self._only,), remove)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            _count(self._pool, self._job, self._job.tasks if self._only is None else (self._only,), add)


def set_promise(pool: Pool, job: Job, places: list[Task], until: int | None = None, verb: str = "allocate") -> None:
    """Keep these places for when the job, or these members of it, have left; instead of those kept so far."""
    pool.stale_jobs[job.id] = None
    if job.promise:
        _count(pool, job, job.promise, remove)
        pool.room_grew = True
    job.promise, job.promise_until, job.promise_verb = places, until, verb
    if places:
        _count(pool, job, places, add)


def drop_promise(pool: Pool, job: Job, indices: Iterable[int]) -> None:
    """These members have no place kept for them any more."""
    if not job.promise:
        set_promise(pool, job, [])
        return
    gone = dict.fromkeys(indices)
    left = [task for task in job.promise if task.index not in gone]
    if not left:
        set_promise(pool, job, [])
    elif len(left) < len(job.promise):
        set_promise(pool, job, left, job.promise_until, job.promise_verb)


def recount_shares(pool: Pool, node: Node) -> None:
    """The node's devices changed: what their shares amount to is counted anew."""
    for room in (node.held, node.releasing, node.reserved):
        room.shares.clear()
    for job in pool.active_jobs():
        for task in (*job.tasks, *job.promise):
            if task.node != node.number:
                continue
            _, _, _, shares = amount_of(node, job.group(task.index), task.devices)
            for room in _rooms_of(job, task, node):
                for number, share in shares.items():
                    room.shares[number] = room.shares.get(number, 0) + share


def _count(pool: Pool, job: Job, tasks: Iterable[Task], change: Callable[..., None]) -> None:
    pool.stale_jobs[job.id] = None
    for task in tasks:
        if task.state == "released":
            continue
        pool.stale_nodes[task.node] = None
        node = pool.nodes[task.node]
        amount = amount_of(node, job.group(task.index), task.devices)
        for room in _rooms_of(job, task, node):
            change(room, *amount)


def _rooms_of(job: Job, task: Task, node: Node) -> tuple[Room, ...]:
    if task.state == "released":
        return ()
    if task.state == "reserved":
        return (node.reserved,)
    return (node.held, node.releasing) if is_leaving(job, task) else (node.held,)


def is_leaving(job: Job, task: Task) -> bool:
    """Whether the room that the task holds is on its way out: it ended, or it is being evicted and may be counted on."""
    gang, alone = job.eviction, task.eviction
    if gang is None and alone is None:
        return task.state == "exited"
    evictions = [eviction for eviction in (gang, alone) if eviction is not None]
    if any(eviction.stuck for eviction in evictions):
        return False
    return task.state == "exited" or any(eviction.spare_seq is None for eviction in evictions)


# --- indices


def set_phase(pool: Pool, job: Job, phase: JobPhase) -> None:
    """Move the job to `phase` and keep the pool's indices true."""
    if job.phase != phase:
        if job.phase == "running":
            _forget_run_limit(pool, job)
        pool.stale_jobs[job.id] = None
        job.phase = phase
        if phase == "running":
            _note_run_limit(pool, job)
        elif phase in ENDED:
            job.ended_at = pool.now
            pool.ended[job.id] = pool.now
    reindex(pool, job)


def reindex(pool: Pool, job: Job) -> None:
    """Keep queue, active, reserved, starting and leaving true after a change of the job's tasks."""
    pool.stale_times[job.id] = None
    reserved = starting = alone = False
    for task in job.tasks:
        reserved = reserved or task.state == "reserved"
        starting = starting or (task.state == "starting" and task.eviction is None)
        alone = alone or task.eviction is not None
    _keep(pool.active, job, job.phase in ("reserved", "starting", "running", "evicting"))
    _keep(pool.reserved, job, reserved)
    _keep(pool.starting, job, starting and job.phase in ("starting", "running"))
    _keep(pool.leaving, job, alone or job.eviction is not None)
    waits, queued = asks_for_room(job), job.id in pool.queued
    if waits and not queued:
        enqueue(pool, job)
    elif queued and not waits:
        dequeue(pool, job)


def asks_for_room(job: Job) -> bool:
    """Whether the job stands in the queue: it has no place, or it runs and lacks tasks that nothing keeps it from getting.

    Who waits for a plan asks for nothing more, and a gang of which a member has ended by itself does not grow.
    """
    if job.phase == "pending":
        return True
    if job.phase not in ("starting", "running") or job.cancelled or job.plan is not None or len(job.tasks) >= job.size:
        return False
    return not any(task.state in ("exited", "released") and task.eviction is None for task in job.tasks)


@contextmanager
def reordering(pool: Pool, job: Job) -> Iterator[None]:
    """Whatever changes inside about the job's priority moves it in the queue."""
    queued = job.id in pool.queued
    if queued:
        dequeue(pool, job)
    yield
    if queued:
        enqueue(pool, job)
    pool.stale_jobs[job.id] = pool.stale_times[job.id] = None


def _keep(index: dict[str, None], job: Job, member: bool) -> None:
    if member:
        index.setdefault(job.id, None)
    else:
        index.pop(job.id, None)


def _note_run_limit(pool: Pool, job: Job) -> None:
    if job.demand.run_time_limit is not None and job.last_start is not None:
        insort(pool.run_limits, (job.last_start + job.demand.run_time_limit, job.id))


def _forget_run_limit(pool: Pool, job: Job) -> None:
    if job.demand.run_time_limit is not None and job.last_start is not None:
        pool.run_limits.remove((job.last_start + job.demand.run_time_limit, job.id))


# --- gangs


def phase_of(job: Job) -> JobPhase:
    """The phase of a placed job that nobody wants gone (any more)."""
    first = job.last_start is None and any(task.state == "starting" for task in job.tasks)
    return "starting" if first else "running"


def tasks_of(pool: Pool, job: Job, placement: tuple[NodeShare, ...], reserved: bool) -> list[Task]:
    """The gang's tasks at their places: devices of a share are dealt in task order, lowest number first."""
    tasks = []
    for share in placement:
        free = numbers(share.devices)
        for index in numbers(share.tasks):
            count = devices_of(job.group(index))
            mask = 0
            for device in free[:count]:
                mask |= 1 << device
            del free[:count]
            start_seq = None if reserved else pool.seq
            tasks.append(Task(index, share.node, mask, "reserved" if reserved else "starting", start_seq=start_seq))
    tasks.sort(key=lambda task: task.index)
    return tasks


def leave_whole(pool: Pool, job: Job, eviction: Eviction) -> None:
    """The whole attempt is to end; what was only promised to members of it is free at once."""
    set_promise(pool, job, [])
    with changing(pool, job):
        job.tasks = [task for task in job.tasks if task.state != "reserved"]
        job.eviction = eviction
    close_plan(pool, job)
    job.reserved_until = job.stale_since = job.wish = None
    job.resized = job.idle_told = False
    set_phase(pool, job, "evicting")


def close_plan(pool: Pool, job: Job) -> None:
    """The plan for the job is over; its victims are looked at again."""
    plan = pool.plans.pop(job.plan, None) if job.plan is not None else None
    for victim in plan.victims if plan is not None else ():
        pool.touched[victim] = None
    job.plan = None
