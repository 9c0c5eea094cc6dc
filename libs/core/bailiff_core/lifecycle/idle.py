"""Records jobs whose GPUs are idle for longer than the policy allows; by the policy they are paused, too."""

from collections.abc import Iterator

from bailiff_core.model.state import PoolState
from bailiff_core.records.decisions import JobIdle
from bailiff_core.records.payload import Decision

from . import idle_since as rule
from .timers import timers_of


def idle_jobs(state: PoolState) -> Iterator[Decision]:
    """Records each idle job once, until any of its GPUs is used again."""
    for job in timers_of(state).due(state, rule.NAME):
        duration = state.now - (rule.since(job) or state.now)
        yield JobIdle(job=job.id, attempt=job.attempt, duration=duration, action=state.rules.idle.action)
