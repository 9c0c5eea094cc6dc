"""`bailiff shell`: a shell beside a running task."""

from __future__ import annotations

from bailiff.client.answers import job_in

from .parameters import JobName, TaskIndex
from .session import Session, command


@command("shell", leave_out=("output",))
async def shell(
    session: Session,
    job: JobName,
    task: TaskIndex = 0,
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
