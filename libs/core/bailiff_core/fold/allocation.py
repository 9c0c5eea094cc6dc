"""Updates each node's sums (`allocated`, `releasing`, `reserved`) and the state's indices when tasks change."""

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from bailiff_core.budgets import use as budgets
from bailiff_core.model.gpu_shares import devices_of, task_resources
from bailiff_core.model.placement_ranges import NodeShare, numbers
from bailiff_core.model.resources import add, remove
from bailiff_core.model.snapshots import is_parked
from bailiff_core.model.state import ENDED, Eviction, Job, JobPhase, Node, PoolState, Resources, Task

from .failed_starts import note_given_up
from .gang import note_stale
from .open_jobs import note_ended
from .past_use import begin_again, count_again, note_use
from .pending_queue import dequeue, enqueue

# --- sums


class changing:  # noqa: N801 - used as a statement; a class, because a generator context manager is slower
    """Context manager: updates the nodes' sums after changes to the job's tasks, or to the one task given."""

    __slots__ = ("_job", "_only", "_state")

    def __init__(self, state: PoolState, job: Job, only: Task | None = None) -> None:
        self._state, self._job, self._only = state, job, only

    def __enter__(self) -> None:
        if self._state.budgets:
            budgets.note_use(self._state, self._job, self._only, -1)
        _count(self._state, self._job, self._job.tasks if self._only is None else (self._only,), remove)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            if self._state.budgets:
                budgets.note_use(self._state, self._job, self._only, 1)
            _count(self._state, self._job, self._job.tasks if self._only is None else (self._only,), add)


def set_reservation(state: PoolState, job: Job, places: list[Task], until: int | None = None, action: str = "allocate") -> None:
    """Replaces the job's reservation by these places, for its next attempt or for single tasks."""
    state.indices.changed_jobs[job.id] = None
    if job.reservation:
        _count(state, job, job.reservation, remove)
        state.indices.retry_unschedulable = True
    changed = bool(job.reservation or places)
    job.reservation, job.reservation_until, job.reservation_action = places, until, action
    if places:
        _count(state, job, places, add)
    if changed:
        note_stale(state, job)
        state.indices.changed_times[job.id] = None


def drop_reservation(state: PoolState, job: Job, indices: Iterable[int]) -> None:
    """Drops the reservation of these tasks."""
    dropped = dict.fromkeys(indices)
    left = [task for task in job.reservation if task.index not in dropped]
    if not left:
        set_reservation(state, job, [])
    elif len(left) < len(job.reservation):
        set_reservation(state, job, left, job.reservation_until, job.reservation_action)


def recount_shares(state: PoolState, node: Node) -> None:
    """Recounts the shares in use on the node after its devices changed."""
    begin_again(state)
    count_again(state)
    if state.budgets:
        budgets.begin_again(state)
        budgets.count_again(state, state.rules.budgets)
    for total in (node.allocated, node.releasing, node.reserved):
        total.shares.clear()
    for job in state.active_jobs():
        for task in (*job.tasks, *job.reservation):
            if task.node != node.number:
                continue
            _, _, _, shares = task_resources(node, job.group(task.index), task.devices)
            for total in _sums_of(job, task, node):
                for number, share in shares.items():
                    total.shares[number] = total.shares.get(number, 0) + share


def _count(state: PoolState, job: Job, tasks: Sequence[Task], change: Callable[..., None]) -> None:
    state.indices.changed_jobs[job.id] = None
    if state.past_use is not None:
        note_use(state, state.past_use, job, tasks, 1 if change is add else -1)
    for task in tasks:
        if task.state == "released":
            continue
        state.indices.changed_nodes[task.node] = None
        node = state.nodes[task.node]
        amount = task_resources(node, job.group(task.index), task.devices)
        for total in _sums_of(job, task, node):
            change(total, *amount)


def _sums_of(job: Job, task: Task, node: Node) -> tuple[Resources, ...]:
    if task.state == "released":
        return ()
    if task.state == "reserved":
        return (node.reserved,)
    return (node.allocated, node.releasing) if is_releasing(job, task) else (node.allocated,)


def is_releasing(job: Job, task: Task) -> bool:
    """Whether the task's resources are releasing: it exited, or its eviction is in progress and not stuck."""
    if job.eviction is None and task.eviction is None:
        return task.state == "exited"
    evictions = [eviction for eviction in (job.eviction, task.eviction) if eviction is not None]
    if any(eviction.stuck for eviction in evictions):
        return False
    return task.state == "exited" or any(eviction.cancel_seq is None for eviction in evictions)


# --- indices


def set_phase(state: PoolState, job: Job, phase: JobPhase) -> None:
    """Sets the job's phase and updates the indices."""
    if job.phase != phase:
        if job.phase == "running":
            _forget_run_limit(state, job)
        state.indices.changed_jobs[job.id] = None
        job.phase = phase
        if phase == "running":
            _note_run_limit(state, job)
        elif phase in ENDED:
            job.ended_at = state.now
            state.ended[job.id] = state.now
            note_ended(state, job)
    reindex(state, job)


