"""Commands about jobs: submit, list, describe, logs, cancel."""

import asyncio
import re
import secrets
import string
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from bailiff import friendly, present, tables
from bailiff.client import Asked, Client, Outcome
from bailiff.eventline import Line, jobs_of, lines, plain
from bailiff.problem import ExitCode, Problem
from bailiff_bus import topics
from bailiff_bus.messages import SubmitJob
from bailiff_bus.port import Message
from bailiff_core.model.pool import Pool
from bailiff_core.records import Record
from bailiff_core.records.decisions import JobEnded

from .session import Output, Session, as_text, command

PANEL = "Jobs"
ANSWER_WITHIN = 10.0
LOG_WAIT = 0.3
OUTCOMES = {
    "succeeded": ExitCode.DONE, "failed": ExitCode.JOB_FAILED, "evicted": ExitCode.JOB_FAILED,
    "cancelled": ExitCode.JOB_CANCELLED,
}  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    command(app, rich_help_panel=PANEL, context_settings={"allow_interspersed_args": False})(submit)
    command(app, "list", rich_help_panel=PANEL)(list_jobs)
    command(app, rich_help_panel=PANEL)(describe)
    command(app, rich_help_panel=PANEL, leave_out=("output",))(logs)
    command(app, rich_help_panel=PANEL)(cancel)


# --- submit


async def submit(
    session: Session,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- PROGRAM ARGUMENTS...]", help="What to run.", show_default=False)
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="A job file (YAML); options go before what it says.")] = None,
    name: Annotated[str | None, typer.Option(help="The job's name. Default: made from the command.")] = None,
    gpus: Annotated[str | None, typer.Option(help="GPUs per task, as in 4.")] = None,
    tasks: Annotated[int | None, typer.Option(help="How many equal tasks; they run together or not at all.")] = None,
    cpu: Annotated[str | None, typer.Option(help="Cores per task, as in 2 or 500m.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory per task, as in 8GiB.")] = None,
    class_: Annotated[str | None, typer.Option("--class", "-c", help="The priority class.")] = None,
    env: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="For the job's processes; repeat it.")] = None,
    secret: Annotated[
        list[str] | None, typer.Option(metavar="VARIABLE=SECRET", help="A secret by name, put in by the node.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Stands in the audit log; repeat it.")] = None,
    node_label: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only on nodes with this label.")] = None,
    gpu_model: Annotated[list[str] | None, typer.Option(metavar="MODEL", help="Only on such GPUs; any of several.")] = None,
    grace: Annotated[str | None, typer.Option(help="Time between notice and KILL, as in 30s.")] = None,
    preemptible: Annotated[bool | None, typer.Option(help="May others displace it? Default: as its class says.")] = None,
    max_failures: Annotated[int | None, typer.Option(help="Start it again after so many failed attempts.")] = None,
    working_dir: Annotated[str | None, typer.Option(help="Where it runs on the node.")] = None,
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
    options: dict[str, Any] = {
        "name": name, "gpus": gpus, "tasks": tasks, "cpu": cpu, "memory": memory, "class": class_,
        "gpu_model": gpu_model or None, "grace": grace, "preemptible": preemptible, "max_failures": max_failures,
        "working_dir": working_dir, "sim_run_for": sim_run_for, "command": command or None,
    }  # fmt: skip
    given = {field: value for field, value in options.items() if value is not None}
    document |= given
    for field, texts in (("env", env), ("secrets", secret), ("labels", label), ("node_labels", node_label)):
        if texts:
            document[field] = friendly.merged(document.get(field), _pairs(field, texts))
    source = replace(source, options=frozenset(given))
    if "name" not in document:
        document["name"] = made_name(document.get("command"))
    job = friendly.job_from(document, source)
    if dry_run:
        session.out.out(friendly_request(job), highlight=False, end="")
        return None
    async with session.client() as client:
        return await _submit(session, client, job, timeout, wait=wait or follow, follow=follow)


async def _submit(session: Session, client: Client, job: SubmitJob, timeout: float, *, wait: bool, follow: bool) -> ExitCode:
    where = await client.domain(session.domain)
    await client.view(where.name)
    asked = await client.request(where.name, job)
    outcome = await answered(client, asked, timeout)
    name = job.demand.job
    if not wait:
        pool = (await client.view(where.name)).pool
        found = pool.jobs.get(name)
        state = present.state_of(found) if found is not None else "accepted"
        result = {"job": name, "pool": where.name, "seq": outcome.seq, "request_id": asked.id, "state": state}
        ahead = f", {pool.queue.index(name)} ahead of it" if name in pool.queue else ""
        session.show(result, lambda: f"{name} accepted as {where.name}#{outcome.seq}, {state}{ahead}")
        return ExitCode.DONE
    if session.for_people and not follow:
        session.say(f"{name} accepted as {where.name}#{outcome.seq}; waiting until it has ended")
    try:
        return await _until_ended(session, client, where.name, name, outcome.seq, follow=follow)
    except asyncio.CancelledError:  # Ctrl-C
        session.err.print(f"{name} goes on without you; to end it: bailiff cancel {name} -d {where.name}", markup=False)
        raise


