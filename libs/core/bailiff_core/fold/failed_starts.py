"""Attempts that never started: they are counted, and exclude the nodes that refused them.

What an attempt evicted that did not start, or ended at once by its own doing, was evicted in vain: the job evicts it no second
time before it has run. All jobs of its owner spare it for `restarts.max_backoff`, twice as long after each further time, up to
`LONGEST`. So nobody can evict a job again and again by jobs that do not run, whatever is cancelled and submitted anew.
"""

from collections.abc import Iterable

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.scheduling_class import scheduling_class_of
from bailiff_core.model.state import ENDED, Job, PoolState, Preemption, Spared, Task

from .open_jobs import user_key

LONGEST = 3_600_000_000
"""The longest time for which the jobs of one owner spare another, µs, unless `restarts.max_backoff` is longer."""
OF_ITS_OWN = ("failed", "yielded", "cancelled", "timed-out", "paused", "requested", "scaled")
"""Outcomes and causes by which an attempt ends by the doing of its job or its owner, or by request."""
GOES_ON = ("migration", "resize")
"""Causes of an end after which the job goes on at a place that it has already."""


def note_failed_start(state: PoolState, job: Job, refused_by: tuple[str, ...]) -> None:
    """The attempt did not start: these nodes are excluded for the job, which evicts its victims for it no second time."""
    job.start_failures += 1
    note_vain_victims(state, job)
    if refused_by:
        job.refused_by = tuple(sorted(dict.fromkeys((*job.refused_by, *refused_by))))
        for node in refused_by:
            state.refusals.setdefault(node, {})[job.id] = None
        _exclude(job, job.refused_by, ())


def note_over(state: PoolState, job: Job, *why: str) -> None:
    """The attempt is over: what was evicted for it was of use if it succeeded, or ran for longer than the longest back-off.

    Args:
        why: Its outcome and its cause.
    """
    if _ran(state, job.last_start) or "finished" in why or "succeeded" in why:
        job.victims = job.victims_in_vain = ()
    elif any(each in OF_ITS_OWN for each in why):
        note_vain_victims(state, job)
    elif not any(each in GOES_ON for each in why):
        if job.last_start is None:
            _spare(state, job, job.victims)
        job.victims = ()


def note_vain_victims(state: PoolState, job: Job) -> None:
    """What was evicted for the job was of no use: its tasks did not start, or ended at once."""
    preemption = state.preemptions.get(job.preemption) if job.preemption is not None else None
    taken = (*job.victims, *(preemption.victims if preemption is not None else ()))
    job.victims_in_vain = tuple(dict.fromkeys((*job.victims_in_vain, *taken)))
    _spare(state, job, job.victims)
    job.victims = ()


def note_started(state: PoolState, job: Job, victims: Iterable[str]) -> None:
    """The attempt gets what was evicted for it. What the job has run on for long was of use."""
    if _ran(state, job.last_start):
        job.victims = ()
    job.victims = tuple(dict.fromkeys((*job.victims, *victims)))


def note_shrunk(state: PoolState, job: Job, gone: Iterable[Task], cause: str) -> None:
    """The job goes on without these tasks. Where it gives them up by request before they have run, others left for them in vain.

    Unlike who left for tasks that did not start, those are spared for a time only: an attempt that grows may run for months.
    """
    if any(task.start_failed for task in gone):
        note_vain_victims(state, job)
    elif cause in OF_ITS_OWN and any(not _ran(state, task.started_at) for task in gone):
        _spare(state, job, job.victims)
        job.victims = ()


def note_given_up(state: PoolState, job: Job, preemption: Preemption) -> None:
    """The place is given up before the job had it: who has left for it already left in vain."""
    _spare(state, job, preemption.victims, preemption.seq)


def note_left(state: PoolState, victim: Job) -> None:
    """The victim has left, whole or in part. If its preemptor has given up the place meanwhile, or has ended, it left in vain."""
    for eviction in (victim.eviction, *(task.eviction for task in victim.tasks if task.state == "released")):
        preemptor = state.jobs.get(eviction.for_job) if eviction is not None and eviction.for_job is not None else None
        if eviction is None or preemptor is None or eviction.preemption in state.preemptions or victim.id in preemptor.victims:
            continue
        _note_spared(state, preemptor, victim)


def spared(state: PoolState, preemptor: Job) -> dict[str, Spared]:
    """The jobs that the preemptor's owner spares now, as they were evicted in vain for its jobs."""
    jobs = state.spared.get(user_key(preemptor.user, preemptor.user_verified), {})
    return {name: entry for name, entry in jobs.items() if entry.until > state.now}


def evicted_in_vain(state: PoolState, preemptor: Job) -> dict[str, None]:
    """The jobs that the preemptor may not evict because it, or a job of its owner, did so in vain."""
    return dict.fromkeys((*preemptor.victims_in_vain, *spared(state, preemptor)))


def forget_spared(state: PoolState, victim: str) -> None:
    """The job has ended."""
    for owner in list(state.spared):
        _forget_spared(state, owner, victim)


def _ran(state: PoolState, start: int | None) -> bool:
    """Whether what started then, µs, has run for longer than the longest back-off."""
    return start is not None and state.now - start >= state.rules.restarts.max_backoff


def _spare(state: PoolState, preemptor: Job, victims: Iterable[str], decided: int | None = None) -> None:
    """These were evicted in vain for the preemptor; one that is still leaving may stay, so it counts once it has left.

    Args:
        decided: The record of the preemption, of which another preemptor may need some by now.
    """
    for name in victims:
        victim = state.jobs.get(name)
        evictions = (victim.eviction, *(task.eviction for task in victim.tasks)) if victim is not None else ()
        leaving = any(each is not None and (each.for_job == preemptor.id or each.decided_seq == decided) for each in evictions)
        if victim is not None and not leaving:
            _note_spared(state, preemptor, victim)


def _note_spared(state: PoolState, preemptor: Job, victim: Job) -> None:
    if victim.phase in ENDED:
        return
    jobs = state.spared.setdefault(user_key(preemptor.user, preemptor.user_verified), {})
    times, first = 0, state.rules.restarts.max_backoff
    if (known := jobs.get(victim.id)) is not None and state.now < known.until + state.rules.retention.ended_jobs:
        times = known.times if state.now >= known.until else known.times - 1
    jobs[victim.id] = Spared(times + 1, state.now + min(first << min(times, 16), max(first, LONGEST)), state.seq)


def forget_failed_starts(state: PoolState, job: Job) -> None:
    """An operator says that what kept it from running has changed. Nodes stay excluded."""
    for name in job.victims_in_vain:
        _forget_spared(state, user_key(job.user, job.user_verified), name)
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


def _forget_spared(state: PoolState, owner: str, victim: str) -> None:
    jobs = state.spared.get(owner, {})
    jobs.pop(victim, None)
    if not jobs:
        state.spared.pop(owner, None)
