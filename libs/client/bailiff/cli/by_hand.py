"""Commands by which a person stops, sets aside and moves jobs: evict, pause, resume, migrate."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from bailiff.present.jobs import job_row
from bailiff.problem import ExitCode
from bailiff_bus.messages import EvictJob, MigrateJob, PauseJob, RequestBody, UnpauseJob

from .jobs import PANEL, Jobs, Reason, answered, no_such_job
from .session import Session, command

ANSWER_WITHIN = 10.0


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    for function in (evict, pause, resume, migrate):
        command(app, rich_help_panel=PANEL)(function)


async def evict(session: Session, job: Jobs, reason: Reason = "") -> ExitCode:
    """Make jobs leave their places, with their grace; they go back to the queue, each at its old place."""
    return await _ask_each(session, job, lambda name: EvictJob(job=name, reason=reason), "leaves its place")


async def pause(session: Session, job: Jobs, reason: Reason = "") -> ExitCode:
    """Set jobs aside: what runs saves its state and leaves, what waits leaves the queue. `bailiff resume` takes it back."""
    return await _ask_each(session, job, lambda name: PauseJob(job=name, reason=reason), "is set aside")


async def resume(session: Session, job: Jobs, reason: Reason = "") -> ExitCode:
    """Let paused jobs go on, through the queue, from their last checkpoints."""
    return await _ask_each(session, job, lambda name: UnpauseJob(job=name, reason=reason), "may go on")


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


async def _ask_each(session: Session, jobs: list[str], body: Callable[[str], RequestBody], done: str) -> ExitCode:
    worst = ExitCode.DONE
    results: list[dict[str, Any]] = []
    async with session.client() as client:
        where = await client.domain(session.domain)
        await client.view(where.name)
        for asked in await client.requests(where.name, [body(name) for name in jobs]):
            outcome = await client.outcome_of(asked, ANSWER_WITHIN)
            accepted = outcome is not None and outcome.accepted
            if outcome is None:
                said = "no answer yet from admission; the request is in Kafka"
                worst = ExitCode.NO_ANSWER
            elif outcome.accepted:
                said = f"{done}  ({where.name}#{outcome.seq})"
            else:
                said = f"rejected at {where.name}#{outcome.seq}: {outcome.reason} ({outcome.code})"
                worst = ExitCode.REJECTED
            seq = outcome.seq if outcome is not None else None
            results.append({"job": asked.job, "pool": where.name, "accepted": accepted, "seq": seq, "result": said})
    if session.for_people:
        for result in results:
            session.say(f"{result['job']}: {result['result']}", "" if result["accepted"] else "red")
    else:
        session.show(results, lambda: "")
    return worst
