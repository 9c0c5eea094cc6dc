"""`bailiff submit`: one job, an array of them, or one that is attended while it runs."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from bailiff import friendly
from bailiff.client import Asked, Client
from bailiff.described import in_project, named
from bailiff.eventline.lines import lines
from bailiff.present.jobs import job_state
from bailiff.present.records import record_data
from bailiff.problem import ExitCode, Problem
from bailiff_bus.messages import SubmitJob
from bailiff_core.model.pool import Pool
from bailiff_core.placement.shared_disk import unshared_checkpoints
from bailiff_core.records.decisions import JobEnded
from bailiff_core.records.facts import TaskStarted

from .jobs import ANSWER_WITHIN, PANEL, about, answered, followed_jobs, print_output
from .session import Output, Session, as_text, command

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
        list[str] | None, typer.Argument(metavar="[-- PROGRAM ARGUMENTS...]", help="What to run.", show_default=False)
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="A job file (YAML); options go before what it says.")] = None,
    name: Annotated[str | None, typer.Option(help="The job's name. Default: made from the command.")] = None,
    project: Annotated[str | None, typer.Option("--project", "-p", help="Whose quota it uses. Also: BAILIFF_PROJECT.")] = None,
    class_: Annotated[str | None, typer.Option("--class", "-c", help="The priority class.")] = None,
    gpus: Annotated[str | None, typer.Option(help="Whole GPUs per task, as in 4.")] = None,
    fraction: Annotated[str | None, typer.Option(help="A part of a GPU per task, as in 0.5.")] = None,
    gpu_memory: Annotated[str | None, typer.Option(help="So much of a GPU's memory per task, as in 4GiB.")] = None,
    gpu_devices: Annotated[int | None, typer.Option(help="That part on each of so many GPUs.")] = None,
    cpu: Annotated[str | None, typer.Option(help="Cores per task, as in 2 or 500m.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory per task, as in 8GiB.")] = None,
    tasks: Annotated[int | None, typer.Option(help="How many equal tasks.")] = None,
    min_tasks: Annotated[
        int | None, typer.Option(help="So many must run together; the others come and go. Default: all of them.")
    ] = None,
    array: Annotated[
        int | None, typer.Option(metavar="N", help="N jobs NAME-0 …, each told its number by BAILIFF_ARRAY_INDEX.")
    ] = None,
    interactive: Annotated[
        bool, typer.Option("--interactive", help="Class interactive, and stay with it: where it runs, what it prints.")
    ] = False,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="The port it serves; it is told by BAILIFF_PORT.")] = None,
    env: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="For the job's processes; repeat it.")] = None,
    secret: Annotated[
        list[str] | None, typer.Option(metavar="VARIABLE=SECRET", help="A secret by name, put in by the node.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Stands in the audit log; repeat it.")] = None,
    node_label: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only on nodes with this label.")] = None,
    gpu_model: Annotated[list[str] | None, typer.Option(metavar="MODEL", help="Only on such GPUs; any of several.")] = None,
    topology: Annotated[
        str | None, typer.Option(metavar="NAME:LEVEL", help="All tasks under one value of that level, as in racks:rack.")
    ] = None,
    near: Annotated[
        str | None, typer.Option(metavar="NAME:LEVEL", help="The same where possible; never a reason to wait.")
    ] = None,
    pack: Annotated[str | None, typer.Option(help="binpack or spread. Default: the policy's.")] = None,
    run_time_limit: Annotated[str | None, typer.Option(metavar="TIME", help="It runs no longer than this, as in 2h.")] = None,
    grace: Annotated[str | None, typer.Option(help="Time between notice and KILL, as in 30s.")] = None,
    kill_after: Annotated[str | None, typer.Option(help="The part of the grace between TERM and KILL, as in 5s.")] = None,
    preemptible: Annotated[bool | None, typer.Option(help="May others displace it? Default: as its class says.")] = None,
    on_eviction: Annotated[str | None, typer.Option(help="requeue (default) or end.")] = None,
    max_failures: Annotated[
        int | None, typer.Option(help="So many failed attempts are followed by another. Default: policy.")
    ] = None,
    on_failure: Annotated[str | None, typer.Option(help="restart (default) or end.")] = None,
    working_dir: Annotated[str | None, typer.Option(help="Where it runs on the node.")] = None,
    image: Annotated[str | None, typer.Option(help="Run it in a container of this image.")] = None,
    sim_run_for: Annotated[str | None, typer.Option(metavar="TIME", help="Simulate it: run nothing, for so long.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it has ended; the exit code says how.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="As --wait, and print what happens to it.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the request and send nothing.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long to wait for admission's answer.")] = ANSWER_WITHIN,
) -> ExitCode | None:
    """Submit a job: bailiff submit --gpus 4 --memory 8GiB --class train -- python train.py

    The tasks of a job are a gang: they get their places together. A job that does not fit waits in the queue, or
    displaces others where the policy lets its class do so.
    """
    document, source = friendly.read_job_file(file) if file is not None else ({}, friendly.Source())
    if interactive and "class" not in document and class_ is None:
        class_ = "interactive"
    if interactive and "max_failures" not in document and max_failures is None:
        max_failures = 0  # who sits before it sees that it failed
    options: dict[str, Any] = {
        "name": name, "project": project, "class": class_, "gpus": gpus, "fraction": fraction, "gpu_memory": gpu_memory,
        "gpu_devices": gpu_devices, "cpu": cpu, "memory": memory, "tasks": tasks, "min_tasks": min_tasks,
        "gpu_model": gpu_model or None, "topology": _topology(topology, near), "pack": pack, "run_time_limit": run_time_limit,
        "grace": grace, "kill_after": kill_after, "preemptible": preemptible, "on_eviction": on_eviction,
        "max_failures": max_failures, "on_failure": on_failure, "working_dir": working_dir, "image": image,
        "sim_run_for": sim_run_for,
        "command": command or None,
    }  # fmt: skip
    given = {field: value for field, value in options.items() if value is not None}
    document |= given
    in_project(document, session.settings.project)
    told = [*(env or []), *([f"{PORT}={port}"] if port is not None else [])]
    for field, texts in (("env", told), ("secrets", secret), ("labels", label), ("node_labels", node_label)):
        if texts:
            document[field] = friendly.merged(document.get(field), _pairs(field, texts))
    source = replace(source, options=frozenset(given))
    named(document)
    jobs = array_of(document, source, array) if array is not None else [friendly.job_from(document, source)]
    if interactive and array is not None:
        raise Problem(ExitCode.USAGE, "--interactive is for one job, --array for many: leave one out")
    if dry_run:
        session.out.out("---\n".join(map(friendly_request, jobs)), highlight=False, end="")
        return None
    async with session.client() as client:
        accepted = await _ask(session, client, jobs, timeout)
        await _warn(session, client, accepted[0][0].domain, jobs[0])
        if interactive:
            (asked, seq) = accepted[0]
            return await attend(session, client, asked, seq, port)
        if wait or follow:
            return await _wait(session, client, accepted, follow=follow)
        await _tell(session, client, accepted, is_array=array is not None)
    return ExitCode.DONE


def array_of(document: Mapping[str, Any], source: friendly.Source, size: int) -> list[SubmitJob]:
    """`size` jobs that differ in their name and in what they are told of their number."""
    if not 1 <= size <= LARGEST_ARRAY:
        raise Problem(ExitCode.USAGE, f"--array: expected 1 to {LARGEST_ARRAY} jobs, found {size}")
    jobs = []
    for index in range(size):
        env = friendly.merged(document.get("env"), {ARRAY_INDEX: str(index), ARRAY_SIZE: str(size)})
        jobs.append(friendly.job_from({**document, "name": f"{document['name']}-{index}", "env": env}, source))
    return jobs


Accepted = list[tuple[Asked, int]]


async def _ask(session: Session, client: Client, jobs: Sequence[SubmitJob], timeout: float) -> Accepted:
    """Submit them, in their order. Raises `Problem` for those that are rejected, after all have been answered."""
    where = await client.domain(session.domain)
    await client.view(where.name)
    accepted, refused = [], list[Problem]()
    for asked in await client.requests(where.name, jobs):
        try:
            accepted.append((asked, (await answered(client, asked, timeout)).seq))
        except Problem as problem:
            refused.append(problem)
            if problem.code is ExitCode.NO_ANSWER:
                break
    if refused:
        others = f"{len(accepted)} of {len(jobs)} jobs were accepted" if len(jobs) > 1 else ""
        texts = [*(problem.text for problem in refused[:5]), *([f"and {len(refused) - 5} more"] if len(refused) > 5 else [])]
        raise Problem(refused[-1].code, "\n".join([*texts, *([others] if others else [])]), refused[-1].advice)
    return accepted


async def _warn(session: Session, client: Client, domain: str, job: SubmitJob) -> None:
    """What its owner should know of a job that was accepted all the same."""
    problem = unshared_checkpoints((await client.view(domain)).pool, job.demand) if job.spec.runtime != "simulated" else None
    if problem is not None:
        session.err.print(f"warning: {problem}", style="yellow", markup=False, highlight=False, soft_wrap=True)


async def _tell(session: Session, client: Client, accepted: Accepted, *, is_array: bool) -> None:
    results, said = [], []
    pool = (await client.view(accepted[0][0].domain)).pool
    ahead = {name: at for at, name in enumerate(name for name in pool.queue if name not in pool.active)}
    for asked, seq in accepted:
        found = pool.jobs.get(asked.job)
        state = job_state(found) if found is not None else "accepted"
        results.append({"job": asked.job, "pool": asked.domain, "seq": seq, "request_id": asked.id, "state": state})
        waits = f", {ahead[asked.job]} ahead of it" if asked.job in ahead else ""
        said.append(f"{asked.job} accepted as {asked.domain}#{seq}, {state}{waits}")
    session.show(results if is_array else results[0], lambda: "\n".join(said))


async def _wait(session: Session, client: Client, accepted: Accepted, *, follow: bool) -> ExitCode:
    names = [asked.job for asked, _ in accepted]
    domain = accepted[0][0].domain
    if session.for_people and not follow:
        for asked, seq in accepted:
            session.say(f"{asked.job} accepted as {domain}#{seq}; waiting until it has ended")
    try:
        return await _until_ended(session, client, domain, names, min(seq for _, seq in accepted), follow=follow)
    except asyncio.CancelledError:  # Ctrl-C
        _leave(session, names, domain)
        raise


def _leave(session: Session, names: Sequence[str], domain: str) -> None:
    shown = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
    goes = "goes" if len(names) == 1 else "go"
    session.err.print(f"{shown} {goes} on without you; to end it: bailiff cancel {names[0]} -d {domain}", markup=False)


async def _until_ended(
    session: Session, client: Client, domain: str, jobs: Sequence[str], from_seq: int, *, follow: bool
) -> ExitCode:
    """The worst of the jobs' outcomes."""
    pool, left, worst = Pool(), dict.fromkeys(jobs), ExitCode.DONE
    async for entry, job in followed_jobs(client, domain, left, from_seq, pool):
        if follow and session.for_people:
            session.show_lines(about(lines(entry.record, pool), job))
        elif follow:
            session.one_of_many(record_data(entry, pool))
        data = entry.record.data
        if isinstance(data, JobEnded) and data.job == job:
            if not follow:
                reason = f": {data.reason}" if data.reason else ""
                session.say(f"{job} {data.outcome}{reason}  ({domain}#{entry.record.seq})")
            worst = max(worst, OUTCOMES[data.outcome])
            left.pop(job, None)
        if not left:
            return worst
    raise AssertionError("following ends only with the jobs")


