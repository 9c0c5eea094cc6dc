"""Attempts that never started: they are counted, and exclude the nodes that refused them. And what was evicted in vain, or often.

What left for an attempt left in vain if that ended within `restarts.max_backoff` of its start. Whose job the attempt was answers
for it: all jobs of that owner spare who left, for `restarts.max_backoff`, twice as long after each further time, up to `LONGEST`.
If others ended the attempt, its owner does not answer: who evicts a job that has not run for so long answers for what had left
for it, too, and may not evict it while it spares one of those. So somebody answers for each eviction in vain, but for those that
an operator, a drain, a policy or the loss of a node ended; and nobody can evict a job again and again by jobs that do not run,
whatever is cancelled and submitted anew, and whoever helps.

What jobs that are of use evict, by priority or for their project's quota, is counted, too: once one owner's jobs have evicted a
job `MOST` times, without a day between two of them, they spare it for an hour, after that and each further time.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.policy import Action
from bailiff_core.model.scheduling_class import scheduling_class_of
from bailiff_core.model.state import ENDED, NOTHING, Eviction, Job, PoolState, Spared, Task
from bailiff_core.permissions import Requester, oversees

from .open_jobs import user_key

LONGEST = 3_600_000_000
"""The longest time for which the jobs of one owner spare another, µs, unless `restarts.max_backoff` is longer."""
MOST = 24
"""So often the jobs of one owner may evict the same job, before they spare it for `LONGEST` after each time."""
FORGOTTEN_AFTER = 86_400_000_000
"""After so long without a further time, µs, it begins anew."""
BY_ITSELF = ("failed", "yielded", "timed-out")
"""Outcomes of an attempt that ended by itself: the next one of the job is likely to end so, too."""
BY_REQUEST = ("cancelled", "paused", "requested")
"""Why an attempt ends, or its place is given up, that an operator may have requested in place of the job's owner."""
BY_OTHERS = ("preemption", "gang-failure", "policy", "device", "drain", "abandoned")
"""Why an attempt ends, or its place is given up, by no doing of its job or of its owner. Who preempts it answers instead."""
GOES_ON = ("migration", "resize")
"""Causes of an end after which the job goes on at a place that it has already."""


def note_failed_start(state: PoolState, job: Job, refused_by: tuple[str, ...]) -> None:
    """The attempt did not start: these nodes are excluded for the job, which evicts its victims for it no second time."""
    job.start_failures += 1
    note_never_again(state, job)
    if refused_by:
        job.refused_by = tuple(sorted(dict.fromkeys((*job.refused_by, *refused_by))))
        for node in refused_by:
            state.refusals.setdefault(node, {})[job.id] = None
        _exclude(job, job.refused_by, ())


def note_over(state: PoolState, job: Job, outcome: str, cause: str) -> None:
    """The attempt is over. Called while the job has its tasks."""
    succeeded = outcome in ("finished", "succeeded")
    if succeeded:
        set_victims(state, job, NOTHING)
    if succeeded or _ran(state, job.last_start):
        job.victims_in_vain = ()
    if outcome in BY_ITSELF:
        note_never_again(state, job)
    if cause in GOES_ON and outcome.startswith("preempted"):
        set_victims(state, job, _in_vain(state, job))  # what was of use stays so when it has started again
    else:
        _answer(state, job, list(job.victims), why_over(outcome, cause))


def why_over(outcome: str, cause: str) -> str:
    """Why the attempt is over: what evicted it, unless it ended otherwise."""
    return cause if outcome.startswith(("preempted", "evicted")) else outcome


def note_never_again(state: PoolState, job: Job) -> None:
    """Its attempt did not start, or ended by itself: until it has run for long, it evicts nobody for another one again."""
    preemption = state.preemptions.get(job.preemption) if job.preemption is not None else None
    taken = (*_in_vain(state, job), *(preemption.victims if preemption is not None else ()))
    job.victims_in_vain = tuple(name for name in dict.fromkeys((*job.victims_in_vain, *taken)) if name in state.jobs)


def note_shrunk(state: PoolState, job: Job, gone: Iterable[Task], cause: str) -> None:
    """The job goes on without these tasks. If they never started, or it gives them up at once, others left for them in vain."""
    if any(task.start_failed for task in gone):
        note_never_again(state, job)
        _answer(state, job, list(job.victims), "never-started")
    elif cause == "scaled" and any(not _ran(state, task.started_at) for task in gone):
        _answer(state, job, list(job.victims), cause)


