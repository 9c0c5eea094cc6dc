"""A group of jobs, named by labels and project, loses at most so many at a time.

A job counts from the decision that it leaves until it is gone. Surplus that leaves costs the group nothing: the job
goes on. Neither does a reservation that is dropped, nor a job that its owner wants gone.
"""

from collections.abc import Sequence

from bailiff_core.model.policy import Budget, Verb
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import Unit
from bailiff_core.queue.tree import tree_of

from .labels import matches
from .rule import Shield

NAME = "budget"


def shield(pool: Pool, verb: Verb, asker: Job) -> Shield | None:  # noqa: ARG001
    """Running jobs of a group that can lose nobody more at present."""
    spent = [budget for budget in pool.rules.protections.budgets if _left(pool, budget) < 1]

    def covered(unit: Unit) -> bool:
        return _counts(unit) and any(_covers(pool, budget, unit.job) for budget in spent)

    return covered if spent else None


def within(pool: Pool, leaving: Sequence[Unit]) -> str | None:
    """The budget that these would exceed if they left together, as a sentence, or `None`. Each unit at most once."""
    for budget in pool.rules.protections.budgets:
        left = _left(pool, budget)
        lost = sum(_counts(unit) and _covers(pool, budget, unit.job) for unit in leaving)
        if lost > left:
            return f"budget {budget.name!r} lets at most {budget.most} of its jobs leave at a time, {max(0, left)} more now"
    return None


def _left(pool: Pool, budget: Budget) -> int:
    jobs = [pool.jobs[name] for name in pool.leaving]
    return budget.most - sum(not job.cancelled and _covers(pool, budget, job) for job in jobs)


def _counts(unit: Unit) -> bool:
    return unit.core and unit.job.phase != "reserved"


def _covers(pool: Pool, budget: Budget, job: Job) -> bool:
    if not matches(job, budget.labels.items()):
        return False
    if budget.project is None:
        return True
    tree = tree_of(pool)
    return budget.project in tree.branches[tree.leaf_of(job.project)].path