async def _until_ended(session: Session, client: Client, domain: str, job: str, from_seq: int, *, follow: bool) -> ExitCode:
    pool = Pool()
    async for entry in client.follow(domain, from_seq, pool=pool):
        if job not in jobs_of(entry.record):
            continue
        if follow and session.for_people:
            session.show_lines(about(lines(entry.record, pool), job))
        elif follow:
            session.one_of_many(present.record(entry, pool))
        data = entry.record.data
        if isinstance(data, JobEnded) and data.job == job:
            if not follow:
                reason = f": {data.reason}" if data.reason else ""
                session.say(f"{job} {data.outcome}{reason}  ({domain}#{entry.record.seq})")
            return OUTCOMES[data.outcome]
    raise AssertionError("following ends only with the job")


def about(found: list[Line], job: str) -> list[Line]:
    """Of a preemption's lines, the one for this victim; for its asker, and for any other record, all."""
    return [line for line in found if "→" in line.said.who and line.said.who.startswith((f"{job} ", f"{job}/"))] or found


async def answered(client: Client, asked: Asked, timeout: float = ANSWER_WITHIN) -> Outcome:
    """Admission's answer. Raises `Problem` for a rejection, and for none in time."""
    outcome = await client.outcome_of(asked, timeout)
    if outcome is None:
        text = f"the request is in Kafka, but admission of {asked.domain} has not answered within {timeout:g} s"
        advice = f"it takes effect when admission comes back; look with: bailiff list -d {asked.domain}, bailiff doctor"
        raise Problem(ExitCode.NO_ANSWER, text, advice)
    if not outcome.accepted:
        what = f"{asked.job}: " if asked.job else ""
        text = f"{what}rejected at {asked.domain}#{outcome.seq}: {outcome.reason} ({outcome.code})"
        raise Problem(ExitCode.REJECTED, text)
    return outcome


def friendly_request(job: SubmitJob) -> str:
    """The request as it would be sent."""
    return as_text({"type": job.TYPE, "data": job.to_data()}, Output.YAML)


def made_name(command: object) -> str:
    """`train-x3k9` for `python train.py`."""
    words = command.split() if isinstance(command, str) else [str(word) for word in command] if isinstance(command, list) else []
    scripts = [word for word in words if word.endswith((".py", ".sh"))]
    stem = Path(scripts[0] if scripts else words[0] if words else "job").stem
    base = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:50] or "job"
    return f"{base}-{''.join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(4))}"


def _pairs(field: str, texts: list[str]) -> dict[str, str]:
    try:
        return dict(friendly.pair(text) for text in texts)
    except friendly.Unfriendly as error:
        option = {"secrets": "secret", "labels": "label"}.get(field, field).replace("_", "-")
        raise Problem(ExitCode.USAGE, f"--{option}: {error}") from None


# --- list and describe


async def list_jobs(
    session: Session,
    all_: Annotated[bool, typer.Option("--all", "-a", help="Also jobs that have ended.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again whenever it changes.")] = False,
) -> None:
    """Jobs in queue order: first those with room, then those that wait; # is how many wait before it.

    TRY is the attempt, EVICTED how often it had to leave. GPUS is the whole gang's.
    """
    async with session.client() as client:

        async def look() -> list[present.JobRow]:
            view = await client.view(session.domain)
            return present.jobs(view.pool, client.now(), ended=all_)

        wide = session.output.value == "wide"
        await shown(session, look, lambda rows: tables.jobs(rows, wide=wide), watch=watch)


async def shown(session: Session, look: Any, table: Any, *, watch: bool) -> None:
    """Show what `look` gives, once or for as long as it is watched."""
    if watch:
        await session.watch(look, table)
    else:
        data = await look()
        session.show(data, lambda: table(data))


async def describe(
    session: Session,
    job: Annotated[str, typer.Argument(help="The job's name.")],
    show_events: Annotated[bool, typer.Option("--show-events", "-e", help="Also everything on record about it.")] = False,
) -> None:
    """All about one job: where it stands, why it waits, where its tasks run, what happened to it."""
    async with session.client() as client:
        pool, history, told = Pool(), list[Record](), list[Line]()
        async for entry in client.follow(session.domain, pool=pool, on=False):
            if job in jobs_of(entry.record):
                history.append(entry.record)
                told += about(lines(entry.record, pool), job)
        found = pool.jobs.get(job)
        if found is None:
            where = await client.domain(session.domain)
            raise no_such_job(job, where.name, bool(history))
        events = [f"{line.day} {line}" for line in told]
        details = present.job_details(pool, found, client.now(), history, events if show_events else [])
        session.show(details, lambda: tables.job(details))
        if show_events and session.for_people:
            session.out.print()
            session.show_lines(told)