def note_given_up(state: PoolState, job: Job, evictions: Mapping[str, list[Eviction]], why: str) -> None:
    """The job gives up a place before it has it. Who leaves for it, and may stay yet, leaves in vain once it has left.

    Args:
        evictions: Of each job that was to leave, what no other preemption needs.
        why: The reason of `ReservationDropped`, the cause of its eviction, or `why_over`.
    """
    for each in [each for found in evictions.values() for each in found]:
        each.in_vain = not _is_by_others(state, job, why)
    _answer(state, job, [name for name in job.victims if job.phase == "reserved" or name in evictions], why)


def note_left(state: PoolState, victim: Job) -> None:
    """The victim leaves, whole or in part: whom it leaves for has that on account, and who left for it a short while ago."""
    left = {victim.id: state.now, **_in_vain(state, victim)}
    entries = (victim.eviction, *(task.eviction for task in victim.tasks if task.state == "released"))
    evictions = {each.for_job: each for each in entries if each is not None and each.for_job is not None}
    for name, eviction in evictions.items():
        preemptor = state.jobs.get(name)
        if preemptor is None or eviction.in_vain is False:
            continue
        set_victims(state, preemptor, _in_vain(state, preemptor) | left)
        if victim.eviction is not None and victim.eviction.for_job == name and victim.eviction.cause == "preemption":
            _note_evicted(state, preemptor, victim)
        if eviction.in_vain or preemptor.phase in ENDED:
            _answer(state, preemptor, list(left), "given-up")


def take_over(state: PoolState, holder: Job, preemptor: Job) -> None:
    """The preemptor gets what is reserved for the holder, and has on account who has left for it."""
    set_victims(state, preemptor, {**preemptor.victims, **_in_vain(state, holder)})


def set_victims(state: PoolState, job: Job, victims: Mapping[str, int]) -> None:
    """These have left for the job, and nobody else."""
    index = state.indices.left_for
    if index is not None:
        for name in job.victims:
            index.get(name, {}).pop(job.id, None)
        for name in victims:
            index.setdefault(name, {})[job.id] = None
    job.victims = victims or NOTHING


def may_be_spared(state: PoolState, in_vain: Iterable[str]) -> Iterator[str]:
    """The jobs that `is_spared` may be true of: those, and the jobs for which one of them left."""
    index = state.indices.left_for
    if index is None:
        index = state.indices.left_for = {}
        for job in state.jobs.values():
            for name in job.victims:
                index.setdefault(name, {})[job.id] = None
    for name in in_vain:
        yield name
        yield from index.get(name, ())


def spared(state: PoolState, preemptor: Job) -> dict[str, Spared]:
    """The jobs that the preemptor's owner spares now, as they were evicted in vain, or often, for its jobs."""
    jobs = state.spared.get(user_key(preemptor.user, preemptor.user_verified), {})
    return {name: entry for name, entry in jobs.items() if max(entry.until, entry.often_until) > state.now}


def evicted_in_vain(state: PoolState, action: Action, preemptor: Job) -> dict[str, int | None]:
    """The jobs that were evicted in vain for the preemptor, or a job of its owner, and until when that counts, µs.

    And those that were evicted often, but for moves. `None`: until the preemptor has run.
    """
    found = spared(state, preemptor)
    ends = {name: each.until if action == "consolidate" else max(each.until, each.often_until) for name, each in found.items()}
    until: dict[str, int | None] = {name: end for name, end in ends.items() if end > state.now}
    return until | dict.fromkeys(preemptor.victims_in_vain)


def is_spared(state: PoolState, in_vain: Mapping[str, int | None], job: Job) -> bool:
    """Whether the job is one of those, or one of them left for it a short while ago.

    Args:
        in_vain: As of `evicted_in_vain`.
    """
    return job.id in in_vain or (bool(job.victims) and any(name in in_vain for name in _in_vain(state, job)))


def spared_until(state: PoolState, in_vain: Mapping[str, int | None], job: Job) -> int | None:
    """Until when a job that `is_spared` is so, µs; `None`: for no fixed time."""
    if job.id in in_vain:
        return in_vain[job.id]
    left = {name: at for name, at in _in_vain(state, job).items() if name in in_vain}
    of_use = [max(job.last_start or state.now, at) + state.rules.restarts.max_backoff for at in left.values()]
    ends = [until for name in left if (until := in_vain[name]) is not None]
    return max([min(pair) for pair in zip(of_use, ends, strict=True)]) if len(ends) == len(left) else max(of_use)


