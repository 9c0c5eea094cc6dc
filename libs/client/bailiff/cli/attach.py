"""`bailiff attach`: the terminal of a running task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from bailiff.attach.detach_keys import DEFAULT, InvalidKeys, parse_keys
from bailiff.client.answers import job_in
from bailiff.client.errors import ClientError, ExitCode, UsageError
from bailiff_core.humanize import exit_text

from .parameters import JobName, TaskIndex
from .session import Session, command

if TYPE_CHECKING:
    from bailiff.client.client import Client

KEYS = typer.Option("--detach-keys", metavar="KEYS", help=f"Keys that detach. Default: {DEFAULT}.")


@command("attach", leave_out=("output",))
async def attach(
    session: Session,
    job: JobName,
    task: TaskIndex = 0,
    detach_keys: Annotated[str, KEYS] = DEFAULT,
) -> None:
    """Attach to the terminal of a job's task, which was submitted with --tty or --interactive. Only its owner and operators may;
    it is on record, without what is typed. Ctrl-P Ctrl-Q detaches, and the job runs on.

    The exit code is the task's once it has ended, 128 and the signal's number if a signal ended it, and 0 after detaching.
    """
    async with session.client() as client:
        state, found = await job_in(client, session.pool, job)
        await attach_terminal(client, state.pool, job, task, found.attempt, state.seq, detach_keys)


async def attach_terminal(
    client: Client, pool: str, job: str, task: int, attempt: int, from_seq: int, detach_keys: str = DEFAULT
) -> None:
    """Attach, and end this program with the task's exit code."""
    import asyncio
    import signal

    from bailiff.attach.local_terminal import LocalTerminal
    from bailiff.attach.session import attach_to

    try:
        terminal = LocalTerminal(parse_keys(detach_keys))
    except InvalidKeys as error:
        raise UsageError(f"--detach-keys: {error}") from None
    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    assert this is not None
    received = list[int]()

    def stop(number: int) -> None:
        received.append(number)
        this.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    try:
        ended = await attach_to(client, pool, job, task, attempt, from_seq, terminal)
    except asyncio.CancelledError:
        if not received:
            raise
        raise typer.Exit(128 + received[0]) from None
    if ended.detached:
        terminal.notice(f"detached from {job}, which runs on; to attach again: bailiff attach {job}")
        return
    if ended.exit_code is None:
        raise ClientError(ExitCode.JOB_FAILED, f"task {task} of {job} has ended; its exit code is not known")
    terminal.notice(f"task {task} of {job} ended with {exit_text(ended.exit_code)}")
    end_with(ended.exit_code)


def end_with(exit_code: int) -> NoReturn:
    """End this program as the task ended: with 128 and the signal's number, if a signal ended it."""
    raise typer.Exit(exit_code if exit_code >= 0 else 128 - exit_code)
