"""`min-runtime`: protects a job for a time after its last start, from preempt and from reclaim separately.

Against preempt the time is that of the job's project, or of its nearest ancestor that sets one. Against reclaim the lookup
starts on the victim's side directly below the lowest common ancestor of both projects: reclaim between two departments
follows the settings of the departments. The default is that of the policy. Surplus is not protected. For a gang that is
starting, the time has not begun.
"""

from collections.abc import Callable, Sequence

from bailiff_core.model.policy import Action, MinRuntime
from bailiff_core.model.project_tree import tree_of
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit

from .rule import Ends, Rule, Shield

NAME = "min-runtime"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:
    """Gangs that have run for less than their minimum run time since their last start."""
    min_runtime = _min_runtime(state, action, preemptor)
    if min_runtime is None:
        return None

    def is_young(unit: Unit) -> bool:
        job = unit.job
        if not unit.core or job.phase == "reserved":
            return False
        time = min_runtime(job)
        return time > 0 and (job.last_start is None or state.now < job.last_start + time)

    return is_young


def ends(state: PoolState, action: Action, preemptor: Job) -> Ends | None:
    """When the job has run for its minimum run time, µs."""
    min_runtime = _min_runtime(state, action, preemptor)
    return None if min_runtime is None else lambda job: None if job.last_start is None else job.last_start + min_runtime(job)


def _min_runtime(state: PoolState, action: Action, preemptor: Job) -> Callable[[Job], int] | None:
    """Minimum run time by job, µs; `None`: the rule is off."""
    if action not in ("preempt", "reclaim"):
        return None
    by_project = _by_project(state, action)
    default = _of(state.rules.protections.min_runtime, action)
    if not by_project and not default:
        return None
    path = _ancestors(state, action, preemptor)
    cache: dict[str, int] = {}

    def min_runtime(job: Job) -> int:
        time = cache.get(job.project)
        if time is None:
            settings = [by_project[name] for name in path(job.project) if name in by_project]
            time = cache[job.project] = [*settings, default or 0][0]
        return time

    return min_runtime


def _ancestors(state: PoolState, action: Action, preemptor: Job) -> Callable[[str], Sequence[str]]:
    tree = tree_of(state)
    mine = tree.leaf_of(preemptor.project)

    def path(project: str) -> Sequence[str]:
        leaf = tree.leaf_of(project)
        return tree.branches[tree.sides(mine, leaf)[1] if action == "reclaim" else leaf].path

    return path


def _by_project(state: PoolState, action: Action) -> dict[str, int]:
    times = ((project.name, _of(project.min_runtime, action)) for project in state.rules.projects)
    return {name: time for name, time in times if time is not None}


def _of(setting: MinRuntime, action: Action) -> int | None:
    return setting.preempt if action == "preempt" else setting.reclaim


PROTECTION = Rule(110, NAME, shield, "has not run for its minimum run time yet", ends=ends)
