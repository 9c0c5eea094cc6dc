"""Commands about the audit log: tail, show, verify, replay, export. None of them trusts a service: only the log counts."""

import sys
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from bailiff import present, tables, walk
from bailiff.eventline import Line, lines
from bailiff.logfile import LogFile, write_log
from bailiff.problem import ExitCode, Problem
from bailiff_bus import topics
from bailiff_bus.log import Entry
from bailiff_bus.port import Message
from bailiff_core.explain import jobs_of
from bailiff_core.model.pool import Pool
from bailiff_core.records import AUDIT_TYPES

from .session import Session, command

PANEL = "The record"
LATEST = 20

FromFile = Annotated[Path | None, typer.Option("--file", "-f", help="An exported log instead of Kafka's.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    audit = typer.Typer(help="Read, verify and replay the record of every decision.", no_args_is_help=True)
    command(audit)(tail)
    command(audit)(show)
    command(audit)(verify)
    command(audit)(replay)
    command(audit, leave_out=("output",))(export)
    app.add_typer(audit, name="audit", rich_help_panel=PANEL)


async def tail(
    session: Session,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is appended.")] = False,
    from_seq: Annotated[
        int | None, typer.Option("--from", metavar="SEQ", help=f"Begin at this record. Default: the last {LATEST}.")
    ] = None,
    type_: Annotated[
        list[str] | None, typer.Option("--type", "-t", metavar="TYPE", help="Only such records, as in JobPlaced; repeat it.")
    ] = None,
    job: Annotated[str | None, typer.Option(help="Only records about this job.")] = None,
) -> None:
    """What happened, one line per record (several for a preemption with several victims). Times are UTC."""
    types = {known_type(name) for name in type_ or []}

    def tell(found: dict[str, Any], told: list[Line]) -> None:
        if session.for_people:
            session.show_lines(told)
        else:
            session.one_of_many(found)

    async with session.client() as client:
        domain = (await client.domain(session.domain)).name
        end = (await client.audit_spans())[(await client.domain(domain)).partition].end
        latest: deque[tuple[dict[str, Any], list[Line]]] | None = deque(maxlen=LATEST) if from_seq is None else None
        pool = Pool()
        async for entry in with_end(client.follow(domain, from_seq or 0, pool=pool, on=follow), end):
            if entry is None or latest is None or entry.offset >= end:
                for held in latest or ():
                    tell(*held)
                latest = None
            if entry is None or not _is_wanted(entry, types, job):
                continue
            found = (present.record(entry, pool), lines(entry.record, pool))
            if latest is None:
                tell(*found)
            else:
                latest.append(found)


async def with_end(entries: AsyncIterator[Entry], end: int) -> AsyncIterator[Entry | None]:
    """The entries, with a None where the last one below `end` has been given out, and at the very end."""
    async for entry in entries:
        yield entry
        if entry.offset == end - 1:
            yield None
    yield None


def known_type(name: str) -> str:
    """The record type's short name, in whichever case it was typed."""
    known = {kind.NAME.lower(): kind.NAME for kind in AUDIT_TYPES.values()}
    found = known.get(name.lower())
    if found is None:
        raise Problem(
            ExitCode.USAGE, f"--type: there is no record type {name!r}", f"there are: {', '.join(sorted(known.values()))}"
        )
    return found


def _is_wanted(entry: Entry, types: set[str], job: str | None) -> bool:
    record = entry.record
    if types and (record.data is None or record.data.NAME not in types):
        return False
    return job is None or job in jobs_of(record)


async def show(session: Session, seq: Annotated[int, typer.Argument(help="Which record.")]) -> None:
    """One record whole: its attributes, its data, its hash and the one before it."""
    async with session.client() as client:
        where = await client.domain(session.domain)
        head, pool = -1, Pool()
        async for entry in client.follow(where.name, pool=pool, on=False):
            head = entry.record.seq
            if head == seq:
                found = present.record(entry, pool)
                break
        else:
            raise Problem(ExitCode.NOT_FOUND, f"{where.name} has no record #{seq}: its log ends at #{head}")
        session.show(found, lambda: tables.record(found))


async def verify(session: Session, file: FromFile = None) -> ExitCode:
    """Walk the chain: is every record what its writer wrote, and is none missing?

    Orphans are counted and named. They do no harm where their place was taken or their writer replaced. A record that
    claims a free place without following the one before it shows that the log was changed: exit code 1.
    """
    async with log_of(session, file) as (domain, messages):
        found = await walk.verify(domain, messages)
    session.show(found, lambda: tables.verification(found))
    return ExitCode.DONE if found["ok"] else ExitCode.FOUND_WRONG


async def replay(session: Session, file: FromFile = None) -> ExitCode:
    """Fold the log, decide every turn again with this release's engine, and compare byte for byte."""
    async with log_of(session, file) as (domain, messages):
        found = await walk.replay(domain, messages)
    session.show(found, lambda: tables.replayed(found))
    return ExitCode.DONE if found["ok"] else ExitCode.FOUND_WRONG


async def export(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; - for standard output.")],
    before: Annotated[
        int | None, typer.Option(metavar="SEQ", help="Only what stands before this record, as for replay by an earlier release.")
    ] = None,
) -> None:
    """Write the log as JSON Lines, orphans included, so that it can be verified and replayed without Kafka."""
    async with log_of(session, None) as (domain, everything), session.client() as client:
        messages = everything if before is None else walk.before(before, domain, everything)
        partition = (await client.domain(domain)).partition
        if str(file) == "-":
            await write_log(sys.stdout, domain, partition, messages)
            return
        draft = file.with_name(f"{file.name}.draft")
        try:
            with draft.open("w", encoding="utf-8") as out:
                count = await write_log(out, domain, partition, messages)
            draft.replace(file)
        except OSError as error:
            raise Problem(ExitCode.USAGE, f"{file}: cannot be written: {error.strerror}") from None
        session.say(f"{file}: {count} messages of {domain}")


@asynccontextmanager
async def log_of(session: Session, file: Path | None) -> AsyncIterator[tuple[str, AsyncGenerator[Message, None]]]:
    """The domain, and every message of its log as it is now: orphans, too."""
    if file is not None:
        log = LogFile(file)
        yield log.domain, log.messages()
        return
    async with session.client() as client:
        where = await client.domain(session.domain)
        spans = await client.audit_spans()
        yield where.name, client.messages(topics.AUDIT.name, {where.partition: spans[where.partition]})
