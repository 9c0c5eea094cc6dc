"""Ends or requeues jobs whose attempt is over, and stops jobs that were cancelled, broken, scaled down, or ran too long."""

from collections.abc import Iterator
from itertools import islice

from bailiff_core.fold.elasticity import tasks_above_size
from bailiff_core.fold.eviction_causes import GANG_FAILURE, INVOLUNTARY, VOLUNTARY
from bailiff_core.fold.failed_starts import excluding
from bailiff_core.fold.gang import active_tasks
from bailiff_core.fold.jobs import GROWTH_BACKOFF
from bailiff_core.fold.outcome import NEVER_STARTED, attempt_outcome, rule_of, task_outcome
from bailiff_core.humanize import count_text
from bailiff_core.model.grace import grace_by_policy, grace_of
from bailiff_core.model.placement_ranges import numbers, ranges
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.model.units import core_complete, stopped_tasks
from bailiff_core.model.work_lost import counted_gpu_milli, ends_for_good, lost_gpu_ms, restart_is_measured
from bailiff_core.placement.feasibility import could_ever_fit
from bailiff_core.records.decisions import EvictionDecided, JobEnded, JobRequeued, JobShrunk, ReservationDropped
from bailiff_core.records.payload import Decision

from . import stale_grace as stale_gang

MAX_EXIT_CODES = 100
ACTIVE = ("starting", "running")


def cancelled_jobs(state: PoolState) -> Iterator[Decision]:
    """Ends cancelled jobs that have no placed tasks; drops their reservation first."""
    for job in state.touched_jobs():
        if job.cancelled and job.phase == "reserved":
            yield ReservationDropped(job=job.id, reason="cancelled", preemption=job.preemption)
        if job.cancelled and job.phase in ("waiting", "pending", "paused"):
            yield JobEnded(job=job.id, attempt=job.attempt, outcome="cancelled")


def shrunk_gangs(state: PoolState) -> Iterator[Decision]:
    """Removes released tasks without which the job continues: those of one eviction together, and lost ones."""
    for job in state.touched_jobs():
        released: dict[int | None, list[Task]] = {}
        for task in _dispensable(state, job):
            if task.state == "released":
                released.setdefault(task.eviction.decided_seq if task.eviction is not None else None, []).append(task)
        for decided, tasks in released.items():
            eviction = tasks[0].eviction
            if (decided is not None and _leaving(job, decided)) or len(tasks) == len(job.tasks):
                continue
            outcomes = [task_outcome(job, task) for task in tasks]
            yield JobShrunk.model_validate(
                {
                    "job": job.id,
                    "attempt": job.attempt,
                    "tasks": ranges(task.index for task in tasks),
                    "outcome": next(outcome for outcome in ("lost", "preempted-unclean", "preempted") if outcome in outcomes),
                    "cause": eviction.cause if eviction is not None else "exit",
                    "lost_gpu_ms": lost_gpu_ms(state, job, counted_gpu_milli(state, job, tasks)),
                    "not_before": state.now + GROWTH_BACKOFF if eviction is None else 0,
                }
            )


def _leaving(job: Job, decided: int) -> bool:
    """Whether tasks of this eviction have not left yet, and are not stuck: what leaves by one decision is one shrink."""
    of_it = (task for task in job.tasks if task.eviction is not None and task.eviction.decided_seq == decided)
    return any(task.state != "released" and not task.finished and not task.eviction.stuck for task in of_it if task.eviction)


def finished_attempts(state: PoolState) -> Iterator[Decision]:
    """Ends or requeues jobs all of whose started tasks are released."""
    for job in state.touched_jobs():
        started = [task for task in job.tasks if task.state != "reserved"]
        if started and all(task.state == "released" for task in started):
            yield _end_or_requeue(state, job)