def no_such_job(job: str, domain: str, forgotten: bool) -> Problem:
    """The job is not in the pool's state."""
    if forgotten:
        advice = f"what is on record: bailiff audit tail --from 0 --job {job}"
        return Problem(ExitCode.NOT_FOUND, f"{job} ended long ago and is no longer in the state of {domain}", advice)
    return Problem(ExitCode.NOT_FOUND, f"there is no job {job!r} in {domain}", "those that are there: bailiff list --all")


# --- logs


async def logs(
    session: Session,
    job: Annotated[str, typer.Argument(help="The job's name.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    task: Annotated[int | None, typer.Option(help="Only this task's lines.")] = None,
    attempt: Annotated[int | None, typer.Option(help="Only this attempt's lines.")] = None,
) -> ExitCode | None:
    """What the job's tasks have printed, as far as it is kept (a day). With several tasks, each line names its own."""
    async with session.client() as client:
        spans = await client.spans(topics.JOB_LOGS.name)
        view = await client.view(session.domain)
        known = view.pool.jobs.get(job)
        several = task is None and known is not None and known.size > 1
        reader = await client.bus.reader([(topics.JOB_LOGS.name, partition, span.begin) for partition, span in spans.items()])
        printed, over = Printed(several), False
        try:
            while True:
                messages = await reader.read(wait=LOG_WAIT)
                for message in messages:
                    if wanted(message, job, task, attempt):
                        session.out.out(printed.text(message), highlight=False, end="")
                if messages:
                    continue
                at_end = all(reader.position(topics.JOB_LOGS.name, number) >= span.end for number, span in spans.items())
                if over or (at_end and not follow):
                    break
                pool = (await client.view(session.domain)).pool
                over = follow and (job not in pool.jobs or job in pool.ended)  # one more look, for its last words
        finally:
            await reader.close()
        if not printed.places and known is None:
            raise no_such_job(job, view.domain, forgotten=False)
        if not printed.places:
            session.err.print(f"{job} has printed nothing that is kept", style="dim", markup=False)
    return None


def wanted(message: Message, job: str, task: int | None, attempt: int | None) -> bool:
    """Whether these lines are asked for."""
    at = dict(message.headers)
    return (
        (message.key or b"").decode(errors="replace") == job
        and (task is None or at.get("ce_task") == str(task).encode())
        and (attempt is None or at.get("ce_attempt") == str(attempt).encode())
    )


CONTROL = re.compile(r"\x1b\[[0-9;]*m|[^\x20-\x7e\t\n\r\x85\xa0-\U0010ffff]")


class Printed:
    """What of the job's output has been printed. An agent that was restarted sends some of it again, by its offsets."""

    def __init__(self, named: bool) -> None:
        self.named = named
        self.places: dict[tuple[bytes, ...], int] = {}

    def text(self, message: Message) -> str:
        """What is new in the message, with nothing that a terminal obeys but colours; named: each line with its task."""
        at = dict(message.headers)
        place = tuple(at.get(name, b"") for name in ("ce_attempt", "ce_task", "ce_node"))
        known, offset = self.places.get(place, 0), at.get("ce_offset", b"")
        begin = int(offset) if offset.isdigit() else known
        new = message.value[max(0, known - begin) :]
        self.places[place] = max(known, begin + len(message.value))
        text = CONTROL.sub(_harmless, new.decode(errors="replace"))
        if not self.named:
            return text
        head = f"[{place[1].decode(errors='replace')} {plain(place[2].decode(errors='replace'))}] "
        return "".join(f"{head}{line}\n" for line in text.splitlines())


def _harmless(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith("\x1b[") else "�"


# --- cancel


async def cancel(
    session: Session,
    job: Annotated[list[str], typer.Argument(metavar="JOB...", help="The jobs' names.")],
    reason: Annotated[str, typer.Option(help="Stands in the audit log.")] = "",
) -> ExitCode | None:
    """End jobs, whatever they are doing. What runs is told, and has its grace."""
    worst = ExitCode.DONE
    results: list[dict[str, Any]] = []
    async with session.client() as client:
        where = await client.domain(session.domain)
        await client.view(where.name)
        asked = [await client.cancel(name, reason=reason, domain=where.name) for name in job]
        for each in asked:
            outcome = await client.outcome_of(each, ANSWER_WITHIN)
            results.append(_cancel_result(each, outcome))
            if outcome is None or not outcome.accepted:
                worst = ExitCode.NO_ANSWER if outcome is None else ExitCode.REJECTED
    if session.for_people:
        for result in results:
            session.say(f"{result['job']}: {result['result']}", "" if result["accepted"] else "red")
    else:
        session.show(results, lambda: "")
    return worst


def _cancel_result(asked: Asked, outcome: Outcome | None) -> dict[str, Any]:
    if outcome is None:
        said = "no answer yet from admission; the request is in Kafka"
    elif outcome.accepted:
        said = f"cancel accepted as {asked.domain}#{outcome.seq}"
    else:
        said = f"rejected at {asked.domain}#{outcome.seq}: {outcome.reason} ({outcome.code})"
    accepted = outcome is not None and outcome.accepted
    return {"job": asked.job, "pool": asked.domain, "accepted": accepted, "seq": outcome.seq if outcome else None, "result": said}
