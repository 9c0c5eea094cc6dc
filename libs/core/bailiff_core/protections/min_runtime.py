"""A job is shielded for a time after its last start, from preempt and from reclaim separately.

Against preempt the time is that of the job's project, or of the nearest project above it that states one. Against
reclaim the search begins at the step below the lowest common ancestor of both projects, on the victim's side: what two
departments owe each other is said at the departments. Where none is stated, the policy's own holds. Surplus may always
go. A gang whose tasks are just being started is as new as can be.
"""

from collections.abc import Callable, Sequence

from bailiff_core.model.policy import Action, MinRuntime
from bailiff_core.model.project_tree import tree_of
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit

from .rule import Ends, Rule, Shield

NAME = "min-runtime"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:
    """Gangs that have not run that long since their last start."""
    least = _least(state, action, preemptor)
    if least is None:
        return None

    def fresh(unit: Unit) -> bool:
        job = unit.job
        if not unit.core or job.phase == "reserved":
            return False
        time = least(job)
        return time > 0 and (job.last_start is None or state.now < job.last_start + time)

    return fresh


def ends(state: PoolState, action: Action, preemptor: Job) -> Ends | None:
    """When the job has run that long."""
    least = _least(state, action, preemptor)
    return None if least is None else lambda job: None if job.last_start is None else job.last_start + least(job)


def _least(state: PoolState, action: Action, preemptor: Job) -> Callable[[Job], int] | None:
    """How long each job is left alone; `None`: the rule is off."""
    if action not in ("preempt", "reclaim"):
        return None
    stated = _stated(state, action)
    default = _of(state.rules.protections.min_runtime, action)
    if not stated and not default:
        return None
    path = _path_for(state, action, preemptor)
    kept: dict[str, int] = {}

    def least(job: Job) -> int:
        time = kept.get(job.project)
        if time is None:
            above = [stated[name] for name in path(job.project) if name in stated]
            time = kept[job.project] = [*above, default or 0][0]
        return time

    return least


def _path_for(state: PoolState, action: Action, preemptor: Job) -> Callable[[str], Sequence[str]]:
    tree = tree_of(state)
    mine = tree.leaf_of(preemptor.project)

    def path(project: str) -> Sequence[str]:
        leaf = tree.leaf_of(project)
        return tree.branches[tree.sides(mine, leaf)[1] if action == "reclaim" else leaf].path

    return path


def _stated(state: PoolState, action: Action) -> dict[str, int]:
    times = ((project.name, _of(project.min_runtime, action)) for project in state.rules.projects)
    return {name: time for name, time in times if time is not None}


def _of(stated: MinRuntime, action: Action) -> int | None:
    return stated.preempt if action == "preempt" else stated.reclaim


PROTECTION = Rule(110, NAME, shield, "has not run for its minimum run time yet", ends=ends)
