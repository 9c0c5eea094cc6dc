"""What projects use beyond their quotas, added up as their jobs take and give back GPUs."""

from collections.abc import Iterable

from bailiff_core.model.past_use import add_up, average
from bailiff_core.model.project_tree import tree_of
from bailiff_core.model.state import Job, PastUse, PoolState, ProjectUse, Task
from bailiff_core.model.work_lost import allocated_gpu_milli


def note_use(state: PoolState, past: PastUse, job: Job, tasks: Iterable[Task], sign: int) -> None:
    """The job's projects hold the GPUs of these tasks from now on (1), or no longer (-1)."""
    held = [task for task in tasks if task.state not in ("reserved", "released")]
    gpu_milli = sign * sum(
        allocated_gpu_milli(state, job, (task,)) for task in held
    )  # each rounded by itself: they go one by one
    if gpu_milli:
        tree = tree_of(state)
        for project in tree.branches[tree.leaf_of(job.project)].path[:-1]:
            use = past.projects.setdefault(project, ProjectUse(since=state.now))
            add_up(use, past, tree.branches[project].quota.gpu_milli, state.now)
            use.held += gpu_milli


def use_now(state: PoolState, project: str) -> ProjectUse:
    """The project's use, added up until now."""
    past, branch = state.past_use, tree_of(state).branches[project]
    found = None if past is None else past.projects.get(project)
    if past is None or found is None:
        return ProjectUse(since=state.now)
    use = ProjectUse(found.held, found.since, found.used)
    add_up(use, past, branch.quota.gpu_milli, state.now)
    return use


def average_use(state: PoolState, project: str) -> int:
    """What the project used beyond its quota, averaged over the past, thousandths of a GPU."""
    return 0 if state.past_use is None else average(use_now(state, project).used, state.past_use.half_life)


def begin_again(state: PoolState) -> None:
    """Adds up all use under the policy so far, before another is applied."""
    past = state.past_use
    if past is None:
        return
    tree = tree_of(state)
    for project, use in past.projects.items():
        add_up(use, past, tree.branches[project].quota.gpu_milli, state.now)


def count_again(state: PoolState) -> None:
    """Counts what is held under the policy that was applied; averages of the past stay as they are, whatever the half-life."""
    before, half_life = state.past_use, state.rules.fairness.half_life
    if (before is None) != (half_life is None):
        state.share_turns = {}
    if half_life is None:
        state.past_use = None
        return
    before = before or PastUse(half_life, state.now)
    past = state.past_use = PastUse(half_life, before.began)
    for project, use in before.projects.items():
        if project in tree_of(state).branches:
            past.projects[project] = ProjectUse(0, state.now, use.used * half_life // before.half_life)
    for job in state.active_jobs():
        note_use(state, past, job, job.tasks, 1)
