"""What jobs claim that makes them harder to evict, and what the policy grants of it (docs/reference/claims.md)."""

from typing import Literal

from .policy import DEFAULT_CLAIMS, Claims, PriorityClass
from .project_tree import tree_of
from .state import ENDED, Job, PoolState

NEVER = 1 << 62  # longer than any time, µs
UNSTATED = Claims.model_construct(
    grace=DEFAULT_CLAIMS.grace, stale_grace="never", preemption_delay=0, non_preemptible=True, protective_labels=True
)
"""Of a policy that was recorded before there were claims."""

Limit = Literal["grace", "stale_grace", "preemption_delay", "non_preemptible", "protective_labels"]


def in_time(stated: int | Literal["never"]) -> int:
    """Returns the time, µs; `NEVER` for `never`."""
    return NEVER if stated == "never" else stated


def limits_of(state: PoolState, job: Job, name: Limit) -> list[int]:
    """Returns what the policy allows jobs of its class and of its project to claim, as numbers: µs, or 0 and 1.

    What the class says is in place of what the policy says. Of the project and those above it, the nearest that says something
    counts.
    """
    general, entry = state.rules.claims or UNSTATED, state.rules.find_class(job.class_name)
    own = getattr(entry.claims, name) if entry is not None else None
    found = [own if own is not None else getattr(general, name)]
    tree = tree_of(state)
    branch = tree.branches.get(job.project) if tree.claims else None
    stated = (getattr(tree.claims[each], name) for each in (branch.path if branch is not None else ()) if each in tree.claims)
    found.append(next((value for value in stated if value is not None), None))
    return [in_time(value) for value in found if value is not None]


def is_preemptible(state: PoolState, job: Job, entry: PriorityClass) -> bool:
    """Whether the job is preemptible: as its class, or as it claims. That it is not preemptible has to be granted."""
    claimed = job.demand.preemptible
    if claimed is None or claimed == entry.preemptible:
        return entry.preemptible
    return claimed or not any(limits_of(state, job, "non_preemptible"))


def has_protective_labels(state: PoolState, job: Job) -> bool:
    """Whether the job's labels may put it under `protections.excluded` and budgets."""
    return any(limits_of(state, job, "protective_labels"))


MOST_HALVINGS = 6


def believed(job: Job, time: int) -> int:
    """Returns the part of a time, µs, that a job gets after it gave reasons to believe it less: half of it for each in a row."""
    return time >> min(job.unkept, MOST_HALVINGS)


def believed_less(state: PoolState) -> list[Job]:
    """Returns the jobs that have not ended and are believed less than others now."""
    return [job for job in state.jobs.values() if job.unkept and job.phase not in ENDED]


def within(state: PoolState, job: Job, name: Limit, claimed: int, default: int) -> int:
    """Returns the time that the job claims, at most what the policy grants it, or sets for jobs that claim nothing, µs."""
    return min(claimed, max(default, *limits_of(state, job, name)))
