"""`bailiff logs`, and the output of an attached job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from bailiff.client.answers import no_such_job
from bailiff.client.errors import ExitCode

from .jobs import moment_of
from .parameters import JobName
from .session import Session, command

if TYPE_CHECKING:
    from bailiff.client.client import Client
    from bailiff.client.job_output import Chunk, OutputFilter

RETAINED = 86_400_000_000  # µs
NOT_STARTED = ("waiting", "pending", "reserved", "paused")


@command("logs", leave_out=("output",))
async def logs(
    session: Session,
    job: JobName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow until the job has ended.")] = False,
    task: Annotated[int | None, typer.Option(help="Only this task's lines.")] = None,
    attempt: Annotated[int | None, typer.Option(help="Only this attempt's lines.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only output since then, as in 10m (ago) or 2026-01-31T12:00:00Z.")
    ] = None,
    grep: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Only lines that contain a match of this regular expression.")
    ] = None,
) -> ExitCode | None:
    """Print the output of a job's tasks, as far as it is retained (one day). With several tasks, each line is prefixed with its
    task.
    """
    from bailiff.client.job_output import OutputFilter, pattern_of
    from bailiff.render.serializers.jobs import waits_text

    begin, pattern = moment_of("--since", since), pattern_of(grep)
    async with session.client() as client:
        projection = await client.projection(session.pool)
        wanted = OutputFilter(projection.pool, job, task, attempt, begin, pattern)
        known = projection.state.jobs.get(job)

        if follow and known is not None and known.phase in NOT_STARTED:
            session.note(f"{job} has not started: {waits_text(projection.state, known)}", "dim")

        async def is_over() -> bool:
            if not follow:
                return True
            state = (await client.projection(session.pool)).state
            return job not in state.jobs or job in state.ended

        printed = await print_output(session, client, wanted, is_over)
        if not printed and known is None:
            raise no_such_job(job, projection.state)
        if not printed and not follow and known is not None and known.first_wait is None:
            what = "has not started" if known.phase in NOT_STARTED else "never started"
            session.note(f"{job} {what}: {waits_text(projection.state, known)}", "dim")
        elif not printed:
            everything = wanted == OutputFilter(projection.pool, job)
            runs = known is not None and job not in projection.state.ended
            young = known is not None and client.now() - known.submitted_at < RETAINED
            what = "has no retained output" if not runs else f"has written nothing {'yet' if young else 'in the last day'}"
            session.note(f"{job} {what}{'' if everything else ' that matches'}", "dim")
    return None


async def print_output(session: Session, client: Client, wanted: OutputFilter, is_over: Callable[[], Awaitable[bool]]) -> bool:
    """Prints the retained output of the job's tasks, then new output until `is_over`. Returns whether there was any."""
    from bailiff.client.job_output import chunks, lines

    known = (await client.projection(wanted.pool)).state.jobs.get(wanted.job)
    named = wanted.task is None and known is not None and known.size > 1
    whole = named or wanted.pattern is not None
    printed = False
    async for chunk in (lines if whole else chunks)(client, wanted, is_over):
        session.out.out(line_text(chunk, named=named) if whole else chunk.text, highlight=False, end="\n" if whole else "")
        printed = True
    return printed


def line_text(line: Chunk, *, named: bool) -> str:
    """The line, prefixed with its task and node where the job has several."""
    return f"[{line.task} {line.node}] {line.text}" if named else line.text
