"""`min-runtime`: protects a job for a time after its last start, from preempt, reclaim and consolidate separately.

The time is that of the job's project, or of its nearest ancestor that sets one. Against reclaim the lookup
starts on the victim's side directly below the lowest common ancestor of both projects: reclaim between two departments
follows the settings of the departments. The default is that of the policy. Surplus is not protected. For a gang that is
starting, the time has not begun.
"""

from collections.abc import Callable, Mapping, Sequence

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
    return None if min_runtime is None else lambda job: None if job.last_start is None else job.last_start + min_runtime(job)


def _min_runtime(state: PoolState, action: Action, preemptor: Job) -> Callable[[Job], int] | None:
    """Minimum run time by job, µs; `None`: the rule is off."""
    by_project = _by_project(state, action)
    default = state.rules.protections.min_runtime.under(action)
    if not by_project and not default:
        return None
    path = _ancestors(state, action, preemptor)
    cache: dict[str, int] = {}

    def min_runtime(job: Job) -> int:
        time = cache.get(job.project)
        if time is None:
            time = cache[job.project] = _nearest(by_project, path(job.project), default)
        return time

    return min_runtime


def stated_for(state: PoolState, action: Action, job: Job) -> int:
    """What its own project, the nearest one above it, or the policy states, µs. Under reclaim the lookup may start further up."""
    tree = tree_of(state)
    path = tree.branches[tree.leaf_of(job.project)].path
    return _nearest(_by_project(state, action), path, state.rules.protections.min_runtime.under(action))


def _nearest(by_project: Mapping[str, int], path: Sequence[str], default: int | None) -> int:
    return next((by_project[name] for name in path if name in by_project), default or 0)


def _ancestors(state: PoolState, action: Action, preemptor: Job) -> Callable[[str], Sequence[str]]:
    tree = tree_of(state)
    mine = tree.leaf_of(preemptor.project)

    def path(project: str) -> Sequence[str]:
        leaf = tree.leaf_of(project)
        return tree.branches[tree.sides(mine, leaf)[1] if action == "reclaim" else leaf].path

    return path


def _by_project(state: PoolState, action: Action) -> dict[str, int]:
    times = ((project.name, project.min_runtime.under(action)) for project in state.rules.projects)
    return {name: time for name, time in times if time is not None}


PROTECTION = Rule(110, NAME, shield, "has not run for its minimum run time yet", ends=ends, field="protections.min_runtime")
