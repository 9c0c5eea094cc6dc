"""Commands about submitted jobs: describe, cancel; and helpers shared by other commands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bailiff.client.answers import ANSWER_WITHIN, no_such_job
from bailiff.client.errors import ClientError, ExitCode

from .session import Session, command

if TYPE_CHECKING:
    from bailiff.client.client import Client, Outcome
    from bailiff.render.record_text.line import Line
    from bailiff_bus.messages import RequestBody
    from bailiff_core.model.state import Job, PoolState
    from bailiff_log.reader import Entry

PANEL = "Jobs"


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    command(app, rich_help_panel=PANEL)(describe)
    command(app, rich_help_panel=PANEL)(cancel)
    command(app, rich_help_panel=PANEL)(delete)


# --- shared by commands about jobs


async def follow_jobs(
    client: Client, pool: str, jobs: Mapping[str, object], from_seq: int, state: PoolState
) -> AsyncIterator[tuple[Entry, str]]:
    """Records about these jobs from `from_seq` on, each with the job. `state` is folded to each record."""
    from bailiff_core.explain import jobs_of

    async for entry in client.follow(pool, from_seq, state=state):
        for job in sorted(jobs_of(entry.record).keys() & jobs.keys()):
            yield entry, job


def about(found: list[Line], job: str) -> list[Line]:
    """The line of a preemption about this victim; for its preemptor, and for any other record, all lines."""
    return [
        line for line in found if "→" in line.statement.subject and line.statement.subject.startswith((f"{job} ", f"{job}/"))
    ] or found


async def request_each(session: Session, bodies: Sequence[RequestBody], result_text: Callable[[str, Outcome], str]) -> ExitCode:
    """Publishes these requests and prints the outcome of each. result_text: of an outcome and its record, as in `pool-a#12`."""
    worst = ExitCode.DONE
    results: list[dict[str, Any]] = []
    async with session.client() as client:
        where = await client.pool(session.pool)
        await client.projection(where.name)
        for sent in await client.requests(where.name, bodies):
            outcome = await client.outcome_of(sent, ANSWER_WITHIN)
            found = {"job": sent.job, "pool": sent.pool, "accepted": False, "seq": None}
            if outcome is None:
                found["result"] = "no response from admission yet; the request was published"
                worst = ExitCode.NO_ANSWER
            else:
                found |= {"accepted": outcome.accepted, "seq": outcome.seq}
                found["result"] = result_text(f"{sent.pool}#{outcome.seq}", outcome)
                worst = worst if outcome.accepted else ExitCode.REJECTED
            results.append(found)
    if session.for_people:
        for result in results:
            session.say(f"{result['job']}: {result['result']}", "" if result["accepted"] else "red")
    else:
        session.show(results, lambda: "")
    return worst


def moment_of(option: str, text: str | None) -> int | None:
    """The time, µs UTC, of `2d` (ago), `2026-01-31T12:00:00Z` or `now`; None for None. Raises `InvalidRequest`."""
    from bailiff.audit.log_positions import point_in_time, wall_clock

    return None if text is None else point_in_time(text, option, wall_clock())


def pairs_of(field: str, texts: Sequence[str]) -> dict[str, str]:
    """Names and values of an option as in `NAME=VALUE`. Raises `ClientError` that names it."""
    from bailiff.client import job_parser

    try:
        return dict(job_parser.pair(text) for text in texts)
    except job_parser.InvalidValue as error:
        option = {"secrets": "secret", "labels": "label"}.get(field, field).replace("_", "-")
        raise ClientError(ExitCode.USAGE, f"--{option}: {error}") from None


def rejected(where: str, outcome: Outcome) -> str:
    """Text of a rejection. where: its record, as in `pool-a#12`."""
    return f"rejected at {where}: {outcome.reason} ({outcome.code})"


# --- describe


async def watch_or_show(session: Session, look: Any, table: Any, *, watch: bool) -> None:
    """Shows the result of `look` once, or with `watch` on each change."""
    if watch:
        await session.watch(look, table)
    else:
        data = await look()
        session.show(data, lambda: table(data))


async def describe(
    session: Session,
    job: Annotated[str, typer.Argument(help="The job's name.")],
    show_events: Annotated[bool, typer.Option("--show-events", "-e", help="Include all records about the job.")] = False,
    spec: Annotated[bool, typer.Option("--spec", help="Include its command and environment, if you may read them.")] = False,
) -> None:
    """Show one job: its state, why it is pending, where its tasks run, and its history."""
    from bailiff.render.record_text.line import Line
    from bailiff.render.record_text.lines import lines
    from bailiff.render.serializers.job_details import job_details
    from bailiff.render.tables.jobs import job_block
    from bailiff_core.explain import jobs_of
    from bailiff_core.model.state import PoolState
    from bailiff_core.records import Record

    async with session.client() as client:
        state, history, text_lines = PoolState(), list[Record](), list[Line]()
        async for entry in client.follow(session.pool, state=state, on=False):
            if job in jobs_of(entry.record):
                history.append(entry.record)
                text_lines += about(lines(entry.record, state), job)
        found = state.jobs.get(job)
        if found is None:
            where = await client.pool(session.pool)
            raise no_such_job(job, where.name, history)
        events = [f"{line.day} {line}" for line in text_lines]
        details = job_details(state, found, client.now(), history, events if show_events else [])
        private = {"spec": await _spec(client, state, found)} if spec else {}
        session.show({**details, **private}, lambda: job_block(details, **private))
        if show_events and session.for_people:
            session.out.print()
            session.show_lines(text_lines)


async def _spec(client: Client, state: PoolState, job: Job) -> dict[str, Any]:
    """Raises `ClientError` if it cannot be read."""
    from bailiff.client.job_spec import read_spec

    found, missing = await read_spec(client, state.pool, job)
    if found is None:
        raise ClientError(ExitCode.REJECTED, f"the command of {job.id} cannot be read: {missing}")
    return found.to_data()


# --- cancel


Jobs = Annotated[list[str], typer.Argument(metavar="JOB...", help="The jobs' names.")]
Reason = Annotated[str, typer.Option(help="Recorded in the audit log.")]


async def delete(session: Session, job: Jobs, reason: Reason = "") -> ExitCode | None:
    """Alias of cancel. The records about the jobs are kept."""
    return await cancel(session, job, reason)


async def cancel(session: Session, job: Jobs, reason: Reason = "") -> ExitCode | None:
    """Cancel jobs, pending or running. Running tasks are notified and get their grace period."""
    from bailiff_bus.messages import CancelJob

    return await request_each(session, [CancelJob(job=name, reason=reason) for name in job], _cancelled)


def _cancelled(where: str, outcome: Outcome) -> str:
    if outcome.accepted:
        return f"cancel accepted as {where}"
    return f"no effect: {outcome.reason}" if outcome.code == "already-ended" else rejected(where, outcome)
