"""Admission's answers to requests: waits for them, and raises the error for a rejection or for what does not exist."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from .errors import (
    NAMES_COMPARED,
    NOT_PERMITTED,
    ClassNotFound,
    JobNotFound,
    NoAnswer,
    NodeNotFound,
    NotFound,
    NotPermitted,
    ProjectNotFound,
    Rejected,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bailiff_core.model.state import Job, PoolState
    from bailiff_core.records import Record
    from bailiff_core.records.request import RequestBody

    from .client import Client, Outcome, SentRequest

ANSWER_WITHIN = 10.0
LONGEST_NAME = 63
NAMES: Mapping[type[NotFound], Callable[[PoolState], Iterable[str]]] = {
    JobNotFound: lambda state: state.jobs,
    NodeNotFound: lambda state: state.node_numbers,
    ProjectNotFound: lambda state: (each.name for each in state.rules.projects),
    ClassNotFound: lambda state: (each.name for each in state.rules.priority_classes),
}
"""What of each kind there is in a pool."""


def not_found(kind: type[NotFound], name: str, state: PoolState) -> NotFound:
    """The error for a name that is not in the pool."""
    return kind.named(name, NAMES[kind](state), state.pool)


def advice_on(outcome: Outcome, sent: SentRequest, state: PoolState) -> str:
    """What to do about a rejection: for a name that does not exist, the one that is closest, and how to list all."""
    if outcome.code == "job-exists":
        return f"to run it again: bailiff resubmit {sent.job}; a free name: --name {free_name(state, sent.job)}"
    kind = next((each for each in NAMES if outcome.code == each.REJECTION), None)
    if kind is None:
        return ""
    known = list(NAMES[kind](state))
    unknown = next((name for name in _named(sent.body, kind.FIELD) if name not in known), "")
    close = difflib.get_close_matches(unknown, known[-NAMES_COMPARED:], n=1)
    return f"did you mean {close[0]!r}? (all: {kind.ALL})" if close else f"all: {kind.ALL}"


def _named(body: RequestBody | None, field: str) -> list[str]:
    """What of this kind the request refers to. The job that a submission names is a new one."""
    demand = getattr(body, "demand", None)
    if demand is not None and field == "job":
        return [each.job for each in demand.after]
    return [getattr(demand or body, field, None) or ""]


def free_name(state: PoolState, job: str) -> str:
    """`train-7-r2` for `train-7`; then `train-7-r3`."""
    stem = re.sub(r"-r[0-9]+$", "", job)
    number = 2
    while (name := f"{stem[: LONGEST_NAME - len(str(number)) - 2]}-r{number}") in state.jobs:
        number += 1
    return name


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
        advice = advice_on(outcome, sent, (await client.projection(sent.pool)).state)
        raise kind(outcome.code, outcome.reason, job=sent.job, pool=sent.pool, seq=outcome.seq, advice=advice)
    return outcome


async def job_in(client: Client, pool: str | None, job: str) -> tuple[PoolState, Job]:
    """The pool's state, and this job in it. Raises `JobNotFound`."""
    state = (await client.projection(pool)).state
    if job not in state.jobs:
        raise no_such_job(job, state)
    return state, state.jobs[job]


def no_such_job(job: str, state: PoolState, history: Sequence[Record] = ()) -> NotFound:
    """The error for a job that is not in the pool's state, which may have an array of that name.

    Args:
        history: The job's records, which say how it ended.
    """
    from bailiff_core.records.facts import InputRejected

    from .dependencies import array_of

    unknown = not_found(JobNotFound, job, state)
    array = array_of(state, job)
    if array:
        jobs = f"it is an array of {len(array)} jobs" if len(array) > 1 else "it is an array"
        advice = f"name one of them, such as {array[0]}; list them: bailiff list --all '{job}-*'"
        return JobNotFound(f"{unknown.text}: {jobs}", advice)
    there_is_none = f"there is no job {job!r}"
    known = [each for each in history if not (isinstance(each.data, InputRejected) and each.data.reason == there_is_none)]
    if not known:  # at most requests about it were rejected, since there is none
        return unknown
    last = known[-1]
    if isinstance(last.data, InputRejected):
        return JobNotFound(f"{unknown.text}: it was rejected at #{last.seq}: {last.data.reason}", unknown.advice)
    advice = f"its records: bailiff audit tail --from 0 --job {job}"
    return JobNotFound(f"{job} has ended and is no longer retained in the state of {state.pool}", advice)
