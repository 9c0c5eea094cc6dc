"""`evicted-in-vain`: a job evicts nobody a second time for attempts that do not start.

Its node, a kubelet, a scheduler or a quota may refuse it again and again, or its owner pauses, evicts or scales it before it
runs. Until it has run, or an operator has resumed it, each victim was evicted for it once.
"""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState

from .rule import JobsShield, Rule, Shield

NAME = "evicted-in-vain"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Jobs that were evicted for attempts of the preemptor that did not start."""
    victims = preemptor.victims_in_vain
    return JobsShield(lambda unit: unit.job.id in victims, lambda: victims) if victims else None


PROTECTION = Rule(85, NAME, shield, "was evicted for the preemptor before, which then did not start")
