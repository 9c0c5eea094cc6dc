"""What the world does from one pass to the next: victims leave, what was placed runs, promises that can start do.

What the snapshot itself calls releasing stays as it is.
"""

from collections.abc import Callable, Iterator

from bailiff_core.fold import close_turn, enact
from bailiff_core.lifecycle.attempts import finished_attempts, shrunk_gangs
from bailiff_core.lifecycle.outcome import YIELDED
from bailiff_core.lifecycle.reservations import moved_jobs, reservations
from bailiff_core.model.pool import Job, Pool, Task
from bailiff_core.records.facts import ClockAdvanced, TaskExited, TaskReleased, TaskStarted
from bailiff_core.records.payload import Decision

from .build import happens

RULES: tuple[Callable[[Pool], Iterator[Decision]], ...] = (shrunk_gangs, finished_attempts, moved_jobs, reservations)


def to_next_round(pool: Pool, since: int, step: int) -> None:
    """Let `step` µs pass. Evictions decided after the record `since` come to their end."""
    happens(pool, ClockAdvanced(), at=pool.now + step, close=False)
    for job in pool.active_jobs():
        for task in [task for task in job.tasks if _leaves(job, task, since)]:
            ends(pool, job, task, YIELDED)
    for job in pool.active_jobs():
        job.reserved_until = job.promise_until = None  # between two passes no promise runs out
    settle(pool)
    for job in pool.active_jobs():
        for task in [task for task in job.tasks if task.state == "starting"]:
            started = TaskStarted(job=job.id, attempt=job.attempt, task=task.index, node=pool.nodes[task.node].name)
            happens(pool, started, close=False)
    close_turn(pool)


def ends(pool: Pool, job: Job, task: Task, code: int) -> None:
    """The task ends with this exit code, and its room is free; the turn stays open."""
    node = pool.nodes[task.node].name
    exited = TaskExited(job=job.id, attempt=job.attempt, task=task.index, node=node, exit_code=code)
    released = TaskReleased(job=job.id, attempt=job.attempt, task=task.index, node=node)
    happens(pool, exited, released, close=False)


def settle(pool: Pool) -> None:
    """What follows by itself: attempts that are over, promises whose room is free."""
    seq_before = -1
    while pool.seq != seq_before:
        seq_before = pool.seq
        for rule in RULES:
            for decision in rule(pool):
                enact(pool, decision)


def _leaves(job: Job, task: Task, since: int) -> bool:
    eviction = task.eviction or job.eviction
    return eviction is not None and eviction.decided_seq > since and task.state in ("starting", "running")
