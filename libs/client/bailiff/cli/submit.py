"""`bailiff submit` and `bailiff resubmit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bailiff.client.answers import job_in
from bailiff.client.errors import ExitCode, UsageError

from .job_options import How, JobOptions
from .parameters import JobName
from .session import Session, command


@command("submit", names="job", context_settings={"allow_interspersed_args": False})
async def submit(
    session: Session,
    options: JobOptions,
    how: How,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Job file (YAML); options override it.")] = None,
) -> ExitCode | None:
    """Submit a job: bailiff submit --gpus 4 --memory 8GiB --class train -- python train.py

    The tasks of a job are a gang: they are placed together. A job that does not fit is pending, or preempts other jobs if the
    policy allows it.
    """
    from bailiff.client import job_parser

    from .submission import submit_document

    document, source = job_parser.read_job_file(file) if file is not None else ({}, job_parser.Source())
    return await submit_document(session, document, source, options, how, here=True)


@command("resubmit", names="job")
async def resubmit(session: Session, job: JobName, options: JobOptions, how: How) -> ExitCode | None:
    """Submit a job again, running or ended, with the same specification; options change it.

    The new job is called JOB-r2, unless --name says otherwise, and is yours. Its demand is in the audit log. Command,
    environment, secrets and working directory are read from Kafka where you may; else give them again.
    """
    from bailiff.client.job_again import changed, job_again
    from bailiff.client.job_parser import Source

    from .submission import submit_document

    async with session.client() as client:
        again = await job_again(client, *await job_in(client, session.pool, job))
    if again.missing and not options.command:
        text = f"{job}: its command cannot be submitted again: {again.missing}"
        raise UsageError(text, f"give it again: bailiff resubmit {job} -- PROGRAM ARGUMENTS...")
    if again.missing:
        text = f"warning: environment, secrets and working directory are not those of {job}: {again.missing}"
        session.note(text, "yellow")
    return await submit_document(session, changed(again, options.fields_given()), Source(), options, how)
