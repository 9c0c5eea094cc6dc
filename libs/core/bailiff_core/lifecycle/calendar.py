"""GPUs that are reserved: when a time begins and ends, and the evictions that free what was promised, at the last moment."""

from collections.abc import Iterator
from dataclasses import dataclass

from bailiff_core.calendar.windows import begins_of, calendar_of, next_window
from bailiff_core.model.grace import grace_of
from bailiff_core.model.mig import profile_of
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, evictable_units
from bailiff_core.placement.cluster_resources import usable_devices
from bailiff_core.quota.holdings import Held, held_by
from bailiff_core.quota.leaving import evictable_from, gone_by, leaving_time, until_limit
from bailiff_core.quota.promises import Moment, Promises, missing, promises_of, reserved_text
from bailiff_core.records.decisions import ReservationBegan, ReservationDropped, ReservationEnded
from bailiff_core.records.payload import Decision
from bailiff_core.scheduling_snapshot import current_usage

from .termination import eviction_decision

MAX_NAMED = 100


@dataclass(frozen=True, slots=True)
class Leaving:
    """What a job gives up for a promise.

    Attributes:
        units: In the order of their eviction.
        at: The last moment to begin, µs.
        by: When the GPUs are promised, µs.
    """

    job: Job
    units: tuple[Unit, ...]
    at: int
    by: int


def reservation_times(state: PoolState) -> Iterator[Decision]:
    """Records when the time of a reservation begins, with what is missing, and when it is over."""
    for reservation in list(state.gpu_reservations.values()):
        window = next_window(reservation)
        if window is None or state.now < window.begin:
            continue
        if reservation.began is None:
            lacks = _missing(state, reservation.project, reservation.gpus)
            yield ReservationBegan(
                reservation=reservation.name,
                project=reservation.project,
                gpus=reservation.gpus,
                begin=window.begin,
                end=window.end,
                missing=lacks,
                unavailable=_unavailable(state) if lacks else (),
                leaving=tuple(state.evicting)[:MAX_NAMED] if lacks else (),
            )
        if state.now >= window.end:
            last = next(begins_of(reservation, window.end), None) is None
            yield ReservationEnded(reservation=reservation.name, begin=window.begin, end=window.end, last=last)


