"""`evicted-in-vain`: a job evicts nobody a second time for attempts that do not start, or end at once.

Its node, a kubelet, a scheduler or a quota may refuse it again and again, or its owner pauses, evicts, scales or cancels it
before it runs; or its program is not found, or fails within the longest back-off (`restarts.max_backoff`). Until an attempt has
run longer, or has succeeded, or an operator has resumed it, each victim was evicted for it once. All jobs of its owner spare the
victim for a time (`fold/failed_starts.py`).
"""

from bailiff_core.fold.failed_starts import evicted_in_vain, spared
from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState

from .rule import Ends, JobsShield, Rule, Shield

NAME = "evicted-in-vain"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Jobs that were evicted for attempts of the preemptor, or of its owner's jobs, that did not start or ended at once."""
    victims = evicted_in_vain(state, preemptor)
    return JobsShield(lambda unit: unit.job.id in victims, lambda: victims) if victims else None


def ends(state: PoolState, action: Action, preemptor: Job) -> Ends | None:  # noqa: ARG001
    """Until when the preemptor's owner spares the job, µs. What the preemptor did itself ends with no time."""
    times = {name: entry.until for name, entry in spared(state, preemptor).items() if name not in preemptor.victims_in_vain}
    return (lambda job: times.get(job.id)) if times else None


PREDICATE = "was evicted for the preemptor, or a job of its owner, before, which then did not start, or ended at once"
PROTECTION = Rule(85, NAME, shield, PREDICATE, ends=ends)
