"""Where the policy's scope is `project`, preempt takes jobs of the asker's own project only."""

from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, Pool

from .rule import Shield

NAME = "scope"


def shield(pool: Pool, verb: Verb, asker: Job) -> Shield | None:
    """Under preempt with scope `project`, jobs of other projects."""
    if verb != "preempt" or pool.rules.scope != "project":
        return None
    return lambda unit: unit.job.project != asker.project
