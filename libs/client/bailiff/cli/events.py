"""`bailiff events`: events of jobs and nodes in Kubernetes-like words, on the terminal, as JSON, or exported to a file."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bailiff.client.errors import UsageError
from bailiff_core.humanize import count_text

from .log_source import mark_end
from .session import Session, command

if TYPE_CHECKING:
    from bailiff.render.events import EventRow
    from bailiff_core.model.state import PoolState

LATEST = 20


@command("events")
async def show_events(
    session: Session,
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="Only events of this job.", show_default=False)] = None,
    of_job: Annotated[str | None, typer.Option("--job", metavar="JOB", help="The same.")] = None,
    project: Annotated[str | None, typer.Option("--project", "-p", help="Only jobs of this project and its subprojects.")] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", "-t", metavar="WORD", help="Only events of this type, as in Preempted; repeatable."),
    ] = None,
    from_seq: Annotated[
        int | None, typer.Option("--from", metavar="SEQ", help=f"First record. Default: the last {LATEST}; with --export all.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow new events.")] = False,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Write them to FILE.jsonl or FILE.csv instead.")
    ] = None,
) -> None:
    """List events of jobs and nodes: Scheduled, Started, Preempted, Reclaimed, Resumed … Times are UTC.

    Events of victims carry the Kubernetes condition DisruptionTarget, reason PreemptionByScheduler, with a message that names
    the preemptor.
    """
    from bailiff.render import events
    from bailiff_core.model.state import PoolState

    if job and of_job:
        raise UsageError("--job and JOB are mutually exclusive")
    job = job or of_job
    types = dict.fromkeys(known_word(name) for name in type_ or [])
    if export is not None and (follow or export.suffix not in WRITERS):
        text = (
            "--export and --follow are mutually exclusive"
            if follow
            else f"--export: expected a file that ends in .jsonl or .csv, found {export.name}"
        )
        raise UsageError(text)
    begin = from_seq if from_seq is not None else 0
    latest: deque[EventRow] | None = deque(maxlen=LATEST) if from_seq is None and export is None else None
    rows: list[EventRow] = []
    async with session.client() as client:
        pool = await client.pool(session.pool)
        end = (await client.audit_spans())[pool.partition].end
        state = PoolState()
        async for entry in mark_end(client.follow(pool.name, begin, state=state, on=follow), end):
            if entry is None or entry.offset >= end:
                for row in latest or ():
                    print_event(session, row)
                latest = None
            for row in events.events_of(entry.record, state) if entry is not None else ():
                if not is_wanted(row, state, job, project, types):
                    continue
                if export is not None:
                    rows.append(row)
                elif latest is not None:
                    latest.append(row)
                else:
                    print_event(session, row)
    if export is not None:
        _write(session, export, rows)


def known_word(name: str) -> str:
    """The event type, case-insensitive.

    Raises:
        ClientError: The word is unknown.
    """
    from bailiff.render.record_text.event_words import WORDS

    found = {word.lower(): word for word in WORDS}.get(name.lower())
    if found is None:
        raise UsageError(f"--type: unknown event {name!r}", f"known events: {', '.join(WORDS)}")
    return found


def is_wanted(row: EventRow, state: PoolState, job: str | None, project: str | None, types: Mapping[str, None]) -> bool:
    """Whether the event matches the filters."""
    from bailiff.render.serializers.projects import below

    if types and row["type"] not in types:
        return False
    if job is not None and row["job"] != job:
        return False
    return project is None or (bool(row["job"]) and row["project"] in below(state.rules, project))


def print_event(session: Session, row: EventRow) -> None:
    """Prints the event as a line of text, or as data."""
    from bailiff.tables.records import event_line

    if session.for_people:
        session.out.print(event_line(row), soft_wrap=True)
    else:
        session.one_of_many(row)


WRITERS = {".jsonl": "write_jsonl", ".csv": "write_csv"}  # functions of `bailiff.render.events`


def _write(session: Session, file: Path, rows: list[EventRow]) -> None:
    from bailiff.client.safe_write import replacing
    from bailiff.render import events

    with replacing(file) as raw, TextIOWrapper(raw, encoding="utf-8", newline="") as out:
        getattr(events, WRITERS[file.suffix])(out, rows)
    count = len(rows)
    session.show({"file": str(file), "events": count}, lambda: f"{file}: {count_text(count, 'event')}")
