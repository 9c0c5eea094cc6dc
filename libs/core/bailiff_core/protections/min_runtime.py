"""`min-runtime`: protects a job for a time after its last start, from preempt, reclaim and consolidate separately.

The most specific statement holds (`job_rules.py`). Against reclaim the projects are asked from the step of the victim's side
directly below the lowest common ancestor of both projects: reclaim between two departments follows the settings of the
departments. Surplus is not protected. For a gang that is starting, the time has not begun.
"""

from collections.abc import Callable, Sequence

from bailiff_core.model.job_rules import MIN_RUNTIME
from bailiff_core.model.policy import Action
from bailiff_core.model.project_tree import tree_of
from bailiff_core.model.state import Job, PoolState

from .rule import Ends, JobsShield, Rule, Shield

NAME = "min-runtime"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:
    """Gangs that have run for less than their minimum run time since their last start."""
    min_runtime = _min_runtime(state, action, preemptor)
    if min_runtime is None:
        return None

    def is_young(job: Job) -> bool:
        time = min_runtime(job)
        return time > 0 and (job.last_start is None or state.now < job.last_start + time)

    return JobsShield.where(state, is_young, lambda unit: unit.stops_job and unit.job.phase != "reserved" and is_young(unit.job))


def ends(state: PoolState, action: Action, preemptor: Job) -> Ends | None:
    """When the job has run for its minimum run time, µs."""
    min_runtime = _min_runtime(state, action, preemptor)
    if min_runtime is None:
        return None
    return lambda job: None if job.last_start is None else job.last_start + min_runtime(job)


def _min_runtime(state: PoolState, action: Action, preemptor: Job) -> Callable[[Job], int] | None:
    """Minimum run time by job, µs; `None`: the rule is off."""
    tree = tree_of(state)
    mine = tree.leaf_of(preemptor.project)

    def path(project: str) -> Sequence[str]:
        leaf = tree.leaf_of(project)
        return tree.branches[tree.sides(mine, leaf)[1] if action == "reclaim" else leaf].path

    return MIN_RUNTIME[action].by_job(state, path)


PROTECTION = Rule(110, NAME, shield, "has not run for its minimum run time yet", ends=ends, field="protections.min_runtime")
