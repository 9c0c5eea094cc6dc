"""Commands about submitted jobs: describe, cancel; and helpers shared by other commands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bailiff.client.answers import no_such_job
from bailiff.client.errors import ClientError, ExitCode, UsageError

from .parameters import JobName
from .session import Session, command

if TYPE_CHECKING:
    from bailiff.client.client import Client
    from bailiff_core.model.state import Job, PoolState
    from bailiff_log.reader import Entry


# --- shared by commands about jobs


async def follow_jobs(
    client: Client, pool: str, jobs: Mapping[str, object], from_seq: int, state: PoolState
) -> AsyncIterator[tuple[Entry, str]]:
    """Records about these jobs from `from_seq` on, each with the job. `state` is folded to each record."""
    from bailiff_core.records.subjects import jobs_of

    async for entry in client.follow(pool, from_seq, state=state):
        for job in sorted(jobs_of(entry.record).keys() & jobs.keys()):
            yield entry, job


def moment_of(option: str, text: str | None) -> int | None:
    """The time, µs UTC, of `2d` (ago), `2026-01-31T12:00:00Z` or `now`; None for None. Raises `InvalidRequest`."""
    if text is None:
        return None
    from bailiff.audit.log_positions import point_in_time, wall_clock

    return point_in_time(text, option, wall_clock())


def micros_of(option: str, text: str) -> int:
    """The duration, µs.

    Raises:
        ClientError: The text is invalid; names the option.
    """
    from bailiff.client.job_parser import duration
    from bailiff_core.model.document import parse_duration

    try:
        found = parse_duration(duration(int(text) if text.isdigit() else text))
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
    assert isinstance(found, int)
    return found


def pairs_of(field: str, texts: Sequence[str]) -> dict[str, str]:
    """Names and values of an option as in `NAME=VALUE`.

    Raises:
        ClientError: A text is invalid; names the option.
    """
    if not texts:
        return {}
    from bailiff.client.job_parser import pair

    try:
        return dict(pair(text) for text in texts)
    except ValueError as error:
        option = {"secrets": "secret", "labels": "label"}.get(field, field).replace("_", "-")
        raise UsageError(f"--{option}: {error}") from None


# --- describe


async def watch_or_show(session: Session, look: Any, table: Any, *, watch: bool) -> None:
    """Shows the result of `look` once, or with `watch` on each change."""
    if watch:
        await session.watch(look, table)
    else:
        data = await look()
        session.show(data, lambda: table(data))


@command("describe")
async def describe(
    session: Session,
    job: JobName,
    show_events: Annotated[bool, typer.Option("--show-events", "-e", help="Include all records about the job.")] = False,
    spec: Annotated[bool, typer.Option("--spec", help="Include its command and environment, if you may read them.")] = False,
) -> None:
    """Show one job: its state, why it is pending, where its tasks run; with --show-events its history."""
    from bailiff.render.record_text.line import Line
    from bailiff.render.record_text.lines import lines_about
    from bailiff.render.serializers.job_details import job_details
    from bailiff.tables.jobs import job_block
    from bailiff_core.model.state import PoolState
    from bailiff_core.records import Record, decode
    from bailiff_core.records.subjects import jobs_of

    async with session.client() as client:
        state, history, text_lines = PoolState(), list[Record](), list[Line]()
        wires = None if show_events else await client.records_about(job, session.pool)
        if wires is not None:
            state = (await client.projection(session.pool)).state
            history = [record for record in map(decode, wires) if job in jobs_of(record)]
        else:  # with its progress, and each line as of its record
            async for entry in client.follow(session.pool, state=state, on=False):
                if job in jobs_of(entry.record):
                    history.append(entry.record)
                    text_lines += lines_about(entry.record, job, state)
        found = state.jobs.get(job)
        if found is None:
            raise no_such_job(job, state, history)
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