# --- staying with one job


async def attend(session: Session, client: Client, asked: Asked, seq: int, port: int | None) -> ExitCode:
    """What the job prints goes to stdout; where it runs, and what happens to it, to stderr."""
    over = asyncio.Event()

    async def is_over() -> bool:
        return over.is_set()

    output = asyncio.create_task(print_output(session, client, asked.job, is_over))
    try:
        code = await _events_of(session, client, asked, seq, port)
        over.set()
        await output
        return code
    except asyncio.CancelledError:
        _leave(session, [asked.job], asked.domain)
        raise
    finally:
        output.cancel()


async def _events_of(session: Session, client: Client, asked: Asked, seq: int, port: int | None) -> ExitCode:
    pool = Pool()
    async for entry, job in followed_jobs(client, asked.domain, {asked.job: None}, seq, pool):
        data = entry.record.data
        for line in about(lines(entry.record, pool), job):
            session.err.print(str(line), style="dim", markup=False, highlight=False, soft_wrap=True)
        if isinstance(data, TaskStarted) and data.task == pool.jobs[job].tasks[0].index:
            for sentence in where_to_reach(data.node, port):
                session.err.print(sentence, style="bold", markup=False, highlight=False, soft_wrap=True)
        if isinstance(data, JobEnded):
            return OUTCOMES[data.outcome]
    raise AssertionError("following ends only with the job")