def reservation_evictions(state: PoolState) -> Iterator[Decision]:
    """Evicts what must go for a promise, once its last moment has come; what is only reserved is dropped."""
    while (due := next((each for each in leaving_jobs(state, state.now) if each.at <= state.now), None)) is not None:
        job = due.job
        window = calendar_of(state).at(due.by)[0]
        if job.phase in ("reserved", "evicting"):
            preemption = job.preemption if job.phase == "reserved" else None
            yield ReservationDropped(job=job.id, reason="gpus-reserved", preemption=preemption)
            continue
        tasks = "" if due.units[-1].core else ranges(index for unit in due.units for index in unit.indices)
        grace = grace_of(state, job)
        if due.by > state.now:  # the rest of the margin is for what comes before the notice and after the KILL
            grace = min(grace, max(0, due.by - state.rules.reservations.margin // 2 - state.now))
        yield eviction_decision(state, job, "reservation", reserved_text(window), tasks, grace=grace)


def leaving_jobs(state: PoolState, until: int | None = None) -> list[Leaving]:
    """The jobs that have to leave for promises of now, or soon, as things are now; the first to leave first.

    Args:
        until: Nobody is looked for who need not leave before, µs.
    """
    usage = current_usage(state)
    promises = promises_of(state, usage)
    found: list[Leaving] = []
    if promises.now:
        found = _who_leaves(state, promises, promises.moment(state.now, promises.now, promises.holdings.held))
    if found:
        return found
    for moment in promises.moments(until_limit):
        first = moment.time - promises.holdings.longest
        if (until is not None and until < first) or any(each.at <= first for each in found):
            break
        found += _who_leaves(state, promises, moment)
    return sorted(found, key=lambda each: (each.at, each.job.seq, each.job.id))


def next_calendar_change(state: PoolState) -> int | None:
    """When time alone may lead to a decision about reservations next, µs; `None`: never."""
    if not state.gpu_reservations or state.policy is None:
        return None
    promises = promises_of(state, current_usage(state))
    times = [each.at for each in leaving_jobs(state, state.now)[:1]]
    for moment in promises.moments(until_limit):
        if moment.free < 0:  # who leaves is looked for when it may be time
            times.append(moment.time - promises.holdings.longest)
            break
    edge = promises.calendar.next_edge(state.now)
    return min((time for time in (*times, edge) if time is not None and time > state.now), default=None)


def _who_leaves(state: PoolState, promises: Promises, moment: Moment) -> list[Leaving]:
    """What must go so that everything promised from that time on is free then: nothing that need not.

    First what can still leave in time, of that lower priority first, then later submission, of one job the surplus first. What
    turns out not to be needed stays, the most valuable first.
    """
    if moment.free >= 0:
        return []
    time, held = moment.time, moment.held.copy()
    jobs = [job for job in state.active_jobs() if held_by(job) and (time <= state.now or gone_by(state, job, until_limit) > time)]

    def free() -> int:
        return promises.moment(time, moment.promised, held).free

    last = {job.id: _last_moment(state, job, time) for job in jobs}
    able = [job for job in jobs if last[job.id] is not None]
    able.sort(key=lambda job: ((last[job.id] or 0) < state.now, job.priority, -job.seq, job.id))
    taken: dict[str, list[Unit]] = {}
    for job in able:
        tried, short = list[Unit](), free()
        for unit in _units_of(job) if short < 0 else ():
            held.add(job, unit.indices, -1)
            tried.append(unit)
            if free() > short:  # else the GPUs were promised to its own project
                taken.setdefault(job.id, []).extend(tried)
                tried, short = [], free()
            if short >= 0:
                break
        for unit in tried:
            held.add(job, unit.indices)
    for job in sorted(able, key=lambda job: (-job.priority, job.seq, job.id)):
        units = taken.get(job.id, [])
        while units:
            held.add(job, units[-1].indices)
            if free() < 0:
                held.add(job, units[-1].indices, -1)
                break
            units.pop()
    return [Leaving(job, tuple(taken[job.id]), last[job.id] or 0, time) for job in able if taken.get(job.id)]


def _units_of(job: Job) -> list[Unit]:
    """What it can lose, in that order; of a job that is being evicted, what is reserved for it."""
    if job.phase == "evicting":
        return [Unit(job, tuple(task.index for task in job.reservation), core=True)]
    return evictable_units(job)


def _last_moment(state: PoolState, job: Job, time: int) -> int | None:
    """When the job has to begin to leave at the latest, to be gone by then, µs; `None`: it may not be evicted for it."""
    evictable, at = evictable_from(state, job), time - leaving_time(state, job)
    if job.phase in ("reserved", "evicting") and time <= state.now:
        return at
    return None if evictable > max(at, state.now) else at


def _missing(state: PoolState, project: str, gpus: int) -> int:
    """How many of these GPUs the project's jobs neither have, or are leaving themselves, nor could get now."""
    usage = current_usage(state)
    promised = promises_of(state, usage).now
    free = 0
    for node in state.nodes.values():
        if node.schedulable:
            idle = usable_devices(node) & ~(node.allocated.devices | sum(1 << number for number in node.allocated.shares))
            free += sum(1 for device in node.devices if idle >> device.number & 1 and not profile_of(device))
    held = Held(usage.tree)
    for job in state.active_jobs():
        held.add(job, [task.index for task in job.tasks if task.state not in ("reserved", "released")])
    lacks = missing(usage.tree, promised, held.by) - free
    return max(0, min(gpus, lacks, promised.get(project, 0) - held.by(project)))


def _unavailable(state: PoolState) -> tuple[str, ...]:
    """Nodes with GPUs that take no tasks now, or whose GPUs do not all."""
    nodes = [node for node in state.nodes.values() if node.devices]
    missed = [node.name for node in nodes if not node.schedulable or usable_devices(node) != node.capacity.devices]
    return tuple(missed[:MAX_NAMED])
