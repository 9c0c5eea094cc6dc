"""`backfilled-only`: a head of the queue that may not preempt, or not yet, evicts backfilled jobs only.

Its class never preempts, or its `preemption-delay` is not over.
"""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState
from bailiff_core.queue.head import backfilled_victims
from bailiff_core.queue.preemption_delay import may_preempt_from

from .rule import Rule, Shield

NAME = "backfilled-only"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:
    """Under preempt, all jobs that the head may not evict as backfilled ones."""
    if preemptor.may_preempt and state.now >= may_preempt_from(state, preemptor):
        return None
    return None if backfilled_victims(state, action, preemptor) is None else (lambda unit: True)  # noqa: ARG005


PROTECTION = Rule(35, NAME, shield, "was not backfilled", by_group=True)