def reindex(state: PoolState, job: Job) -> None:
    """Updates queue, active, reserved, starting, waiting, saving, parked, evicting and backfilled after a change of its tasks."""
    state.indices.changed_times[job.id] = state.indices.changed_ends[job.id] = None
    reserved = starting = waiting = partial = False
    for task in job.tasks:
        reserved = reserved or task.state == "reserved"
        starting = starting or (task.state == "starting" and task.eviction is None)
        waiting = waiting or task.waits
        partial = partial or task.eviction is not None
    active = job.phase in ("reserved", "starting", "running", "evicting")
    _keep(state.active, job, active)
    _keep(state.backfilled, job, job.backfilled and active)
    _keep(state.reserved, job, reserved)
    _keep(state.starting, job, starting and job.phase in ("starting", "running"))
    _keep(state.waiting, job, waiting and active)
    _keep(state.saving, job, job.saving_seq is not None and active)
    _keep(state.evicting, job, partial or job.eviction is not None)
    note_parked(state, job)
    needed, queued = needs_placement(job), job.id in state.indices.queued
    if needed and not queued:
        enqueue(state, job)
    elif queued and not needed:
        dequeue(state, job)


def note_parked(state: PoolState, job: Job) -> None:
    """Notes whether the job is parked, or evicted to be: others may then not be, on its node, and cost more as victims."""
    was, parked = job.id in state.parked, is_parked(job) or (job.eviction is not None and job.eviction.parks)
    if not (was or parked):
        return
    _keep(state.parked, job, parked)
    for name in state.active:
        if any(state.nodes[task.node].parking is not None for task in state.jobs[name].tasks):
            state.indices.changed_jobs[name] = None


def needs_placement(job: Job) -> bool:
    """Whether the job is queued: it is pending, or it runs and lacks tasks that it may get.

    A job with a preemption in progress requests nothing more; a gang with a task that exited by itself does not grow.
    """
    if job.phase == "pending":
        return True
    if job.phase not in ("starting", "running") or job.cancelled or job.preemption is not None or len(job.tasks) >= job.size:
        return False
    return not any(task.state in ("exited", "released") and task.eviction is None for task in job.tasks)


@contextmanager
def reordering(state: PoolState, job: Job) -> Iterator[None]:
    """Context manager: moves the job in the queue after changes to its priority."""
    queued = job.id in state.indices.queued
    if queued:
        dequeue(state, job)
    yield
    if queued:
        enqueue(state, job)
    state.indices.changed_jobs[job.id] = state.indices.changed_times[job.id] = None


def _keep(index: dict[str, None], job: Job, member: bool) -> None:
    if member:
        index.setdefault(job.id, None)
    else:
        index.pop(job.id, None)


def _note_run_limit(state: PoolState, job: Job) -> None:
    if job.demand.run_time_limit is not None and job.last_start is not None:
        insort(state.run_time_limits, (job.last_start + job.demand.run_time_limit, job.id))


def _forget_run_limit(state: PoolState, job: Job) -> None:
    if job.demand.run_time_limit is not None and job.last_start is not None:
        state.run_time_limits.remove((job.last_start + job.demand.run_time_limit, job.id))


# --- gangs


def phase_of(job: Job) -> JobPhase:
    """Returns the phase of a placed job that is not being evicted."""
    first = job.last_start is None and any(task.state == "starting" for task in job.tasks)
    return "starting" if first else "running"


def tasks_of(state: PoolState, job: Job, placement: tuple[NodeShare, ...], reserved: bool) -> list[Task]:
    """Returns the tasks of a placement; devices are assigned in task order, lowest number first."""
    tasks = []
    for share in placement:
        free = numbers(share.devices)
        for index in numbers(share.tasks):
            count = devices_of(job.group(index))
            mask = 0
            for device in free[:count]:
                mask |= 1 << device
            del free[:count]
            start_seq = None if reserved else state.seq
            tasks.append(Task(index, share.node, mask, "reserved" if reserved else "starting", start_seq=start_seq))
    tasks.sort(key=lambda task: task.index)
    return tasks


def evict_job(state: PoolState, job: Job, eviction: Eviction) -> None:
    """Evicts the whole attempt; reserved tasks are dropped at once. A restart stays pending until the attempt is over."""
    set_reservation(state, job, [])
    close_preemption(state, job, eviction.cause)
    with changing(state, job):
        job.tasks = [task for task in job.tasks if task.state != "reserved"]
        job.eviction = eviction
    job.reserved_until = job.stale_since = job.operator_request = None
    job.idle_recorded = False
    set_phase(state, job, "evicting")


def close_preemption(state: PoolState, job: Job, why: str) -> None:
    """Closes the preemption for the job; its victims are reconsidered, but for what another one needs of the same eviction.

    Args:
        why: As of `note_given_up`.
    """
    preemption = state.preemptions.pop(job.preemption, None) if job.preemption is not None else None
    seq, victims = (preemption.seq, preemption.victims) if preemption is not None else (-1, [])
    given_up: dict[str, list[Eviction]] = {}
    for victim in victims:
        state.indices.touched[victim] = None
        found = state.jobs.get(victim)
        eviction = found.eviction if found is not None else None
        if eviction is not None and eviction.preemption == seq:
            other = next((each for each in state.preemptions.values() if victim in each.victims), None)
            if other is not None:
                eviction.preemption, eviction.for_job = other.seq, other.job
        entries = (eviction, *(task.eviction for task in found.tasks)) if found is not None else ()
        given_up[victim] = [each for each in entries if each is not None and each.preemption == seq]
    note_given_up(state, job, given_up, why)
    job.preemption = None
