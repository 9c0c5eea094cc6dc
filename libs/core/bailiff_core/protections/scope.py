"""`scope`: with the policy's scope `project`, preempt evicts jobs of the preemptor's own project only."""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState

from .rule import Rule, Shield

NAME = "scope"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:
    """Under preempt with scope `project`, jobs of other projects."""
    if action != "preempt" or state.rules.scope != "project":
        return None
    return lambda unit: unit.job.project != preemptor.project


PROTECTION = Rule(38, NAME, shield, "belongs to another project", by_group=True, field="preemption.scope")
