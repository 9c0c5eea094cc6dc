"""How near a user, a project and the pool are to their limits of open jobs, and who was above one (docs/reference/limits.md)."""

from collections.abc import Iterable, Iterator

from bailiff_core.fold.log import is_proven
from bailiff_core.fold.open_jobs import UNVERIFIED, limits_of, open_jobs
from bailiff_core.humanize import user_text
from bailiff_core.model.state import Job, PoolState

from .sentences import Sentence, seqs_of

NEAR_PERCENT = 80
RECENT = 3_600_000_000
MOST_USERS = 20


def limit_sentences(state: PoolState, job: Job) -> Iterator[Sentence]:
    """Each limit that the job's user, its project or the pool has reached, or is at 80 % of."""
    return _near(state, limits_of(state.rules.limits, job.user, job.user_verified, job.project))


def project_limit_sentences(state: PoolState, project: str) -> Iterator[Sentence]:
    """The same for a project and the pool."""
    found = limits_of(state.rules.limits, "", False, project)
    return _near(state, (each for each in found if each[0] != "limits.user.open_jobs"))


def near_limits(state: PoolState) -> list[str]:
    """The same for every project, for the pool and for the users that are nearest, then who was above a limit, as texts."""
    pool = [sentence.text for sentence in project_limit_sentences(state, "")]
    names = [project.name for project in state.rules.projects]
    found = [sentence.text for name in names for sentence in project_limit_sentences(state, name)]
    users = [sentence.text for sentence in _near(state, _limits_of_users(state))][:MOST_USERS]
    return [*(each for each in found if each not in pool), *pool, *users, *(each.text for each in limited_senders(state))]


def limits_near(state: PoolState, user: str, verified: bool, project: str) -> list[str]:
    """The same for one user who submits to one project, as texts."""
    own = [each.text for each in _near(state, limits_of(state.rules.limits, user, verified, project))]
    return [*own, *(each.text for each in limited_senders(state, user if verified else None))]


def limited_senders(state: PoolState, only: str | None = None) -> Iterator[Sentence]:
    """Whose requests were above a limit in the last hour, the newest first; proven senders before others.

    Args:
        only: Of this proven sender only.
    """
    limited = [
        (is_proven(key.partition(" ")[2]), each)
        for key, each in reversed(state.rejected.items())
        if each.code in ("too-many-requests", "too-many-jobs") and state.now - each.last <= RECENT
    ]
    for proven, each in sorted(limited, key=lambda entry: not entry[0]):
        if only is None or (proven and each.source == only):
            who = user_text(each.source, verified=proven)
            yield Sentence(f"{who}: requests above a limit were rejected, the newest: {each.reason}.", seqs_of(each.seq))


def _limits_of_users(state: PoolState) -> Iterator[tuple[str, str, int]]:
    limit = state.rules.limits.user.open_jobs
    if limit is not None:
        for key, _ in open_jobs(state).most_common():
            if key.startswith("user ") or key == UNVERIFIED:
                yield "limits.user.open_jobs", key, limit


def _near(state: PoolState, limits: Iterable[tuple[str, str, int]]) -> Iterator[Sentence]:
    counts = open_jobs(state)
    for field, key, limit in limits:
        if counts[key] * 100 >= limit * NEAR_PERCENT:
            begin = f"{key[:1].upper()}{key[1:]}: {counts[key]:,} of {limit:,} open jobs ({field})"
            more = "; more are rejected until some have ended" if counts[key] >= limit else ""
            yield Sentence(f"{begin}{more}.", seqs_of(state.policy_revision))
