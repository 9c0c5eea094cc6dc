"""Admission's answers to requests: waits for them, and raises the error for a rejection or for what does not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import NOT_PERMITTED, JobNotFound, NoAnswer, NotPermitted, ProjectNotFound, Rejected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bailiff_core.model.state import Job, PoolState
    from bailiff_core.records import Record

    from .client import Client, Outcome, SentRequest

ANSWER_WITHIN = 10.0


async def require_accepted(
    client: Client, sent: SentRequest, timeout: float = ANSWER_WITHIN, rejection: type[Rejected] = Rejected
) -> Outcome:
    """The outcome of an accepted request. Raises `Rejected`, or `NoAnswer` if there is no outcome within `timeout` seconds."""
    outcome = await client.outcome_of(sent, timeout)
    if outcome is None:
        text = f"the request was published, but admission of {sent.pool} did not respond within {timeout:g} s"
        advice = f"it takes effect once admission runs again; check with: bailiff list --pool {sent.pool}, bailiff doctor"
        raise NoAnswer(text, advice)
    if not outcome.accepted:
        kind = NotPermitted if outcome.code in NOT_PERMITTED else rejection
        raise kind(outcome.code, outcome.reason, job=sent.job, pool=sent.pool, seq=outcome.seq)
    return outcome


async def job_in(client: Client, pool: str | None, job: str) -> tuple[PoolState, Job]:
    """The pool's state, and this job in it. Raises `JobNotFound`."""
    state = (await client.projection(pool)).state
    if job not in state.jobs:
        raise no_such_job(job, state.pool, state=state)
    return state, state.jobs[job]


def no_such_project(state: PoolState, project: str) -> ProjectNotFound:
    """The error for an unknown project."""
    known = ", ".join(each.name for each in state.rules.projects) or "none"
    return ProjectNotFound(f"there is no project {project!r} in {state.pool}", f"existing projects: {known}")


def no_such_job(job: str, pool: str, history: Sequence[Record] = (), state: PoolState | None = None) -> JobNotFound:
    """The error for a job that is not in the pool's state.

    Args:
        history: The job's records, which say how it ended.
        state: The pool, which may have an array of that name.
    """
    from bailiff_core.records.facts import InputRejected

    from .dependencies import array_of

    unknown, everything = f"there is no job {job!r}", "list all: bailiff list --all"
    array = array_of(state, job) if state is not None else []
    if array:
        jobs = f"it is an array of {len(array)} jobs" if len(array) > 1 else "it is an array"
        return JobNotFound(
            f"{unknown} in {pool}: {jobs}", f"name one of them, such as {array[0]}; list them: bailiff list --all '{job}-*'"
        )
    known = [each for each in history if not (isinstance(each.data, InputRejected) and each.data.reason == unknown)]
    if not known:  # at most requests about it were rejected, since there is none
        return JobNotFound(f"{unknown} in {pool}", everything)
    last = known[-1]
    if isinstance(last.data, InputRejected):
        return JobNotFound(f"{unknown} in {pool}: it was rejected at #{last.seq}: {last.data.reason}", everything)
    advice = f"its records: bailiff audit tail --from 0 --job {job}"
    return JobNotFound(f"{job} has ended and is no longer retained in the state of {pool}", advice)
