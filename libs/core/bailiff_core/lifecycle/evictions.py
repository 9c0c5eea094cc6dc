"""Evictions that are no longer wanted, and those that do not come to an end."""

from collections.abc import Iterator
from dataclasses import dataclass

from bailiff_core.model.places import ranges
from bailiff_core.model.pool import Eviction, Job, Pool, Task
from bailiff_core.records.decisions import EvictionStuck, EvictionWithdrawn
from bailiff_core.records.payload import Decision


@dataclass(frozen=True, slots=True)
class Leaving:
    """One eviction under way: of the whole job, or of these members alone (`part`, as records name them; empty: whole)."""

    job: Job
    eviction: Eviction
    tasks: list[Task]
    part: str


def leaving(pool: Pool) -> Iterator[Leaving]:
    """All evictions under way, in the order in which their jobs began to leave."""
    for name in list(pool.leaving):
        yield from evictions_of(pool.jobs[name])


def evictions_of(job: Job) -> list[Leaving]:
    """The job's: while all of it leaves only that one counts; members that leave by themselves are told apart by decision."""
    whole, alone = job.eviction, [task for task in job.tasks if task.eviction is not None]
    if whole is not None and whole.spare_seq is None:
        return [Leaving(job, whole, job.tasks, "")]
    found = []
    if whole is not None:
        found.append(Leaving(job, whole, [task for task in job.tasks if task.eviction is None], ""))
    groups: dict[tuple[int, bool], list[Task]] = {}
    for task in alone:
        assert task.eviction is not None
        groups.setdefault((task.eviction.decided_seq, task.eviction.spare_seq is not None), []).append(task)
    for tasks in groups.values():
        eviction = tasks[0].eviction
        assert eviction is not None
        found.append(Leaving(job, eviction, tasks, ranges(task.index for task in tasks)))
    return found


def withdrawn_evictions(pool: Pool) -> Iterator[Decision]:
    """A preemption whose plan is gone: victims that nobody was told of stay, others if nothing of them has left yet.

    So does a job that was to move and that nobody was told of, when the place kept for it is gone, and one that was to leave a
    node that is drained no more.
    """
    for entry in leaving(pool):
        eviction = entry.eviction
        if eviction.cause in ("migration", "resize") and not entry.job.promise and eviction.begun_seq is None:
            reason = "the place that was kept for it is gone"
            yield EvictionWithdrawn(job=entry.job.id, attempt=entry.job.attempt, plan=None, told=False, reason=reason)
            continue
        if eviction.cause == "drain" and eviction.begun_seq is None and not any(_is_emptied(pool, task) for task in entry.tasks):
            reason = "its node is not being emptied any more"
            yield EvictionWithdrawn(
                job=entry.job.id, attempt=entry.job.attempt, plan=None, told=False, reason=reason, tasks=entry.part
            )
            continue
        if eviction.plan is None or eviction.plan in pool.plans or eviction.spare_seq is not None:
            continue
        if not may_stay(entry):
            continue
        told = eviction.begun_seq is not None
        yield EvictionWithdrawn(
            job=entry.job.id,
            attempt=entry.job.attempt,
            plan=eviction.plan,
            told=told,
            reason=f"{eviction.for_job} does not need the room any more",
            tasks=ranges(task.index for task in _here(entry)) if entry.part and told else entry.part,
        )


def may_stay(entry: Leaving) -> bool:
    """Whether it could still be taken back: nobody was told, or all of it is there; of single members, some."""
    here = _here(entry)
    return entry.eviction.begun_seq is None or (bool(here) and (bool(entry.part) or len(here) == len(entry.tasks)))


def _here(entry: Leaving) -> list[Task]:
    return [task for task in entry.tasks if task.state not in ("exited", "released")]


def _is_emptied(pool: Pool, task: Task) -> bool:
    drain = pool.nodes[task.node].drain
    return drain is not None and drain.due


def stuck_evictions(pool: Pool) -> Iterator[Decision]:
    """Room that should have come free long ago is not counted on any more."""
    for entry in leaving(pool):
        due = stuck_at(pool, entry.eviction)
        if due is not None and pool.now >= due:
            yield EvictionStuck(job=entry.job.id, attempt=entry.job.attempt, tasks=entry.part)


def stuck_at(pool: Pool, eviction: Eviction) -> int | None:
    """When an eviction that was begun counts as stuck, µs on log time."""
    if eviction.begun_at is None or eviction.stuck:
        return None
    return eviction.begun_at + eviction.grace + pool.rules.eviction.stuck_after
