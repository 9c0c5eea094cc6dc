"""Evicts gangs that ran below their minimum for longer than their stale grace."""

from collections.abc import Iterator

from bailiff_core.model.grace import grace_of
from bailiff_core.model.state import PoolState
from bailiff_core.records.decisions import EvictionDecided
from bailiff_core.records.payload import Decision

from . import stale_grace as rule
from .timers import timers_of


def stale_gangs(state: PoolState) -> Iterator[Decision]:
    """Evicts each such gang whole; it is requeued."""
    for job in timers_of(state).due(state, rule.NAME):
        reason = f"below its minimum number of tasks for {(state.now - (job.stale_since or 0)) // 1_000_000} s"
        yield EvictionDecided(job=job.id, attempt=job.attempt, cause="stale-gang", grace=grace_of(state, job), reason=reason)
