"""How many jobs have not ended: by user, by project and in all, for the limits of the policy."""

from collections import Counter
from collections.abc import Iterator

from bailiff_core.model.policy import LimitRules
from bailiff_core.model.state import ENDED, Job, PoolState
from bailiff_core.model.undecoded import Shared, shared_counts

UNVERIFIED = "users whose names are not verified"
"""They count as one user, so that nobody is many by inventing names."""


def user_key(user: str, verified: bool) -> str:
    """Whose jobs are counted together."""
    return f"user {user}" if verified else UNVERIFIED


def open_jobs(state: PoolState) -> "Counter[str]":
    """By `user_key`, by `project NAME`, and all as `pool`; counted once, then kept by the fold."""
    counts = state.indices.open_jobs
    if counts is None:
        counts = state.indices.open_jobs = Counter[str]()
        for shared, count in shared_counts(state.jobs).items():
            if shared.phase not in ENDED:
                counts.update(dict.fromkeys(_keys_of(shared), count))
    return counts


def limits_of(limits: LimitRules, user: str, verified: bool, project: str) -> Iterator[tuple[str, str, int]]:
    """Yields the limits of open jobs that hold for a job: the policy's field, the key in `open_jobs`, and how many it allows."""
    for field, limit, key in (
        ("user", limits.user.open_jobs, user_key(user, verified)),
        ("project", limits.project.open_jobs if project else None, f"project {project}"),
        ("pool", limits.pool.open_jobs, "pool"),
    ):
        if limit is not None:
            yield f"limits.{field}.open_jobs", key, limit


def reached(limits: LimitRules, counts: "Counter[str]", user: str, verified: bool, project: str) -> str | None:
    """Why one more job is too many."""
    for field, key, limit in limits_of(limits, user, verified, project):
        if counts[key] >= limit:
            return f"{key}: {counts[key]} jobs have not ended, and the policy allows {limit} ({field})"
    return None


def keys_of(user: str, verified: bool, project: str) -> tuple[str, ...]:
    """Where a job counts in `open_jobs`."""
    return user_key(user, verified), f"project {project}", "pool"


def note_open(state: PoolState, job: Job) -> None:
    """The job was submitted."""
    if state.indices.open_jobs is not None:
        state.indices.open_jobs.update(_keys_of(job))


def note_ended(state: PoolState, job: Job) -> None:
    if state.indices.open_jobs is not None:
        state.indices.open_jobs.subtract(_keys_of(job))


def _keys_of(job: Job | Shared) -> tuple[str, ...]:
    return keys_of(job.user, bool(job.user_verified), job.project)
