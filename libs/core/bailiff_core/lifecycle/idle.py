"""Jobs whose GPUs do nothing: told of, or paused."""

from collections.abc import Iterator

from bailiff_core.model.pool import Pool
from bailiff_core.protections import idle as rule
from bailiff_core.records.decisions import JobIdle
from bailiff_core.records.payload import Decision

from .agenda import agenda_of


def idle_jobs(pool: Pool) -> Iterator[Decision]:
    """It is said once, until any of its GPUs works again."""
    for job in agenda_of(pool).due(pool, rule.NAME):
        lasted = pool.now - (rule.since(job) or pool.now)
        yield JobIdle(job=job.id, attempt=job.attempt, lasted=lasted, then=pool.rules.idle.then)