def _end_or_requeue(state: PoolState, job: Job) -> Decision:
    outcome = attempt_outcome(job)
    codes = dict(islice(((str(task.index), task.exit_code) for task in job.tasks if task.exit_code), MAX_EXIT_CODES))
    cause = job.eviction.cause if job.eviction is not None else "exit"
    preempted = outcome.startswith("preempted")
    # The order matters: finished work counts although its job was cancelled, and a cancelled job never starts again.
    if outcome == "finished":
        return JobEnded(job=job.id, attempt=job.attempt, outcome="succeeded", exit_codes=codes)
    if job.cancelled:
        return JobEnded(job=job.id, attempt=job.attempt, outcome="cancelled", exit_codes=codes)
    if cause == "time-limit":
        reason = f"it ran longer than its limit of {(job.demand.run_time_limit or 0) // 1_000_000} s"
        return JobEnded(job=job.id, attempt=job.attempt, outcome="timed-out", exit_codes=codes, reason=reason)
    if outcome in ("failed", "lost") and job.demand.on_failure == "end":
        first = next(task for task in job.tasks if task_outcome(job, task) == outcome)
        how = f"ended with exit code {first.exit_code}" if outcome == "failed" else "was lost"
        reason = f"task {first.index} {how}, and on_failure is end"
        return JobEnded(job=job.id, attempt=job.attempt, outcome="failed", exit_codes=codes, reason=reason)
    if outcome == "failed" and job.failures >= (job.demand.max_failures or 0):
        first = next(task for task in job.tasks if task_outcome(job, task) == "failed")
        reason = f"task {first.index} ended with exit code {first.exit_code}"
        return JobEnded(job=job.id, attempt=job.attempt, outcome="failed", exit_codes=codes, reason=reason)
    if outcome == "yielded" and job.yields >= state.rules.restarts.max_yields:
        reason = f"it exited with 85 without an eviction notice, {job.yields + 1} times (rule {rule_of(job, outcome)})"
        return JobEnded(job=job.id, attempt=job.attempt, outcome="failed", exit_codes=codes, reason=reason)
    stopped = counted_gpu_milli(state, job, [task for task in job.tasks if task.state != "reserved"])
    comes_back = bool(job.reservation) or (job.eviction is not None and job.eviction.shrinks)
    ends = ends_for_good(job, whole=True, moved=comes_back)
    if preempted and ends and cause not in (*VOLUNTARY, GANG_FAILURE):
        rule = rule_of(job, outcome)
        reason = f"it exited with 0 after its eviction notice (rule {rule})" if rule else ""
        return JobEnded(
            job=job.id,
            attempt=job.attempt,
            outcome="evicted",
            exit_codes=codes,
            reason=reason,
            cause=cause,
            lost_gpu_ms=lost_gpu_ms(state, job, stopped, for_good=True),
        )
    rule = rule_of(job, outcome)
    return JobRequeued(
        job=job.id,
        attempt=job.attempt,
        outcome=outcome,
        cause=_recorded_cause(job, cause, preempted=preempted),
        lost_gpu_ms=lost_gpu_ms(state, job, stopped),
        measured=restart_is_measured(state, job),
        not_before=0 if preempted else state.now + _backoff(state, job, outcome, rule),
        rule=rule,
        without=_without(job) if preempted else "",
        refused_by=_refused_by(state, job) if rule == NEVER_STARTED else (),
        held=_held(state, job) if rule == NEVER_STARTED else "",
    )


def _refused_by(state: PoolState, job: Job) -> tuple[str, ...]:
    """Nodes on which the attempt did not start, if the job could run on others; otherwise it may be tried there again."""
    numbers = dict.fromkeys(task.node for task in job.tasks if task.start_failed)
    names = tuple(sorted(state.nodes[number].name for number in numbers if number in state.nodes))
    return names if could_ever_fit(state, excluding(job.demand, names)) is None else ()


def _held(state: PoolState, job: Job) -> str:
    failures = job.start_failures + 1
    if failures < state.rules.restarts.max_start_failures:
        return ""
    return f"its last {count_text(failures, 'attempt')} did not start (policy field restarts.max_start_failures)"


def _without(job: Job) -> str:
    """The tasks (ranges) without a place, where one is reserved for others."""
    kept = dict.fromkeys(task.index for task in job.reservation)
    return ranges(task.index for task in job.tasks if task.index not in kept) if kept else ""


def _recorded_cause(job: Job, cause: str, *, preempted: bool) -> str:
    """Why the attempt is over. A restart to shrink is for what took the other tasks; of a failure it is the exit."""
    if not preempted:
        return "exit" if cause in INVOLUNTARY else cause
    if job.eviction is not None and job.eviction.shrinks and cause not in INVOLUNTARY:
        return "resize"
    return job.restart_cause if cause == "resize" and job.restart_cause in INVOLUNTARY else cause


