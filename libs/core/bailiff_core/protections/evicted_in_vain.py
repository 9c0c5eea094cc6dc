"""`evicted-in-vain`: a job evicts nobody a second time for attempts that do not start, or fail at once.

Its node, a kubelet, a scheduler or a quota may refuse it again and again, or its owner pauses, evicts or scales it before it
runs; or its program is not found, or fails within the longest back-off (`restarts.max_backoff`). Until an attempt has run longer,
or ended otherwise, or an operator has resumed it, each victim was evicted for it once.
"""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState

from .rule import JobsShield, Rule, Shield

NAME = "evicted-in-vain"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Jobs that were evicted for attempts of the preemptor that did not start, or failed at once."""
    victims = preemptor.victims_in_vain
    return JobsShield(lambda unit: unit.job.id in victims, lambda: victims) if victims else None


PROTECTION = Rule(85, NAME, shield, "was evicted for the preemptor before, which then did not start, or failed at once")
