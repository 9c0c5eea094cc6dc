"""Waiting jobs whose effective priority changes with time and evictions."""

from collections.abc import Iterator

from bailiff_core.model.pool import Pool
from bailiff_core.protections import ageing as rule
from bailiff_core.records.decisions import JobAged
from bailiff_core.records.payload import Decision

from .agenda import agenda_of


def ageing(pool: Pool) -> Iterator[Decision]:
    """Jobs count with what they should count with now; the record says both values."""
    for job in agenda_of(pool).due(pool, rule.NAME):
        wanted = rule.effective(pool, job)
        if wanted != job.priority:
            yield JobAged(job=job.id, priority=job.base_priority, effective=wanted, reason=rule.reason(pool, job))
