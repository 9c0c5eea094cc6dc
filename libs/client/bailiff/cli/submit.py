"""`bailiff submit`: submits a job or an array of jobs; optionally waits for its end or attaches to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bailiff.client.answers import ANSWER_WITHIN, require_accepted
from bailiff.client.errors import ClientError, ExitCode

from .jobs import PANEL, about, follow_jobs, pairs_of
from .logs import print_output
from .session import Output, Session, as_text, command

if TYPE_CHECKING:
    from bailiff.client import job_parser
    from bailiff.client.client import Client, SentRequest
    from bailiff_bus.messages import SubmitJob

    Accepted = list[tuple[SentRequest, int]]  # requests, each with the seq of the record that accepted it

OUTCOMES = {
    "succeeded": ExitCode.DONE, "failed": ExitCode.JOB_FAILED, "evicted": ExitCode.JOB_FAILED,
    "cancelled": ExitCode.JOB_CANCELLED, "timed-out": ExitCode.JOB_FAILED,
}  # fmt: skip
LARGEST_ARRAY = 10_000
ARRAY_INDEX, ARRAY_SIZE, PORT = "BAILIFF_ARRAY_INDEX", "BAILIFF_ARRAY_SIZE", "BAILIFF_PORT"


def register(app: typer.Typer) -> None:
    """Add the command to the root."""
    command(app, rich_help_panel=PANEL, context_settings={"allow_interspersed_args": False})(submit)


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
    gpu_devices: Annotated[int | None, typer.Option(help="Number of GPUs on which the fraction is used.")] = None,
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
        bool, typer.Option("--interactive", help="Use class interactive, and attach: print its node and its output.")
    ] = False,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port that the job serves, passed in BAILIFF_PORT.")] = None,
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
    from bailiff.client import job_parser
    from bailiff.client.job_request import in_project, named

    document, source = job_parser.read_job_file(file) if file is not None else ({}, job_parser.Source())
    if interactive and "class" not in document and class_ is None:
        class_ = "interactive"
    if interactive and "max_failures" not in document and max_failures is None:
        max_failures = 0  # an attached user sees that it failed
    options: dict[str, Any] = {
        "name": name, "user": user, "project": project, "class": class_, "gpus": gpus, "fraction": fraction,
        "gpu_memory": gpu_memory, "gpu_devices": gpu_devices, "cpu": cpu, "memory": memory, "tasks": tasks, "min_tasks": min_tasks,
        "gpu_model": gpu_model or None, "topology": _topology(topology, near), "pack": pack, "run_time_limit": run_time_limit,
        "grace": grace, "kill_after": kill_after, "preemptible": preemptible, "on_eviction": on_eviction,
        "on_term": on_term,
        "max_failures": max_failures, "on_failure": on_failure, "working_dir": working_dir, "image": image,
        "sim_run_for": sim_run_for,
        "command": command or None,
    }  # fmt: skip
    given = {field: value for field, value in options.items() if value is not None}
    document |= given
    in_project(document, session.settings.project)
    variables = [*(env or []), *([f"{PORT}={port}"] if port is not None else [])]
    for field, texts in (("env", variables), ("secrets", secret), ("labels", label), ("node_labels", node_label)):
        if texts:
            document[field] = job_parser.merged(document.get(field), pairs_of(field, texts))
    source = replace(source, options=frozenset(given))
    named(document)
    jobs = array_of(document, source, array) if array is not None else [job_parser.job_from(document, source)]
    if interactive and array is not None:
        raise ClientError(ExitCode.USAGE, "--interactive and --array are mutually exclusive")
    if dry_run:
        session.out.out("---\n".join(map(request_text, jobs)), highlight=False, end="")
        return None
    async with session.client() as client:
        accepted = await _ask(session, client, jobs, timeout)
        await _warn(session, client, accepted[0][0].pool, jobs[0])
        if interactive:
            (sent, seq) = accepted[0]
            return await attend(session, client, sent, seq, port)
        if wait or follow:
            return await _wait(session, client, accepted, follow=follow)
        await _tell(session, client, accepted, is_array=array is not None)
    return ExitCode.DONE


def array_of(document: Mapping[str, Any], source: job_parser.Source, size: int) -> list[SubmitJob]:
    """`size` jobs that differ in name and array index."""
    from bailiff.client import job_parser

    if not 1 <= size <= LARGEST_ARRAY:
        raise ClientError(ExitCode.USAGE, f"--array: expected 1 to {LARGEST_ARRAY} jobs, found {size}")
    jobs = []
    for index in range(size):
        env = job_parser.merged(document.get("env"), {ARRAY_INDEX: str(index), ARRAY_SIZE: str(size)})
        jobs.append(job_parser.job_from({**document, "name": f"{document['name']}-{index}", "env": env}, source))
    return jobs


async def _ask(session: Session, client: Client, jobs: Sequence[SubmitJob], timeout: float) -> Accepted:
    """Submits the jobs in order. Raises `ClientError` for rejected ones, after all have an outcome."""
    pool = await client.pool(session.pool)
    await client.projection(pool.name)
    accepted, refused = [], list[ClientError]()
    for sent in await client.requests(pool.name, jobs):
        try:
            accepted.append((sent, (await require_accepted(client, sent, timeout)).seq))
        except ClientError as problem:
            refused.append(problem)
            if problem.exit_code is ExitCode.NO_ANSWER:
                break
    if refused:
        others = f"{len(accepted)} of {len(jobs)} jobs were accepted" if len(jobs) > 1 else ""
        texts = [*(problem.text for problem in refused[:5]), *([f"and {len(refused) - 5} more"] if len(refused) > 5 else [])]
        raise ClientError(refused[-1].exit_code, "\n".join([*texts, *([others] if others else [])]), refused[-1].advice)
    return accepted


async def _warn(session: Session, client: Client, pool: str, job: SubmitJob) -> None:
    """Prints a warning about an accepted job."""
    from bailiff_core.placement.shared_checkpoints import unshared_checkpoints

    problem = unshared_checkpoints((await client.projection(pool)).state, job.demand) if job.spec.runtime != "simulated" else None
    if problem is not None:
        session.err.print(f"warning: {problem}", style="yellow", markup=False, highlight=False, soft_wrap=True)


async def _tell(session: Session, client: Client, accepted: Accepted, *, is_array: bool) -> None:
    from bailiff.render.serializers.jobs import job_state

    results, text_lines = [], []
    state = (await client.projection(accepted[0][0].pool)).state
    ahead = {name: at for at, name in enumerate(name for name in state.queue if name not in state.active)}
    for sent, seq in accepted:
        found = state.jobs.get(sent.job)
        shown = job_state(found) if found is not None else "accepted"
        results.append({"job": sent.job, "pool": sent.pool, "seq": seq, "request_id": sent.id, "state": shown})
        waits = f", {ahead[sent.job]} ahead" if sent.job in ahead else ""
        text_lines.append(f"{sent.job} accepted as {sent.pool}#{seq}, {shown}{waits}")
    session.show(results if is_array else results[0], lambda: "\n".join(text_lines))


async def _wait(session: Session, client: Client, accepted: Accepted, *, follow: bool) -> ExitCode:
    import asyncio

    names = [sent.job for sent, _ in accepted]
    pool = accepted[0][0].pool
    if session.for_people and not follow:
        for sent, seq in accepted:
            session.say(f"{sent.job} accepted as {pool}#{seq}; waiting for its end")
    try:
        return await _until_ended(session, client, pool, names, min(seq for _, seq in accepted), follow=follow)
    except asyncio.CancelledError:  # Ctrl-C
        _leave(session, names, pool)
        raise


def _leave(session: Session, names: Sequence[str], pool: str) -> None:
    shown = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
    goes = "keeps" if len(names) == 1 else "keep"
    session.err.print(f"{shown} {goes} running; to cancel: bailiff cancel {names[0]} --pool {pool}", markup=False)


async def _until_ended(
    session: Session, client: Client, pool: str, jobs: Sequence[str], from_seq: int, *, follow: bool
) -> ExitCode:
    """Waits until all jobs have ended. Returns the worst of their exit codes."""
    from bailiff.render.record_text.lines import lines
    from bailiff.render.serializers.records import record_data
    from bailiff_core.model.state import PoolState
    from bailiff_core.records.decisions import JobEnded

    state, left, worst = PoolState(), dict.fromkeys(jobs), ExitCode.DONE
    async for entry, job in follow_jobs(client, pool, left, from_seq, state):
        if follow and session.for_people:
            session.show_lines(about(lines(entry.record, state), job))
        elif follow:
            session.one_of_many(record_data(entry, state))
        data = entry.record.data
        if isinstance(data, JobEnded) and data.job == job:
            if not follow:
                reason = f": {data.reason}" if data.reason else ""
                session.say(f"{job} {data.outcome}{reason}  ({pool}#{entry.record.seq})")
            worst = max(worst, OUTCOMES[data.outcome])
            left.pop(job, None)
        if not left:
            return worst
    raise AssertionError("following ends only with the jobs")


# --- attached


async def attend(session: Session, client: Client, sent: SentRequest, seq: int, port: int | None) -> ExitCode:
    """Attaches to the job: its output goes to stdout, its node and events to stderr."""
    import asyncio

    from bailiff.client.job_output import OutputFilter

    over = asyncio.Event()

    async def is_over() -> bool:
        return over.is_set()

    output = asyncio.create_task(print_output(session, client, OutputFilter(sent.job), is_over))
    try:
        code = await _events_of(session, client, sent, seq, port)
        over.set()
        await output
        return code
    except asyncio.CancelledError:
        _leave(session, [sent.job], sent.pool)
        raise
    finally:
        output.cancel()


async def _events_of(session: Session, client: Client, sent: SentRequest, seq: int, port: int | None) -> ExitCode:
    from bailiff.render.record_text.lines import lines
    from bailiff_core.model.state import PoolState
    from bailiff_core.records.decisions import JobEnded
    from bailiff_core.records.facts import TaskStarted

    state = PoolState()
    async for entry, job in follow_jobs(client, sent.pool, {sent.job: None}, seq, state):
        data = entry.record.data
        for line in about(lines(entry.record, state), job):
            session.err.print(str(line), style="dim", markup=False, highlight=False, soft_wrap=True)
        if isinstance(data, TaskStarted) and data.task == state.jobs[job].tasks[0].index:
            for sentence in where_to_reach(data.node, port):
                session.err.print(sentence, style="bold", markup=False, highlight=False, soft_wrap=True)
        if isinstance(data, JobEnded):
            return OUTCOMES[data.outcome]
    raise AssertionError("following ends only with the job")


def where_to_reach(node: str, port: int | None) -> list[str]:
    """Node and port of the job, and how to forward the port. Bailiff opens no tunnel itself."""
    if port is None:
        return [f"running on {node}"]
    return [
        f"running on {node}; its port: {node}:{port}",
        f"if {node} is not reachable from here: ssh -N -L {port}:localhost:{port} {node}",
    ]


# --- parsing options


def request_text(job: SubmitJob) -> str:
    """The request as it would be sent, as YAML."""
    return as_text({"type": job.TYPE, "data": job.to_data()}, Output.YAML)


def _topology(required: str | None, preferred: str | None) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for option, kind, text in (("topology", "required", required), ("near", "preferred", preferred)):
        if text is None:
            continue
        name, colon, level = text.partition(":")
        if not (colon and name and level):
            raise ClientError(ExitCode.USAGE, f'--{option}: expected NAME:LEVEL, as in racks:rack, found "{text}"')
        if found.setdefault("topology", name) != name:
            raise ClientError(ExitCode.USAGE, f"--near: expected a level of {found['topology']}, as in --topology, found {text}")
        found[kind] = level
    return found or None
