"""How near a user, a project and the pool are to their limits of open jobs (docs/reference/limits.md)."""

from collections.abc import Iterable, Iterator

from bailiff_core.fold.open_jobs import limits_of, open_jobs
from bailiff_core.model.state import Job, PoolState

from .sentences import Sentence, seqs_of

NEAR_PERCENT = 80


def limit_sentences(state: PoolState, job: Job) -> Iterator[Sentence]:
    """Each limit that the job's user, its project or the pool has reached, or is at 80 % of."""
    return _near(state, limits_of(state.rules.limits, job.user, job.user_verified, job.project))


def project_limit_sentences(state: PoolState, project: str) -> Iterator[Sentence]:
    """The same for a project and the pool."""
    found = limits_of(state.rules.limits, "", False, project)
    return _near(state, (each for each in found if each[0] != "limits.user.open_jobs"))


def near_limits(state: PoolState) -> list[str]:
    """The same for every project, then for the pool, as texts."""
    pool = [sentence.text for sentence in project_limit_sentences(state, "")]
    names = [project.name for project in state.rules.projects]
    found = [sentence.text for name in names for sentence in project_limit_sentences(state, name)]
    return [*(each for each in found if each not in pool), *pool]


def _near(state: PoolState, limits: Iterable[tuple[str, str, int]]) -> Iterator[Sentence]:
    counts = open_jobs(state)
    for field, key, limit in limits:
        if counts[key] * 100 >= limit * NEAR_PERCENT:
            begin = f"{key[:1].upper()}{key[1:]}: {counts[key]:,} of {limit:,} open jobs ({field})"
            more = "; more are rejected until some have ended" if counts[key] >= limit else ""
            yield Sentence(f"{begin}{more}.", seqs_of(state.policy_revision))
