"""Commands about submitted jobs: list, describe, logs, cancel; and helpers shared by other commands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bailiff.client.errors import ClientError, ExitCode
from bailiff.render.plain_text import harmless_output, plain

from .session import Session, command

if TYPE_CHECKING:
    from bailiff.client.client import Client, Outcome, SentRequest
    from bailiff.render.record_text.line import Line
    from bailiff.render.serializers.jobs import JobRow
    from bailiff_bus.messages import RequestBody
    from bailiff_bus.port import Message
    from bailiff_core.model.state import PoolState
    from bailiff_core.records import Record
    from bailiff_log.reader import Entry

PANEL = "Jobs"
ANSWER_WITHIN = 10.0
LOG_WAIT = 0.3


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    command(app, "list", rich_help_panel=PANEL)(list_jobs)
    command(app, rich_help_panel=PANEL)(describe)
    command(app, rich_help_panel=PANEL, leave_out=("output",))(logs)
    command(app, rich_help_panel=PANEL)(cancel)
    command(app, rich_help_panel=PANEL)(delete)


# --- shared by commands about jobs


async def follow_jobs(
    client: Client, pool: str, jobs: Mapping[str, object], from_seq: int, state: PoolState
) -> AsyncIterator[tuple[Entry, str]]:
    """Records about these jobs from `from_seq` on, each with the job. `state` is folded to each record."""
    from bailiff_core.explain import jobs_of

    async for entry in client.follow(pool, from_seq, state=state):
        for job in sorted(jobs_of(entry.record).keys() & jobs.keys()):
            yield entry, job


def about(found: list[Line], job: str) -> list[Line]:
    """The line of a preemption about this victim; for its preemptor, and for any other record, all lines."""
    return [
        line for line in found if "→" in line.statement.subject and line.statement.subject.startswith((f"{job} ", f"{job}/"))
    ] or found


async def require_accepted(client: Client, sent: SentRequest, timeout: float = ANSWER_WITHIN) -> Outcome:
    """The outcome of an accepted request. Raises `ClientError` if it is rejected, or has no outcome within `timeout` seconds."""
    outcome = await client.outcome_of(sent, timeout)
    if outcome is None:
        text = f"the request was published, but admission of {sent.pool} did not respond within {timeout:g} s"
        advice = f"it takes effect once admission runs again; check with: bailiff list --pool {sent.pool}, bailiff doctor"
        raise ClientError(ExitCode.NO_ANSWER, text, advice)
    if not outcome.accepted:
        what = f"{sent.job}: " if sent.job else ""
        raise ClientError(ExitCode.REJECTED, what + rejected(f"{sent.pool}#{outcome.seq}", outcome))
    return outcome


async def request_each(session: Session, bodies: Sequence[RequestBody], result_text: Callable[[str, Outcome], str]) -> ExitCode:
    """Publishes these requests and prints the outcome of each. result_text: of an outcome and its record, as in `pool-a#12`."""
    worst = ExitCode.DONE
    results: list[dict[str, Any]] = []
    async with session.client() as client:
        where = await client.pool(session.pool)
        await client.projection(where.name)
        for sent in await client.requests(where.name, bodies):
            outcome = await client.outcome_of(sent, ANSWER_WITHIN)
            found = {"job": sent.job, "pool": sent.pool, "accepted": False, "seq": None}
            if outcome is None:
                found["result"] = "no response from admission yet; the request was published"
                worst = ExitCode.NO_ANSWER
            else:
                found |= {"accepted": outcome.accepted, "seq": outcome.seq}
                found["result"] = result_text(f"{sent.pool}#{outcome.seq}", outcome)
                worst = worst if outcome.accepted else ExitCode.REJECTED
            results.append(found)
    if session.for_people:
        for result in results:
            session.say(f"{result['job']}: {result['result']}", "" if result["accepted"] else "red")
    else:
        session.show(results, lambda: "")
    return worst


def rejected(where: str, outcome: Outcome) -> str:
    """Text of a rejection. where: its record, as in `pool-a#12`."""
    return f"rejected at {where}: {outcome.reason} ({outcome.code})"


# --- list and describe


async def list_jobs(
    session: Session,
    all_: Annotated[bool, typer.Option("--all", "-a", help="Include jobs that have ended.")] = False,
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="Only this project and its subprojects. Also: BAILIFF_PROJECT.")
    ] = None,
    all_projects: Annotated[
        bool, typer.Option("--all-projects", "-A", help="All projects, even if BAILIFF_PROJECT is set.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh whenever it changes.")] = False,
) -> None:
    """List jobs: active jobs first, then pending jobs in queue order. # is the number of pending jobs ahead.

    TRY is the attempt, EVICTED the number of evictions. GPUS is the total of the gang. With -o wide also the project, the
    placed and total tasks (and the minimum), and the nodes on which resources are reserved.
    """
    from bailiff.render.serializers.jobs import job_rows
    from bailiff.render.tables.jobs import jobs_table

    project_name = None if all_projects else project or session.settings.project
    async with session.client() as client:

        async def look() -> list[JobRow]:
            projection = await client.projection(session.pool)
            if project_name is not None and all(project_name != each.name for each in projection.state.rules.projects):
                raise no_such_project(projection.state, project_name)
            return job_rows(projection.state, client.now(), ended=all_, project=project_name)

        wide = session.output.value == "wide"
        await watch_or_show(session, look, lambda rows: jobs_table(rows, wide=wide), watch=watch)


async def watch_or_show(session: Session, look: Any, table: Any, *, watch: bool) -> None:
    """Shows the result of `look` once, or with `watch` on each change."""
    if watch:
        await session.watch(look, table)
    else:
        data = await look()
        session.show(data, lambda: table(data))


async def describe(
    session: Session,
    job: Annotated[str, typer.Argument(help="The job's name.")],
    show_events: Annotated[bool, typer.Option("--show-events", "-e", help="Include all records about the job.")] = False,
) -> None:
    """Show one job: its state, why it is pending, where its tasks run, and its history."""
    from bailiff.render.record_text.line import Line
    from bailiff.render.record_text.lines import lines
    from bailiff.render.serializers.jobs import job_details
    from bailiff.render.tables.jobs import job_block
    from bailiff_core.explain import jobs_of
    from bailiff_core.model.state import PoolState
    from bailiff_core.records import Record

    async with session.client() as client:
        state, history, text_lines = PoolState(), list[Record](), list[Line]()
        async for entry in client.follow(session.pool, state=state, on=False):
            if job in jobs_of(entry.record):
                history.append(entry.record)
                text_lines += about(lines(entry.record, state), job)
        found = state.jobs.get(job)
        if found is None:
            where = await client.pool(session.pool)
            raise no_such_job(job, where.name, history)
        events = [f"{line.day} {line}" for line in text_lines]
        details = job_details(state, found, client.now(), history, events if show_events else [])
        session.show(details, lambda: job_block(details))
        if show_events and session.for_people:
            session.out.print()
            session.show_lines(text_lines)


def no_such_project(state: PoolState, project: str) -> ClientError:
    """The error for an unknown project."""
    known = ", ".join(each.name for each in state.rules.projects) or "none"
    return ClientError(ExitCode.NOT_FOUND, f"there is no project {project!r} in {state.pool}", f"existing projects: {known}")


def no_such_job(job: str, pool: str, history: Sequence[Record] = ()) -> ClientError:
    """The error for a job that is not in the pool's state. history: its records."""
    from bailiff_core.records.facts import InputRejected

    last = history[-1].data if history else None
    if isinstance(last, InputRejected):
        text = f"there is no job {job!r} in {pool}: it was rejected at #{history[-1].seq}: {last.reason}"
        return ClientError(ExitCode.NOT_FOUND, text, "list all: bailiff list --all")
    if history:
        advice = f"its records: bailiff audit tail --from 0 --job {job}"
        return ClientError(ExitCode.NOT_FOUND, f"{job} has ended and is no longer retained in the state of {pool}", advice)
    return ClientError(ExitCode.NOT_FOUND, f"there is no job {job!r} in {pool}", "list all: bailiff list --all")


