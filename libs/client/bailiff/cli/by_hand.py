"""Commands by which a person stops, sets aside and moves jobs: evict, pause, resume, migrate."""

from collections.abc import Callable
from typing import Annotated

import typer

from bailiff.client import Outcome
from bailiff.present.jobs import job_row
from bailiff.problem import ExitCode
from bailiff_bus.messages import EvictJob, MigrateJob, PauseJob, UnpauseJob

from .jobs import PANEL, Jobs, Reason, answered, ask_each, no_such_job, rejected
from .session import Session, command


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    for function in (evict, pause, resume, migrate):
        command(app, rich_help_panel=PANEL)(function)


async def evict(session: Session, job: Jobs, reason: Reason = "") -> ExitCode:
    """Make jobs leave their places, with their grace; they go back to the queue, each at its old place."""
    return await ask_each(session, [EvictJob(job=name, reason=reason) for name in job], _says("leaves its place"))


async def pause(session: Session, job: Jobs, reason: Reason = "") -> ExitCode:
    """Set jobs aside: what runs saves its state and leaves, what waits leaves the queue. `bailiff resume` takes it back."""
    return await ask_each(session, [PauseJob(job=name, reason=reason) for name in job], _says("is set aside"))


async def resume(session: Session, job: Jobs, reason: Reason = "") -> ExitCode:
    """Let paused jobs go on, through the queue, from their last checkpoints."""
    return await ask_each(session, [UnpauseJob(job=name, reason=reason) for name in job], _says("may go on"))


async def migrate(
    session: Session,
    job: Annotated[str, typer.Argument(help="The job's name.")],
    to: Annotated[str | None, typer.Option("--to", metavar="NODE", help="Where to. Default: where there is room.")] = None,
    reason: Reason = "",
) -> None:
    """Move a running job: a place is kept for it first, then it saves its state, and goes on there."""
    async with session.client() as client:
        view = await client.view(session.domain)
        if job not in view.pool.jobs:
            raise no_such_job(job, view.domain)
        outcome = await answered(client, await client.request(view.domain, MigrateJob(job=job, node=to, reason=reason)))
        pool = (await client.view(view.domain)).pool
        found = pool.jobs.get(job)
        nodes = job_row(pool, found, client.now())["reserved_nodes"] if found is not None else []
        result = {"job": job, "pool": view.domain, "seq": outcome.seq, "to": nodes}
        where = f"; a place is kept on {', '.join(nodes)}" if nodes else ""
        session.show(result, lambda: f"{job} moves{where}  ({view.domain}#{outcome.seq}); how it went: bailiff describe {job}")


def _says(done: str) -> Callable[[str, Outcome], str]:
    return lambda where, outcome: f"{done}  ({where})" if outcome.accepted else rejected(where, outcome)
