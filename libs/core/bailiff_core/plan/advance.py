"""Simulates what happens between two cycles: victims exit, placed tasks run, reservations whose resources are free start.

Tasks that are releasing in the snapshot itself remain releasing.
"""

from collections.abc import Callable, Iterator

from bailiff_core.fold import close_cycle, enact
from bailiff_core.fold.outcome import YIELDED
from bailiff_core.lifecycle.reservations import moved_jobs, reservations
from bailiff_core.lifecycle.termination import finished_attempts, shrunk_gangs
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.records.facts import ClockAdvanced, TaskExited, TaskReleased, TaskStarted
from bailiff_core.records.payload import Decision

from .build import append_facts

RULES: tuple[Callable[[PoolState], Iterator[Decision]], ...] = (shrunk_gangs, finished_attempts, moved_jobs, reservations)


def advance_to_next_round(state: PoolState, since: int, step: int) -> None:
    """Advance by `step` µs. Evictions decided after the record `since` complete."""
    append_facts(state, ClockAdvanced(), at=state.now + step, close=False)
    for job in state.active_jobs():
        for task in [task for task in job.tasks if _evicted_since(job, task, since)]:
            exit_task(state, job, task, YIELDED)
    for job in state.active_jobs():
        job.reserved_until = job.reservation_until = None  # no reservation expires between two cycles
    apply_followups(state)
    for job in state.active_jobs():
        for task in [task for task in job.tasks if task.state == "starting"]:
            started = TaskStarted(job=job.id, attempt=job.attempt, task=task.index, node=state.nodes[task.node].name)
            append_facts(state, started, close=False)
    close_cycle(state)


def exit_task(state: PoolState, job: Job, task: Task, code: int) -> None:
    """The task exits with this code and releases its resources; the decision cycle stays open."""
    node = state.nodes[task.node].name
    exited = TaskExited(job=job.id, attempt=job.attempt, task=task.index, node=node, exit_code=code)
    released = TaskReleased(job=job.id, attempt=job.attempt, task=task.index, node=node)
    append_facts(state, exited, released, close=False)


def apply_followups(state: PoolState) -> None:
    """Apply decisions that follow without scheduling: finished attempts, reservations whose resources are free."""
    seq_before = -1
    while state.seq != seq_before:
        seq_before = state.seq
        for rule in RULES:
            for decision in rule(state):
                enact(state, decision)


def _evicted_since(job: Job, task: Task, since: int) -> bool:
    eviction = task.eviction or job.eviction
    return eviction is not None and eviction.decided_seq > since and task.state in ("starting", "running")
