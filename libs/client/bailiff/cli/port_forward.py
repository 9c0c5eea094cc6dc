"""`bailiff port-forward`: a job's port on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bailiff.client.answers import job_in
from bailiff.client.errors import UsageError

from .parameters import JobName, TaskIndex
from .session import Session, command

if TYPE_CHECKING:
    from bailiff_core.model.state import Job

PORT = typer.Argument(
    min=1, max=65535, metavar="[PORT]", help="One of the job's ports; by default its only one.", show_default=False
)
LOCAL = typer.Option("--local-port", min=0, max=65535, help="Port of this machine; 0: any. Default: the same as the job's.")


@command("port-forward", leave_out=("output",))
async def port_forward(
    session: Session,
    job: JobName,
    port: Annotated[int | None, PORT] = None,
    task: TaskIndex = 0,
    local_port: Annotated[int | None, LOCAL] = None,
) -> None:
    """Forward a port of this machine to a port that the job declared with --port. Only its owner and operators may; it is on
    record, without what is sent. It ends with the job, or with Ctrl-C; an eviction does not end it.
    """
    import asyncio

    from bailiff.attach.job_events import JobEvents
    from bailiff.attach.port_forward import PortForward

    async with session.client() as client:
        state, found = await job_in(client, session.pool, job)
        number = port_of(found, port)
        events = JobEvents(client, state.pool, job, state.seq, session.say)
        forward = PortForward(client, state.pool, job, task, number, events, session.say)
        following = asyncio.create_task(events.follow())
        ended = asyncio.create_task(events.ended())
        try:
            await forward.check()
            at = number if local_port is None else local_port
            try:
                server = await asyncio.start_server(forward.serve, "127.0.0.1", at)
            except OSError as error:
                raise UsageError(f"cannot listen on 127.0.0.1:{at}: {error}", "choose another --local-port") from None
            async with server:
                local = server.sockets[0].getsockname()[1]
                session.say(f"127.0.0.1:{local} leads to port {number} of {job}; Ctrl-C ends it")
                await asyncio.wait((following, ended), return_when=asyncio.FIRST_COMPLETED)
                if not ended.done():
                    following.result()  # raises: the log cannot be read any more
            session.say(f"{job} {ended.result()}")
        finally:
            for each in (following, ended):
                each.cancel()
            await asyncio.gather(following, ended, return_exceptions=True)


def port_of(job: Job, port: int | None) -> int:
    """The port that is meant. Raises `ClientError`."""
    declared = job.demand.ports
    if port is None and len(declared) == 1:
        return declared[0]
    if port is not None and port in declared:
        return port
    known = ", ".join(map(str, declared)) or "none; submit it with --port"
    what = f"{job.id} does not declare port {port}" if port is not None else "which port?"
    raise UsageError(f"{what}; the ports of {job.id}: {known}")
