"""`bailiff submit` and `bailiff resubmit`: their options."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from bailiff.client.answers import ANSWER_WITHIN, no_such_job
from bailiff.client.errors import ClientError, ExitCode

from .jobs import PANEL
from .session import Session, command


def register(app: typer.Typer) -> None:
    """Add the command to the root."""
    command(app, rich_help_panel=PANEL, context_settings={"allow_interspersed_args": False})(submit)
    resubmit.__signature__ = _options_of_resubmit()  # type: ignore[attr-defined]
    command(app, rich_help_panel=PANEL)(resubmit)


async def submit(
    session: Session,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- PROGRAM ARGUMENTS...]", help="The command to run.", show_default=False)
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Job file (YAML); options override it.")] = None,
    name: Annotated[str | None, typer.Option(help="Job name. Default: derived from the command.")] = None,
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="Project whose quota is used. Also: BAILIFF_PROJECT.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", "-u", metavar="NAME", help="Submit for another user; only operators may.")
    ] = None,
    class_: Annotated[str | None, typer.Option("--class", "-c", help="The priority class.")] = None,
    gpus: Annotated[str | None, typer.Option(help="Whole GPUs per task, as in 4.")] = None,
    fraction: Annotated[str | None, typer.Option(help="Fraction of a GPU per task, as in 0.5.")] = None,
    gpu_memory: Annotated[str | None, typer.Option(help="GPU memory per task on a shared GPU, as in 4GiB.")] = None,
    gpu_devices: Annotated[
        int | None, typer.Option(help="Number of GPUs on which the fraction is used, or of MIG devices.")
    ] = None,
    mig: Annotated[str | None, typer.Option(metavar="PROFILE", help="One MIG device per task, as in 3g.40gb.")] = None,
    cpu: Annotated[str | None, typer.Option(help="Cores per task, as in 2 or 500m.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory per task, as in 8GiB.")] = None,
    tasks: Annotated[int | None, typer.Option(help="Number of identical tasks.")] = None,
    min_tasks: Annotated[
        int | None, typer.Option(help="Minimum number of tasks that must run; others are elastic. Default: all.")
    ] = None,
    array: Annotated[
        int | None, typer.Option(metavar="N", help="Submit N jobs NAME-0 …, each with its index in BAILIFF_ARRAY_INDEX.")
    ] = None,
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive", help="Use class interactive, and attach: to its terminal from a terminal, else to its output."
        ),
    ] = False,
    tty: Annotated[
        bool | None, typer.Option(help="Run the tasks under a pseudo-terminal, for bailiff attach. Default: with --interactive.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port that the job serves, passed in BAILIFF_PORT; see port-forward."),
    ] = None,
    env: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Environment variable; repeatable.")] = None,
    secret: Annotated[
        list[str] | None, typer.Option(metavar="VARIABLE=SECRET", help="Environment variable from a named secret of the node.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Label, recorded in the audit log; repeatable.")
    ] = None,
    node_label: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only on nodes with this label.")] = None,
    gpu_model: Annotated[list[str] | None, typer.Option(metavar="MODEL", help="Only on this GPU model; repeatable.")] = None,
    topology: Annotated[
        str | None, typer.Option(metavar="NAME:LEVEL", help="Place all tasks in one topology domain, as in racks:rack.")
    ] = None,
    near: Annotated[str | None, typer.Option(metavar="NAME:LEVEL", help="As --topology, but preferred, not required.")] = None,
    pack: Annotated[str | None, typer.Option(help="binpack or spread. Default: the policy's.")] = None,
    placement: Annotated[
        str | None, typer.Option(help="'prefer nvlink' (GPUs on one NVLink island if possible) or any. Default: the policy's.")
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(metavar="JOB[:succeeded|ended]", help="Wait until this job has succeeded (default) or ended; repeatable."),
    ] = None,
    run_time_limit: Annotated[str | None, typer.Option(metavar="TIME", help="Run time limit, as in 2h.")] = None,
    grace: Annotated[str | None, typer.Option(help="Grace period between notice and KILL, as in 30s.")] = None,
    kill_after: Annotated[str | None, typer.Option(help="Part of the grace period between TERM and KILL, as in 5s.")] = None,
    preemptible: Annotated[
        bool | None, typer.Option(help="Whether the job may be preempted. Default: that of its class.")
    ] = None,
    on_eviction: Annotated[str | None, typer.Option(help="requeue (default) or end.")] = None,
    on_term: Annotated[
        str | None, typer.Option(help="What exit code 0 after an eviction notice means: restart (default) or finish.")
    ] = None,
    max_failures: Annotated[
        int | None, typer.Option(help="Maximum number of retries after failures. Default: that of the policy.")
    ] = None,
    on_failure: Annotated[str | None, typer.Option(help="restart (default) or end.")] = None,
    working_dir: Annotated[str | None, typer.Option(help="Working directory on the node.")] = None,
    image: Annotated[str | None, typer.Option(help="Container image.")] = None,
    sim_run_for: Annotated[str | None, typer.Option(metavar="TIME", help="Simulate a job that runs for this time.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of the job; the exit code is its outcome.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="As --wait, and print its events.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the request and send nothing.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Timeout for admission's response.")] = ANSWER_WITHIN,
) -> ExitCode | None:
    """Submit a job: bailiff submit --gpus 4 --memory 8GiB --class train -- python train.py

    The tasks of a job are a gang: they are placed together. A job that does not fit is pending, or preempts other jobs if the
    policy allows it.
    """
    options = dict(locals())
    from bailiff.client import job_parser

    from .submission import fields_given, how_of, submit_document, with_mappings

    document, source = job_parser.read_job_file(file) if file is not None else ({}, job_parser.Source())
    given, how = fields_given(options, document), how_of(options)
    document |= given
    with_mappings(document, options)
    return await submit_document(session, document, source, given, how)


async def resubmit(session: Session, job: str, **options: Any) -> ExitCode | None:
    """Submit a job again, running or ended, with the same specification; options change it.

    The new job is called JOB-r2, unless --name says otherwise, and is yours. Its demand is in the audit log. Command,
    environment, secrets and working directory are read from Kafka where you may; else give them again.
    """
    from bailiff.client.job_again import changed, job_again
    from bailiff.client.job_parser import Source

    from .submission import fields_given, how_of, submit_document, with_mappings

    how = how_of(options)
    async with session.client() as client:
        state = (await client.projection(session.pool)).state
        if job not in state.jobs:
            raise no_such_job(job, state.pool)
        again = await job_again(client, state, state.jobs[job])
    given = fields_given(options, again.document)
    document = changed(again, given)
    with_mappings(document, options)
    if again.missing and not options["command"]:
        text = f"{job}: its command cannot be submitted again: {again.missing}"
        raise ClientError(ExitCode.USAGE, text, f"give it again: bailiff resubmit {job} -- PROGRAM ARGUMENTS...")
    if again.missing:
        text = f"warning: environment, secrets and working directory are not those of {job}: {again.missing}"
        session.err.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)
    return await submit_document(session, document, Source(), given, how)


def _options_of_resubmit() -> inspect.Signature:
    """Those of `submit`, and a job instead of a file."""
    own = inspect.signature(submit, eval_str=True).parameters
    kind = Annotated[str, typer.Argument(metavar="JOB", help="The job's name.")]
    job = inspect.Parameter("job", inspect.Parameter.KEYWORD_ONLY, annotation=kind)
    options = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, each in own.items() if name not in ("session", "file")]
    return inspect.Signature([own["session"], job, *options])