def where_to_reach(node: str, port: int | None) -> list[str]:
    """Where the job runs, and how to get to its port. Bailiff itself opens no way there."""
    if port is None:
        return [f"it runs on {node}"]
    return [
        f"it runs on {node}; once it serves, it is at {node}:{port}",
        f"Bailiff opens no tunnel. Where {node} cannot be reached from here: ssh -N -L {port}:localhost:{port} {node}",
    ]


# --- what was typed


def friendly_request(job: SubmitJob) -> str:
    """The request as it would be sent."""
    return as_text({"type": job.TYPE, "data": job.to_data()}, Output.YAML)


def _topology(required: str | None, preferred: str | None) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for option, kind, text in (("topology", "required", required), ("near", "preferred", preferred)):
        if text is None:
            continue
        name, colon, level = text.partition(":")
        if not (colon and name and level):
            raise Problem(ExitCode.USAGE, f'--{option}: expected NAME:LEVEL, as in racks:rack, found "{text}"')
        if found.setdefault("topology", name) != name:
            raise Problem(ExitCode.USAGE, f"--near: expected a level of {found['topology']}, as --topology says, found {text}")
        found[kind] = level
    return found or None


def _pairs(field: str, texts: list[str]) -> dict[str, str]:
    try:
        return dict(friendly.pair(text) for text in texts)
    except friendly.Unfriendly as error:
        option = {"secrets": "secret", "labels": "label"}.get(field, field).replace("_", "-")
        raise Problem(ExitCode.USAGE, f"--{option}: {error}") from None