def forget_spared(state: PoolState, victim: str) -> None:
    """The job has ended."""
    for owner in list(state.spared):
        _forget_spared(state, owner, victim)


def _ran(state: PoolState, start: int | None) -> bool:
    """Whether what started then, µs, has run for longer than the longest back-off."""
    return start is not None and state.now - start >= state.rules.restarts.max_backoff


def _in_vain(state: PoolState, job: Job) -> dict[str, int]:
    """Of the jobs that left for it, and when, those of no use so far: it has not run for long enough since."""
    return {name: at for name, at in job.victims.items() if job.last_start is None or not _ran(state, max(at, job.last_start))}


def _is_by_others(state: PoolState, job: Job, why: str) -> bool:
    """Whether it ends by no doing of its own or of its owner. Called while the job has its tasks."""
    if why in BY_REQUEST:
        return oversees(state.rules, Requester(job.requester, "signed" if job.requester_verified else "none"), job)
    if why in ("lost", "stale-gang", "resources-lost"):
        return any(_is_lost_with_its_node(state, task) for task in job.tasks)
    return why in BY_OTHERS


def _is_lost_with_its_node(state: PoolState, task: Task) -> bool:
    """Whether the node of the task, of which nobody knows how it ended, is away, or was since it started; or its device is."""
    node = state.nodes[task.node]
    if task.state == "reserved":
        return node.state != "ready" or bool(task.devices & (node.quarantined | ~node.capacity.devices))
    if task.state != "released" or task.exit_code is not None or task.start_failed:
        return task.device_failed
    return task.device_failed or node.state != "ready" or node.joined_seq > (task.start_seq or state.seq)


def _answer(state: PoolState, job: Job, names: list[str], why: str) -> None:
    """What these have left for is over. The job's owner spares those who left in vain, unless others ended it."""
    in_vain, over = _in_vain(state, job), dict.fromkeys(names)
    set_victims(state, job, {name: at for name, at in job.victims.items() if name not in over})
    for name in names:
        victim = state.jobs.get(name)
        if victim is not None and name in in_vain and not _is_by_others(state, job, why):
            _note_spared(state, job, victim)


def _counts_against(preemptor: Job, victim: Job) -> str:
    """Whose doing it is that the victim leaves for the preemptor; empty: nobody's, as both are of one verified owner."""
    owner = user_key(preemptor.user, preemptor.user_verified)
    return "" if preemptor.user_verified and owner == user_key(victim.user, victim.user_verified) else owner


def _note_evicted(state: PoolState, preemptor: Job, victim: Job) -> None:
    """The victim has left for the preemptor, whole, whatever comes of that."""
    owner = _counts_against(preemptor, victim)
    if not owner:
        return
    lately = {name: each for name, each in victim.evicted_for.items() if state.now < each[1] + FORGOTTEN_AFTER}
    times = lately[owner][0] + 1 if owner in lately else 1
    victim.evicted_for = lately | {owner: (times, state.now)}
    if times >= MOST:
        jobs = state.spared.setdefault(owner, {})
        known = jobs.get(victim.id) or Spared(0, 0, state.seq)
        jobs[victim.id] = replace(known, seq=state.seq, often=times, often_until=state.now + LONGEST)


def _note_spared(state: PoolState, preemptor: Job, victim: Job) -> None:
    owner = _counts_against(preemptor, victim)
    if victim.phase in ENDED or not owner:
        return
    for other, jobs in list(state.spared.items()):
        over = [name for name, each in jobs.items() if state.now >= max(each.until, each.often_until) + FORGOTTEN_AFTER]
        for name in over:
            _forget_spared(state, other, name)
    jobs = state.spared.setdefault(owner, {})
    known, first = jobs.get(victim.id), state.rules.restarts.max_backoff
    times = 0 if known is None else known.times - (state.now < known.until)
    until = state.now + min(first << min(times, 16), max(first, LONGEST))
    jobs[victim.id] = replace(known or Spared(0, 0, 0), times=times + 1, until=until, seq=state.seq)


def forget_failed_starts(state: PoolState, job: Job) -> None:
    """An operator says that what kept it from running has changed. Nodes stay excluded."""
    for name in job.victims_in_vain:
        _forget_spared(state, user_key(job.user, job.user_verified), name)
    job.start_failures, job.victims_in_vain = 0, ()
    set_victims(state, job, NOTHING)


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
