"""Attempts that never started: they are counted, and exclude the nodes that refused them.

They cost each victim one eviction, and so do attempts that fail as soon as they run.
"""

from collections.abc import Iterable

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.scheduling_class import scheduling_class_of
from bailiff_core.model.state import Job, PoolState

GIVEN_UP = ("paused", "requested", "scaled")
"""Why a job, by request, gives up its place."""


def note_failed_start(state: PoolState, job: Job, refused_by: tuple[str, ...]) -> None:
    """The attempt did not start: these nodes are excluded for the job, which evicts its victims for it no second time."""
    job.start_failures += 1
    note_vain_victims(job)
    if refused_by:
        job.refused_by = tuple(sorted(dict.fromkeys((*job.refused_by, *refused_by))))
        for node in refused_by:
            state.refusals.setdefault(node, {})[job.id] = None
        _exclude(job, job.refused_by, ())


def note_vain_victims(job: Job) -> None:
    """What was evicted for the job was of no use: its tasks did not start."""
    job.victims_in_vain = tuple(dict.fromkeys((*job.victims_in_vain, *job.victims)))
    job.victims = ()


def note_given_up(state: PoolState, job: Job) -> None:
    """By request its place is given up before it has run there: what was evicted for it is of no use."""
    preemption = state.preemptions.get(job.preemption) if job.preemption is not None else None
    job.victims = (*job.victims, *(preemption.victims if preemption is not None else ()))
    note_vain_victims(job)


def note_run(state: PoolState, job: Job, outcome: str) -> None:
    """The attempt has run. One that failed by itself before the longest back-off was over was of no use to what it evicted."""
    assert job.last_start is not None
    if outcome == "failed" and state.now - job.last_start < state.rules.restarts.max_backoff:
        note_vain_victims(job)
    else:
        job.victims = job.victims_in_vain = ()


def forget_failed_starts(job: Job) -> None:
    """An operator says that what kept it from running has changed. Nodes stay excluded."""
    job.start_failures, job.victims, job.victims_in_vain = 0, (), ()


def allow_nodes(state: PoolState, job: Job) -> None:
    """Offers the job the nodes again that refused it."""
    forget_refusals(state, job)
    if job.refused_by:
        _exclude(job, (), job.refused_by)
        job.refused_by = ()


def note_joined(state: PoolState, node: str) -> None:
    """Offers the node again to the jobs that it refused."""
    for name in state.refusals.pop(node, ()):
        job = state.jobs.get(name)
        if job is not None and node in job.refused_by:
            job.refused_by = tuple(other for other in job.refused_by if other != node)
            _exclude(job, (), (node,))
            job.pending_recorded = False
            state.indices.touched[job.id] = state.indices.changed_jobs[job.id] = None
            state.indices.retry_unschedulable = True


def forget_refusals(state: PoolState, job: Job) -> None:
    """The job has ended."""
    for node in job.refused_by:
        _forget_refusal(state, job.id, node)


def excluding(demand: JobDemand, added: Iterable[str], dropped: Iterable[str] = ()) -> JobDemand:
    """The demand that excludes the nodes `added` as well, and `dropped` no longer."""
    fewer = dict.fromkeys(dropped)

    def nodes(group: TaskGroup) -> tuple[str, ...]:
        return tuple(sorted(name for name in dict.fromkeys((*group.excluded_nodes, *added)) if name not in fewer))

    groups = tuple(group.model_copy(update={"excluded_nodes": nodes(group)}) for group in demand.tasks)
    return demand.model_copy(update={"tasks": groups})


def _exclude(job: Job, added: Iterable[str], dropped: Iterable[str]) -> None:
    job.demand = excluding(job.demand, added, dropped)
    job.scheduling_class = scheduling_class_of(job.demand)


def _forget_refusal(state: PoolState, job: str, node: str) -> None:
    jobs = state.refusals.get(node, {})
    jobs.pop(job, None)
    if not jobs:
        state.refusals.pop(node, None)
