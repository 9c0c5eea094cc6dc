"""Records changes of effective priorities (ageing)."""

from collections.abc import Iterator

from bailiff_core.model.state import PoolState
from bailiff_core.queue import ageing as rule
from bailiff_core.records.decisions import JobPriorityBoosted
from bailiff_core.records.payload import Decision

from .timers import timers_of


def ageing(state: PoolState) -> Iterator[Decision]:
    """Updates effective priorities that `ageing` changes; the record has the base and the effective priority."""
    for job in timers_of(state).due(state, rule.NAME):
        wanted = rule.effective(state, job)
        if wanted != job.priority:
            yield JobPriorityBoosted(
                job=job.id, priority=job.base_priority, effective_priority=wanted, reason=rule.reason(state, job)
            )
