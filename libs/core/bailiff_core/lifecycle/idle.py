"""Jobs whose GPUs do nothing: told of, or paused."""

from collections.abc import Iterator

from bailiff_core.model.state import PoolState
from bailiff_core.records.decisions import JobIdle
from bailiff_core.records.payload import Decision

from . import idle_since as rule
from .timers import timers_of


def idle_jobs(state: PoolState) -> Iterator[Decision]:
    """It is said once, until any of its GPUs works again."""
    for job in timers_of(state).due(state, rule.NAME):
        lasted = state.now - (rule.since(job) or state.now)
        yield JobIdle(job=job.id, attempt=job.attempt, duration=lasted, action=state.rules.idle.action)