# --- logs


async def logs(
    session: Session,
    job: Annotated[str, typer.Argument(help="The job's name.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow until the job has ended.")] = False,
    task: Annotated[int | None, typer.Option(help="Only this task's lines.")] = None,
    attempt: Annotated[int | None, typer.Option(help="Only this attempt's lines.")] = None,
) -> ExitCode | None:
    """Print the output of a job's tasks, as far as it is retained (one day). With several tasks, each line is prefixed with its
    task.
    """
    async with session.client() as client:
        projection = await client.projection(session.pool)
        known = projection.state.jobs.get(job)

        async def is_over() -> bool:
            if not follow:
                return True
            state = (await client.projection(session.pool)).state
            return job not in state.jobs or job in state.ended

        printed = await print_output(session, client, job, is_over, task=task, attempt=attempt)
        if not printed and known is None:
            raise no_such_job(job, projection.pool)
        if not printed:
            session.err.print(f"{job} has no retained output", style="dim", markup=False)
    return None


async def print_output(
    session: Session,
    client: Client,
    job: str,
    is_over: Callable[[], Awaitable[bool]],
    *,
    task: int | None = None,
    attempt: int | None = None,
) -> bool:
    """Prints the retained output of the job's tasks, then new output until `is_over`. Returns whether there was any."""
    from bailiff.client.requester import check_may_read_output
    from bailiff_bus import topics

    spans = await client.spans(topics.JOB_LOGS.name)
    projection = await client.projection(session.pool)
    check_may_read_output(client, projection.state, job)
    known = projection.state.jobs.get(job)
    printed, over = Printed(task is None and known is not None and known.size > 1), False
    reader = await client.bus.reader([(topics.JOB_LOGS.name, partition, span.begin) for partition, span in spans.items()])
    try:
        while True:
            messages = await reader.read(wait=LOG_WAIT)
            for message in messages:
                if wanted(message, projection.pool, job, task, attempt):
                    session.out.out(printed.text(message), highlight=False, end="")
            if messages or not all(reader.position(topics.JOB_LOGS.name, number) >= span.end for number, span in spans.items()):
                continue
            if over:
                return bool(printed.places)
            over = await is_over()  # read once more, for the last output
    finally:
        await reader.close()


