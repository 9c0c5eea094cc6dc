"""`displaced-asker`: nobody reclaims room from those who displaced it, or who displaced those who did, and so on.

Each verb has its own idea of who is entitled to room; gangs that lie across a share are taken whole. So two jobs could
displace each other in turns for ever, with a third that borrows in between. With this rule the jobs that displace each
other form no circle, as long as preempt takes strictly lower priority only; and without a circle there is an end.

It holds until something changes what projects may claim: somebody submits, ends or changes a job, a node, the policy.
After that it holds for those whose project would be within its fair share without what started later.
"""

from bailiff_core.model.amounts import NOTHING, Amounts
from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import ENDED, Job, Pool
from bailiff_core.model.units import Unit, allocated_tasks
from bailiff_core.queue.fair_share import fair_shares

from .rule import Shield
from .usage_now import usage_now

NAME = "displaced-asker"
SURPLUS = "+"  # no part of a name: what a job asks for, or loses, beyond its core counts for itself


def displaced(pool: Pool, asker: str, victim: str, *, asks_surplus: bool, loses_surplus: bool) -> None:
    """Note in the state that the asker displaced the victim, or surplus of it. Who loses its core asks for both again."""
    by = asker + SURPLUS if asks_surplus else asker
    for part in (SURPLUS,) if loses_surplus else ("", SURPLUS):
        known = pool.displaced.get(victim + part, {})
        pool.displaced[victim + part] = {name: seq for name, seq in known.items() if _still(pool, name, seq)} | {by: pool.seq}


def forget(pool: Pool, job: str) -> None:
    """The job asks for nothing any more."""
    for part in ("", SURPLUS):
        pool.displaced.pop(job + part, None)


def may_be_shielded_from(pool: Pool, verb: Verb, asker: Job) -> bool:
    """Whether the rule knows this asker, and not only its like."""
    return verb == "reclaim" and _asks_as(asker) in pool.displaced


def shield(pool: Pool, verb: Verb, asker: Job) -> Shield | None:
    """Under reclaim, units of jobs that displaced the asker since anything changed, or that are within their share."""
    if not may_be_shielded_from(pool, verb, asker):
        return None
    lately, ever = (_above(pool, _asks_as(asker), since) for since in (pool.stirred, -1))
    if not ever:
        return None
    shares = _Shares(pool)

    def shielded(unit: Unit) -> bool:
        name = unit.job.id
        parts = (name, name + SURPLUS) if unit.core else (name + SURPLUS,)
        if any(part in lately for part in parts):
            return True
        return any(part in ever for part in parts) and shares.cover(unit)

    return shielded


def _asks_as(asker: Job) -> str:
    return asker.id + SURPLUS if asker.tasks else asker.id


def _above(pool: Pool, name: str, since: int) -> dict[str, None]:
    """All who displaced it after that record, and who displaced those, and so on."""
    found: dict[str, None] = {}
    look = [name]
    while look:
        for by, seq in pool.displaced.get(look.pop(), {}).items():
            if seq > since and by not in found and _still(pool, by, seq):
                found[by] = None
                look.append(by)
    return found


def _still(pool: Pool, name: str, seq: int) -> bool:
    """Whether the job that did it then is there (and no later one of its name)."""
    job = pool.jobs.get(name.removesuffix(SURPLUS))
    return job is not None and job.phase not in ENDED and job.seq < seq


class _Shares:
    """Whether a project would be within its fair share without what started after a unit."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._of: dict[str, tuple[Amounts, list[tuple[int, Amounts]]]] = {}

    def cover(self, unit: Unit) -> bool:
        usage = usage_now(self._pool)
        leaf = usage.leaf_of(unit.job)
        if leaf not in self._of:
            share = fair_shares(usage.tree, usage.total, usage.requests, usage.divided)[leaf]
            started = [
                (self._start(job, task.index), usage.held_by(Unit(job, (task.index,), core=False)))
                for job in self._pool.active_jobs()
                if usage.leaf_of(job) == leaf
                for task in allocated_tasks(job)
            ]
            self._of[leaf] = share, started
        share, started = self._of[leaf]
        last = max((self._start(unit.job, index) for index in unit.indices), default=self._pool.seq)
        used = NOTHING
        for start, amounts in started:
            used = used.plus(amounts) if start <= last else used
        return used.within(share)

    def _start(self, job: Job, index: int) -> int:
        task = job.task(index)
        return self._pool.seq if task is None or task.start_seq is None else task.start_seq
