"""`evicted-in-vain`: nobody is evicted again and again for attempts that do not run.

A job evicts nobody a second time for attempts that do not start, or end by themselves at once, before it has run for
`restarts.max_backoff`: its node, a kubelet or a quota may refuse it again and again, or its program is not found. And all jobs of
an owner spare for a time who was evicted in vain for one of them, or again and again (`fold/failed_starts.py`).
"""

from bailiff_core.fold.failed_starts import evicted_in_vain, is_spared, may_be_spared, spared_until
from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState

from .rule import Ends, JobsShield, Rule, Shield

NAME = "evicted-in-vain"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:
    """Jobs that were evicted in vain for the preemptor, or a job of its owner, and those who just got what these left."""
    found = evicted_in_vain(state, action, preemptor)
    if not found:
        return None
    return JobsShield(lambda unit: is_spared(state, found, unit.job), lambda: may_be_spared(state, found))


def ends(state: PoolState, action: Action, preemptor: Job) -> Ends | None:
    """Until when the preemptor's owner spares the job, µs. What the preemptor did itself ends with no time."""
    found = evicted_in_vain(state, action, preemptor)
    return (lambda job: spared_until(state, found, job) if is_spared(state, found, job) else None) if found else None


PREDICATE = "was evicted in vain before, or too often, for the preemptor's owner, or has just got the place of one that was"
PROTECTION = Rule(85, NAME, shield, PREDICATE, ends=ends)