def _backoff(state: PoolState, job: Job, outcome: str, rule: str) -> int:
    """Backoff, µs: doubled with each earlier failure or loss, up to `max_backoff`; failed starts and yields have their own.

    The first is the job's own, and no shorter than the policy's. An attempt that was lost after it ran for `max_backoff` has
    none: its start did not break its node, and jobs behind it would take its resources meanwhile.
    """
    rules = state.rules.restarts
    if outcome == "lost" and job.last_start is not None and state.now - job.last_start >= rules.max_backoff:
        return 0
    earlier = job.yields if outcome == "yielded" else job.failures + job.losses
    if rule == NEVER_STARTED:
        earlier = job.start_failures
    first = max(rules.backoff, job.demand.restart_backoff or 0)
    return min(first << min(earlier, 16), max(first, rules.max_backoff))


def broken_attempts(state: PoolState) -> Iterator[Decision]:
    """Evicts cancelled jobs, and gangs that lost a task without which they cannot run, as a whole."""
    for job in state.touched_jobs():
        if job.phase not in ACTIVE or not any(task.state in ACTIVE for task in job.tasks):
            continue
        dispensable = dict.fromkeys(task.index for task in _dispensable(state, job))
        broken = [task for task in job.tasks if task.index not in dispensable and _ended_badly(job, task)]
        if job.cancelled:
            yield eviction_decision(state, job, "cancelled", "cancellation requested")
        elif broken:
            yield eviction_decision(state, job, GANG_FAILURE, f"task {broken[0].index} ended, so the gang is stopped")


def scaled_down(state: PoolState) -> Iterator[Decision]:
    """Evicts the tasks that a scaled-down job no longer requests; drops their reservation where they have not started."""
    for job in state.touched_jobs():
        extra = [task for task in tasks_above_size(job) if task.eviction is None and task.state not in ("exited", "released")]
        if job.phase == "reserved" and extra:
            yield ReservationDropped(job=job.id, reason="scaled", preemption=job.preemption)
        elif job.phase in ACTIVE and extra:
            reserved = ranges(task.index for task in extra if task.state == "reserved")
            if reserved:
                yield ReservationDropped(job=job.id, reason="scaled", preemption=job.preemption, tasks=reserved)
            placed = ranges(task.index for task in extra if task.state != "reserved")
            if placed:
                yield eviction_decision(state, job, "scaled", f"scaled down to {job.size} tasks", placed)


def overdue_jobs(state: PoolState) -> Iterator[Decision]:
    """Evicts jobs that reached their run-time limit."""
    while state.run_time_limits and state.run_time_limits[0][0] <= state.now:
        job = state.jobs[state.run_time_limits[0][1]]
        yield eviction_decision(
            state, job, "time-limit", f"its run-time limit of {(job.demand.run_time_limit or 0) // 1_000_000} s is reached"
        )


def _dispensable(state: PoolState, job: Job) -> list[Task]:
    """Tasks that ended without having finished, and without which the job continues.

    These are tasks that were evicted singly, and lost tasks if the job still has its minimum without them or if the rule
    `stale-gang` gives it time to replace them. A failed task breaks the gang.
    """
    if job.phase not in ACTIVE:
        return []
    ended = [task for task in job.tasks if _ended_badly(job, task)]
    evicted = [task for task in ended if task.eviction is not None and task_outcome(job, task) != "failed"]
    lost = [task for task in ended if task.eviction is None and task_outcome(job, task) == "lost"]
    if lost and (not active_tasks(job) or (stale_gang.grace(state, job) == 0 and not core_complete(job, active_tasks(job)))):
        return evicted
    return evicted + lost


def _ended_badly(job: Job, task: Task) -> bool:
    return task.state in ("exited", "released") and task_outcome(job, task) != "finished"


def eviction_decision(state: PoolState, job: Job, cause: str, reason: str, tasks: str = "", grace: int | None = None) -> Decision:
    """Evicts the job, or only these tasks (ranges).

    Args:
        grace: µs; default: the job's own. A request may have limited it, and a cancelled job gets no more than the policy's.
    """
    limits = [grace_of(state, job) if grace is None else grace]
    if job.grace_limit is not None:
        limits.append(job.grace_limit)
    if job.cancelled:
        limits.append(grace_by_policy(state, job))
    return EvictionDecided.model_validate(
        {
            "job": job.id,
            "attempt": job.attempt,
            "cause": cause,
            "grace": min(limits),
            "reason": reason,
            "tasks": tasks,
            "together": restarts_without(job, tasks),
        }
    )


def restarts_without(job: Job, tasks: str) -> bool:
    """Whether the eviction of these tasks (ranges) stops others that run, as the job restarts to shrink."""
    evicted = dict.fromkeys(numbers(tasks)) if tasks else {}
    leaving = [task for task in job.tasks if task.index in evicted]
    return any(task.index not in evicted for task in stopped_tasks(job, leaving, whole=False))
