"""Commands that act on running jobs: evict, pause, resume, migrate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from bailiff.client.answers import no_such_job, require_accepted
from bailiff.client.errors import ExitCode

from .jobs import PANEL, Jobs, Reason, rejected, request_each
from .session import Session, command

if TYPE_CHECKING:
    from bailiff.client.client import Outcome


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    for function in (evict, pause, resume, migrate):
        command(app, rich_help_panel=PANEL)(function)


async def evict(session: Session, job: Jobs, reason: Reason = "") -> ExitCode:
    """Evict jobs with their grace period; they return to the queue at their old position."""
    from bailiff_bus.messages import EvictJob

    return await request_each(session, [EvictJob(job=name, reason=reason) for name in job], _result_text("eviction requested"))


async def pause(session: Session, job: Jobs, reason: Reason = "") -> ExitCode:
    """Suspend jobs: running ones save a checkpoint and stop, pending ones leave the queue. Undo with: bailiff resume"""
    from bailiff_bus.messages import PauseJob

    return await request_each(session, [PauseJob(job=name, reason=reason) for name in job], _result_text("paused"))


async def resume(session: Session, job: Jobs, reason: Reason = "") -> ExitCode:
    """Resume paused jobs: they return to the queue and restart from their last checkpoints."""
    from bailiff_bus.messages import ResumeJob

    return await request_each(session, [ResumeJob(job=name, reason=reason) for name in job], _result_text("resumed"))


async def migrate(
    session: Session,
    job: Annotated[str, typer.Argument(help="The job's name.")],
    to: Annotated[
        str | None, typer.Option("--to", metavar="NODE", help="Target node. Default: any nodes with free resources.")
    ] = None,
    reason: Reason = "",
) -> None:
    """Move a running job: resources are reserved on other nodes, then it saves a checkpoint and restarts there."""
    from bailiff.render.serializers.jobs import job_row
    from bailiff_bus.messages import MigrateJob

    async with session.client() as client:
        projection = await client.projection(session.pool)
        if job not in projection.state.jobs:
            raise no_such_job(job, projection.pool)
        outcome = await require_accepted(
            client, await client.request(projection.pool, MigrateJob(job=job, node=to, reason=reason))
        )
        state = (await client.projection(projection.pool)).state
        found = state.jobs.get(job)
        nodes = job_row(state, found, client.now())["reserved_nodes"] if found is not None else []
        result = {"job": job, "pool": projection.pool, "seq": outcome.seq, "to": nodes}
        where = f"; reserved on {', '.join(nodes)}" if nodes else ""
        session.show(
            result, lambda: f"{job} migrates{where}  ({projection.pool}#{outcome.seq}); progress: bailiff describe {job}"
        )


def _result_text(done: str) -> Callable[[str, Outcome], str]:
    return lambda where, outcome: f"{done}  ({where})" if outcome.accepted else rejected(where, outcome)
