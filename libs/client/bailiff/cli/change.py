"""Commands that change a submitted job: scale, set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bailiff.client.answers import no_such_job, require_accepted
from bailiff.client.errors import ClientError, ExitCode
from bailiff_core.humanize import count_text

from .jobs import PANEL
from .session import Session, command

if TYPE_CHECKING:
    from bailiff_bus.messages import RequestBody

JobName = Annotated[str, typer.Argument(help="The job's name.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    command(app, rich_help_panel=PANEL)(scale)
    command(app, "set", rich_help_panel=PANEL)(set_)


async def scale(
    session: Session,
    job: JobName,
    tasks: Annotated[int, typer.Argument(metavar="N", min=1, help="The new number of tasks.")],
    min_: Annotated[
        int | None,
        typer.Option("--min", min=1, help="Minimum number of tasks that must run. Default: unchanged; all for a rigid gang."),
    ] = None,
    group: Annotated[int, typer.Option(min=0, help="Index of the job's task group, from 0.")] = 0,
) -> None:
    """Change the number of tasks of a job. Running tasks keep running: tasks are added as resources become free, surplus tasks
    are evicted.
    """
    from bailiff_bus.messages import ScaleJob

    body = ScaleJob(job=job, group=group, tasks=tasks, min_tasks=min_)
    least = f", at least {min_}" if min_ is not None else ""
    await _change(session, job, body, f"{job} is scaled to {count_text(tasks, 'task')}{least}")


async def set_(
    session: Session,
    job: JobName,
    priority: Annotated[str | None, typer.Option("--priority", metavar="CLASS", help="The new priority class.")] = None,
) -> None:
    """Change the priority class of a pending job. A running job keeps the class with which it was placed."""
    from bailiff_bus.messages import SetPriorityClass

    if priority is None:
        raise ClientError(
            ExitCode.USAGE, "set: nothing to change", "bailiff set JOB --priority CLASS; the classes: bailiff class list"
        )
    await _change(session, job, SetPriorityClass(job=job, priority_class=priority), f"{job} is pending with class {priority}")


async def _change(session: Session, job: str, body: RequestBody, done: str) -> None:
    async with session.client() as client:
        projection = await client.projection(session.pool)
        if job not in projection.state.jobs:
            raise no_such_job(job, projection.pool)
        outcome = await require_accepted(client, await client.request(projection.pool, body))
        result = {"job": job, "pool": projection.pool, "seq": outcome.seq}
        session.show(result, lambda: f"{done}  ({projection.pool}#{outcome.seq})")
