"""`bailiff migrate`: moves a running job."""

from __future__ import annotations

from typing import Annotated

import typer

from bailiff.client.answers import job_in, require_accepted

from .parameters import JobName, Reason
from .session import Session, command


@command("migrate", names="job")
async def migrate(
    session: Session,
    job: JobName,
    to: Annotated[
        str | None, typer.Option("--to", metavar="NODE", help="Target node. Default: any nodes with free resources.")
    ] = None,
    reason: Reason = "",
) -> None:
    """Move a running job: resources are reserved on other nodes, then it saves a checkpoint and restarts there."""
    from bailiff.render.serializers.jobs import job_row
    from bailiff_core.records.job_requests import MigrateJob

    async with session.client() as client:
        pool = (await job_in(client, session.pool, job))[0].pool
        outcome = await require_accepted(client, await client.request(pool, MigrateJob(job=job, node=to, reason=reason)))
        state = (await client.projection(pool)).state
        found = state.jobs.get(job)
        nodes = job_row(state, found, client.now())["reserved_nodes"] if found is not None else []
        result = {"job": job, "pool": pool, "seq": outcome.seq, "to": nodes}
        where = f"; reserved on {', '.join(nodes)}" if nodes else ""
        session.show(result, lambda: f"{job} migrates{where}  ({pool}#{outcome.seq}); progress: bailiff describe {job}")