def wanted(message: Message, pool: str, job: str, task: int | None, attempt: int | None) -> bool:
    """Whether the message is output of this pool's job, task and attempt."""
    at = dict(message.headers)
    return (
        (message.key or b"").decode(errors="replace") == job
        and at.get("ce_pool", pool.encode()) == pool.encode()
        and (task is None or at.get("ce_task") == str(task).encode())
        and (attempt is None or at.get("ce_attempt") == str(attempt).encode())
    )


class Printed:
    """Tracks printed output by offset: an agent that was restarted sends some of it again."""

    def __init__(self, named: bool) -> None:
        self.named = named
        self.places: dict[tuple[bytes, ...], int] = {}

    def text(self, message: Message) -> str:
        """New output in the message, without control sequences except colours. named: each line is prefixed with its task."""
        at = dict(message.headers)
        place = tuple(at.get(name, b"") for name in ("ce_attempt", "ce_task", "ce_node"))
        known, offset = self.places.get(place, 0), at.get("ce_offset", b"")
        begin = int(offset) if offset.isdigit() else known
        new = message.value[max(0, known - begin) :]
        self.places[place] = max(known, begin + len(message.value))
        text = new.decode(errors="replace")
        if not self.named:
            return harmless_output(text, colours=True)
        head = f"[{place[1].decode(errors='replace')} {plain(place[2].decode(errors='replace'))}] "
        return "".join(f"{head}{harmless_output(line, colours=True)}\n" for line in text.splitlines())


# --- cancel


Jobs = Annotated[list[str], typer.Argument(metavar="JOB...", help="The jobs' names.")]
Reason = Annotated[str, typer.Option(help="Recorded in the audit log.")]


async def delete(session: Session, job: Jobs, reason: Reason = "") -> ExitCode | None:
    """Alias of cancel. The records about the jobs are kept."""
    return await cancel(session, job, reason)


async def cancel(session: Session, job: Jobs, reason: Reason = "") -> ExitCode | None:
    """Cancel jobs, pending or running. Running tasks are notified and get their grace period."""
    from bailiff_bus.messages import CancelJob

    return await request_each(session, [CancelJob(job=name, reason=reason) for name in job], _cancelled)


def _cancelled(where: str, outcome: Outcome) -> str:
    if outcome.accepted:
        return f"cancel accepted as {where}"
    return f"no effect: {outcome.reason}" if outcome.code == "already-ended" else rejected(where, outcome)
