"""Commands that change a job while it is there: scale, set."""

from typing import Annotated

import typer

from bailiff.problem import ExitCode, Problem
from bailiff_bus.messages import RequestBody, ScaleJob, SetJob
from bailiff_core.words import count_text

from .jobs import PANEL, answered, no_such_job
from .session import Session, command

JobName = Annotated[str, typer.Argument(help="The job's name.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    command(app, rich_help_panel=PANEL)(scale)
    command(app, "set", rich_help_panel=PANEL)(set_)


async def scale(
    session: Session,
    job: JobName,
    tasks: Annotated[int, typer.Argument(metavar="N", min=1, help="How many tasks it is to have.")],
    min_: Annotated[
        int | None, typer.Option("--min", min=1, help="How many must run together. Default: as before; all of a rigid gang.")
    ] = None,
    group: Annotated[int, typer.Option(min=0, help="Which of the job's task groups, counted from 0.")] = 0,
) -> None:
    """Let a job have more tasks, or fewer. What runs goes on: more are added as there is room, surplus ones leave."""
    body = ScaleJob(job=job, group=group, tasks=tasks, min_tasks=min_)
    least = f", at least {min_} together" if min_ is not None else ""
    await _change(session, job, body, f"{job} is to have {count_text(tasks, 'task')}{least}")


async def set_(
    session: Session,
    job: JobName,
    priority: Annotated[str | None, typer.Option("--priority", metavar="CLASS", help="Its new priority class.")] = None,
) -> None:
    """Give a job another priority class while it waits. What runs keeps the class that it was placed with."""
    if priority is None:
        raise Problem(
            ExitCode.USAGE, "set: say what to change", "bailiff set JOB --priority CLASS; the classes: bailiff class list"
        )
    await _change(session, job, SetJob(job=job, priority_class=priority), f"{job} waits as {priority} now")


async def _change(session: Session, job: str, body: RequestBody, done: str) -> None:
    async with session.client() as client:
        view = await client.view(session.domain)
        if job not in view.pool.jobs:
            raise no_such_job(job, view.domain)
        outcome = await answered(client, await client.request(view.domain, body))
        result = {"job": job, "pool": view.domain, "seq": outcome.seq}
        session.show(result, lambda: f"{done}  ({view.domain}#{outcome.seq})")
