"""`bailiff events`: what happened, in words that people know; for the screen, for programs, into a file."""

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from bailiff import events
from bailiff.problem import ExitCode, Problem
from bailiff.projects import below
from bailiff.tables.records import event_line
from bailiff_core.model.pool import Pool
from bailiff_core.words import count_text

from .audit import PANEL, with_end
from .session import Session, command

LATEST = 20


def register(app: typer.Typer) -> None:
    """Add the command to the root."""
    command(app, "events", rich_help_panel=PANEL)(show_events)


async def show_events(
    session: Session,
    job: Annotated[str | None, typer.Option(help="Only about this job.")] = None,
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="Only about jobs of this project and those below.")
    ] = None,
    type_: Annotated[
        list[str] | None, typer.Option("--type", "-t", metavar="WORD", help="Only such events, as in Preempted; repeat it.")
    ] = None,
    from_seq: Annotated[
        int | None,
        typer.Option("--from", metavar="SEQ", help=f"Begin at this record. Default: the last {LATEST}; with --export all."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens.")] = False,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Write them into FILE.jsonl or FILE.csv instead.")
    ] = None,
) -> None:
    """What happened to jobs and machines: Scheduled, Started, Preempted, Reclaimed, Resumed … Times are UTC.

    Victims carry the condition that Kubernetes has: DisruptionTarget, reason PreemptionByScheduler, and a message that
    names who they left for.
    """
    types = dict.fromkeys(known_word(name) for name in type_ or [])
    if export is not None and (follow or export.suffix not in WRITERS):
        text = (
            "--export writes what there is: leave --follow out"
            if follow
            else f"--export: expected a file that ends in .jsonl or .csv, found {export.name}"
        )
        raise Problem(ExitCode.USAGE, text)
    begin = from_seq if from_seq is not None else 0
    latest: deque[events.EventRow] | None = deque(maxlen=LATEST) if from_seq is None and export is None else None
    rows: list[events.EventRow] = []
    async with session.client() as client:
        where = await client.domain(session.domain)
        end = (await client.audit_spans())[where.partition].end
        pool = Pool()
        async for entry in with_end(client.follow(where.name, begin, pool=pool, on=follow), end):
            if entry is None or entry.offset >= end:
                for row in latest or ():
                    tell(session, row)
                latest = None
            for row in events.events_of(entry.record, pool) if entry is not None else ():
                if not is_wanted(row, pool, job, project, types):
                    continue
                if export is not None:
                    rows.append(row)
                elif latest is not None:
                    latest.append(row)
                else:
                    tell(session, row)
    if export is not None:
        _write(session, export, rows)


def known_word(name: str) -> str:
    """The event's word, in whichever case it was typed."""
    found = {word.lower(): word for word in events.WORDS}.get(name.lower())
    if found is None:
        raise Problem(ExitCode.USAGE, f"--type: there is no event {name!r}", f"there are: {', '.join(events.WORDS)}")
    return found


def is_wanted(row: events.EventRow, pool: Pool, job: str | None, project: str | None, types: Mapping[str, None]) -> bool:
    """Whether the event is asked for."""
    if types and row["type"] not in types:
        return False
    if job is not None and row["job"] != job:
        return False
    return project is None or (bool(row["job"]) and row["project"] in below(pool.rules, project))


def tell(session: Session, row: events.EventRow) -> None:
    """A line for people, or the data."""
    if session.for_people:
        session.out.print(event_line(row), soft_wrap=True)
    else:
        session.one_of_many(row)


WRITERS = {".jsonl": events.write_jsonl, ".csv": events.write_csv}


def _write(session: Session, file: Path, rows: list[events.EventRow]) -> None:
    draft = file.with_name(f"{file.name}.draft")
    try:
        with draft.open("w", encoding="utf-8", newline="") as out:
            WRITERS[file.suffix](out, rows)
        draft.replace(file)
    except OSError as error:
        raise Problem(ExitCode.USAGE, f"{file}: cannot be written: {error.strerror}") from None
    count = len(rows)
    session.show({"file": str(file), "events": count}, lambda: f"{file}: {count_text(count, 'event')}")
