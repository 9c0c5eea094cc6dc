"""Gangs that have gone on long enough with a member too few."""

from collections.abc import Iterator

from bailiff_core.model.pool import Pool
from bailiff_core.protections import stale_gang as rule
from bailiff_core.records.decisions import EvictionDecided
from bailiff_core.records.payload import Decision

from .agenda import agenda_of
from .attempts import grace_of


def stale_gangs(pool: Pool) -> Iterator[Decision]:
    """They leave whole and go back to the queue."""
    for job in agenda_of(pool).due(pool, rule.NAME):
        lacking = f"for {(pool.now - (job.stale_since or 0)) // 1_000_000} s it has lacked members that it needs"
        yield EvictionDecided(job=job.id, attempt=job.attempt, cause="stale-gang", grace=grace_of(pool, job), reason=lacking)
