"""`bailiff shell`: a shell beside a running task."""

from __future__ import annotations

from typing import Annotated

import typer

from bailiff.client.answers import job_in

from .session import Session, command


@command("shell", leave_out=("output",))
async def shell(
    session: Session,
    job: Annotated[str, typer.Argument(help="The job's name.")],
    task: Annotated[int, typer.Option(min=0, help="Index of the task.")] = 0,
) -> None:
    """Open a shell beside a job's running task: as its user, with its GPUs, limits, folder and environment. Only its owner and
    operators may; it is on record, without what is typed. It ends with exit, with the connection, or with the task.
    """
    from bailiff.attach.local_terminal import LocalTerminal
    from bailiff.attach.session import attach_to

    async with session.client() as client:
        state, found = await job_in(client, session.pool, job)
        terminal = LocalTerminal(b"")
        await attach_to(client, state.pool, job, task, found.attempt, state.seq, terminal, to_shell=True)
