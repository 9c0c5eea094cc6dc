"""What the state owes in evictions: pure functions from the pool to messages."""

from collections.abc import Iterator
from typing import Any

from bailiff_bus.messages import BegunEviction, Evict, GivenUpPlan, SaveTogether, Spare
from bailiff_bus.messages.commands import Order
from bailiff_core.lifecycle.evictions import evictions_of, leaving
from bailiff_core.lifecycle.grace import term_after
from bailiff_core.lifecycle.together import common_step
from bailiff_core.model.pool import Job, Plan, Pool, Task
from bailiff_core.placement.last_look import fits_without_evictions


def progress_owed(pool: Pool) -> Iterator[BegunEviction | GivenUpPlan]:
    """For each eviction that nobody was told of yet: begin it, unless a last look shows that its plan is not needed."""
    needless: dict[int, str | None] = {}
    for entry in leaving(pool):
        eviction = entry.eviction
        if eviction.begun_seq is not None or eviction.spare_seq is not None:
            continue
        plan = pool.plans.get(eviction.plan) if eviction.plan is not None else None
        if eviction.cause == "preemption" and plan is None:
            continue  # its plan is gone: admission is about to take it back
        if plan is not None:
            if plan.seq not in needless:
                needless[plan.seq] = why_not_needed(pool, plan)
                reason = needless[plan.seq]
                if reason is not None:
                    yield GivenUpPlan(plan=plan.seq, reason=reason)
            if needless[plan.seq] is not None:
                continue
        yield BegunEviction(job=entry.job.id, attempt=entry.job.attempt, decided=eviction.decided_seq)


def why_not_needed(pool: Pool, plan: Plan) -> str | None:
    """The last look at a plan of which nobody has been told: is there room by now?"""
    for name in plan.victims:
        for entry in evictions_of(pool.jobs[name]) if name in pool.jobs else ():
            if entry.eviction.plan == plan.seq and entry.eviction.begun_seq is not None:
                return None
    if fits_without_evictions(pool, pool.jobs[plan.job]):
        return f"there is room for {plan.job} without evicting anybody"
    return None


def commands_owed(pool: Pool) -> Iterator[Evict | Spare]:
    """Word to each node that has not shown a reaction: leave, for what has begun; stay, for what was taken back."""
    for entry in leaving(pool):
        job, eviction = entry.job, entry.eviction
        if eviction.spare_seq is not None:
            waiting = [task for task in entry.tasks if not task.spared and task.state not in ("exited", "released")]
            for node, tasks in _by_node(waiting):
                yield Spare(**_common(pool, job, node, eviction.spare_seq), tasks=tasks)
        elif eviction.begun_seq is not None:
            deaf = [task for task in entry.tasks if task.state in ("starting", "running") and not _told(task)]
            for node, tasks in _by_node(deaf):
                yield Evict(
                    **_common(pool, job, node, eviction.begun_seq),
                    tasks=tasks,
                    grace=eviction.grace,
                    term_after=term_after(pool, job, eviction.grace),
                    cause=eviction.cause,
                    for_job=eviction.for_job,
                )


def steps_owed(pool: Pool) -> Iterator[SaveTogether]:
    """A gang that leaves as a whole and listens: the step at which all of it saves, until every agent has set it."""
    for entry in leaving(pool):
        begun = entry.eviction.begun_seq
        found = common_step(entry) if begun is not None and entry.eviction.spare_seq is None else None
        if begun is None or found is None:
            continue
        step, agreed = found
        waiting = [
            task
            for task in entry.tasks
            if task.attached and ("step_agreed" not in task.reached if agreed else task.confirmed != step)
        ]
        for node, tasks in _by_node(waiting):
            yield SaveTogether(**_common(pool, entry.job, node, begun), tasks=tasks, step=step, agreed=agreed)


def _told(task: Task) -> bool:
    return task.noticed or task.term_sent or task.kill_sent


def _by_node(tasks: list[Task]) -> list[tuple[int, tuple[int, ...]]]:
    numbers = dict.fromkeys(task.node for task in tasks)
    return [(number, tuple(task.index for task in tasks if task.node == number)) for number in numbers]


def _common(pool: Pool, job: Job, number: int, seq: int) -> dict[str, Any]:
    node = pool.nodes[number]
    return {
        "node": node.name,
        "incarnation": node.incarnation,
        "sender": "executor",
        "sender_epoch": pool.epoch,
        "order": Order(epoch=pool.epoch_of(seq), seq=seq),
        "job": job.id,
        "attempt": job.attempt,
    }
