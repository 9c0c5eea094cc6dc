"""Waits for submitted jobs: until their end, with their events, or attached to one with its output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bailiff.client.errors import ExitCode, Rejected

from .jobs import follow_jobs
from .logs import print_output
from .session import Output, Session

if TYPE_CHECKING:
    from bailiff.client.client import Client, SentRequest
    from bailiff_core.records.decisions import JobEnded

    Accepted = list[tuple[SentRequest, int]]  # requests, each with the seq of the record that accepted it

OUTCOMES = {
    "succeeded": ExitCode.DONE,
    "failed": ExitCode.JOB_FAILED,
    "evicted": ExitCode.JOB_FAILED,
    "cancelled": ExitCode.JOB_CANCELLED,
    "timed-out": ExitCode.JOB_FAILED,
}


async def wait_for(session: Session, client: Client, accepted: Accepted, *, follow: bool) -> ExitCode:
    import asyncio

    names = [sent.job for sent, _ in accepted]
    pool = accepted[0][0].pool
    if session.for_people and not follow:
        for sent, seq in accepted:
            session.say(f"{sent.job} accepted as {pool}#{seq}; waiting for its end")
    elif session.output is Output.NAME:
        session.show([{"job": name} for name in names], lambda: "")
    try:
        return await _until_ended(session, client, pool, names, min(seq for _, seq in accepted), follow=follow)
    except asyncio.CancelledError:  # Ctrl-C
        _leave(session, names, pool)
        raise


def _leave(session: Session, names: Sequence[str], pool: str) -> None:
    shown = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
    goes = "keeps" if len(names) == 1 else "keep"
    session.note(f"{shown} {goes} running; to cancel: bailiff cancel {names[0]} --pool {pool}")


async def _until_ended(
    session: Session, client: Client, pool: str, jobs: Sequence[str], from_seq: int, *, follow: bool
) -> ExitCode:
    """Waits until all jobs have ended. Returns the worst of their exit codes."""
    from bailiff.client.job_failure import last_lines
    from bailiff.render.record_text.lines import lines_about
    from bailiff.render.serializers.records import record_data
    from bailiff_core.explain.job_state import end_reason
    from bailiff_core.model.state import Job, PoolState
    from bailiff_core.records.decisions import JobEnded

    state, left, worst, failed = PoolState(), dict.fromkeys(jobs), ExitCode.DONE, list[Job]()
    async for entry, job in follow_jobs(client, pool, left, from_seq, state):
        if follow and session.for_people:
            session.show_lines(lines_about(entry.record, job, state))
        elif follow and session.output is not Output.NAME:
            session.one_of_many(record_data(entry, state))
        data = entry.record.data
        if isinstance(data, JobEnded) and data.job == job:
            has_failed = OUTCOMES[data.outcome] is ExitCode.JOB_FAILED
            if has_failed or not follow:
                reason = end_reason(state.jobs[job], [entry.record])
                session.say(f"{job} {data.outcome}{f': {reason}' if reason else ''}  ({pool}#{entry.record.seq})")
            worst = max(worst, OUTCOMES[data.outcome])
            failed += [state.jobs[job]] if has_failed else []
            left.pop(job, None)
        if not left:
            if failed and session.for_people:
                printed = [f"  | {line}" for line in await last_lines(client, pool, failed[0])]
                for line in (*printed, f"what it printed: bailiff logs {failed[0].id} --pool {pool}"):
                    session.note(line)
            return worst
    raise AssertionError("following ends only with the jobs")


# --- attached


async def attend(session: Session, client: Client, sent: SentRequest, seq: int, port: int | None) -> ExitCode:
    """Attaches to the job: its output goes to stdout, its node and events to stderr."""
    return OUTCOMES[(await _attended(session, client, sent, seq, port)).outcome]


async def _attended(session: Session, client: Client, sent: SentRequest, seq: int, port: int | None) -> JobEnded:
    """Prints events from this record on, and the output, until the job has ended."""
    import asyncio

    from bailiff.client.job_output import OutputFilter

    over = asyncio.Event()

    async def is_over() -> bool:
        return over.is_set()

    output = asyncio.create_task(print_output(session, client, OutputFilter(sent.pool, sent.job), is_over))
    try:
        end, _ = await _events_of(session, client, sent, seq, port)
        assert end is not None
        over.set()
        await output
        return end
    except asyncio.CancelledError:
        _leave(session, [sent.job], sent.pool)
        raise
    finally:
        output.cancel()


async def attach_when_started(session: Session, client: Client, sent: SentRequest, seq: int, port: int | None) -> ExitCode:
    """Waits until the job runs, with its events, then attaches to the terminal of its first task.

    Of a task that has ended before it could be attached to, the output is printed.
    """
    import asyncio

    from bailiff.attach.session import ENDED

    from .attach import attach_terminal, end_with

    try:
        end, shown = await _events_of(session, client, sent, seq, port, until_started=True)
    except asyncio.CancelledError:
        _leave(session, [sent.job], sent.pool)
        raise
    if end is not None:
        return OUTCOMES[end.outcome]
    state = (await client.projection(sent.pool)).state
    job = state.jobs.get(sent.job)
    if job is not None and job.tasks:
        try:
            await attach_terminal(client, sent.pool, sent.job, job.tasks[0].index, job.attempt, seq)
        except Rejected as error:
            if error.code not in ENDED:
                raise
    end = await _attended(session, client, sent, shown + 1, port)
    if end.outcome == "failed" and end.exit_codes:
        end_with(next(iter(end.exit_codes.values())))
    return OUTCOMES[end.outcome]


async def _events_of(
    session: Session, client: Client, sent: SentRequest, seq: int, port: int | None, *, until_started: bool = False
) -> tuple[JobEnded | None, int]:
    """How the job ended, None once its first task runs if `until_started`; and the newest record that was shown."""
    from bailiff.render.record_text.lines import lines_about
    from bailiff_core.model.state import PoolState
    from bailiff_core.records.decisions import JobEnded
    from bailiff_core.records.facts import TaskStarted

    state = PoolState()
    async for entry, job in follow_jobs(client, sent.pool, {sent.job: None}, seq, state):
        data = entry.record.data
        for line in lines_about(entry.record, job, state):
            session.note(str(line), "dim")
        if isinstance(data, TaskStarted) and data.task == state.jobs[job].tasks[0].index:
            for sentence in where_to_reach(job, data.node, port):
                session.note(sentence, "bold")
            if until_started:
                return None, entry.record.seq
        if isinstance(data, JobEnded):
            return data, entry.record.seq
    raise AssertionError("following ends only with the job")


def where_to_reach(job: str, node: str, port: int | None) -> list[str]:
    """The job's node, and how to reach its port."""
    if port is None:
        return [f"running on {node}"]
    return [f"running on {node}", f"to reach its port: bailiff port-forward {job} {port}, or open it from the console"]
