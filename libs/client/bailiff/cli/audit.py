"""Commands about the audit log: read, verify, replay, export, prove. None of them trusts a service: only the log counts."""

import json
import sys
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from bailiff import proofs, replaying, walk
from bailiff.derived import derived as compare_derived
from bailiff.eventline.line import Line
from bailiff.eventline.lines import lines
from bailiff.logfile import write_log
from bailiff.moments import Point, end_of, point, wall_clock
from bailiff.present.records import record_data
from bailiff.problem import ExitCode, Problem
from bailiff.sources import Source, from_archive, from_file, from_kafka
from bailiff.stretches import seal_to, write_stretches
from bailiff.tables.audit import proof_block, replayed_block, seals_block, verification_block
from bailiff.tables.records import record_block
from bailiff.verifying import chain_of, verified
from bailiff.written import write
from bailiff_bus.log import Entry
from bailiff_bus.port import Message
from bailiff_core.explain import jobs_of
from bailiff_core.fold import apply
from bailiff_core.model.pool import Pool
from bailiff_core.records import AUDIT_TYPES
from bailiff_core.records.wire import time_text
from bailiff_core.words import count_text

from . import archive
from .dataset import Anonymise, KeepKey, Licence, NameOriginal, write_anonymised
from .session import Session, command

PANEL = "The record"
LATEST = 20

FromFile = Annotated[
    Path | None, typer.Option("--file", "-f", help="An exported log, or a folder of stretches, instead of Kafka's log.")
]
FromArchive = Annotated[
    str | None,
    typer.Option(
        "--archive",
        metavar="ADDRESS",
        help="The auditor's PostgreSQL instead of Kafka: postgresql://… (a path is as with --file).",
    ),
]
Trust = Annotated[
    list[str] | None, typer.Option("--trust", metavar="KEY", help="The log's first sealing key, known from elsewhere; repeat it.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    audit = typer.Typer(help="Read, verify and replay the record of every decision.", no_args_is_help=True)
    command(audit)(tail)
    command(audit)(show)
    command(audit)(verify)
    command(audit)(replay)
    command(audit, leave_out=("output",))(export)
    command(audit)(seals)
    command(audit, leave_out=("output",))(prove)
    command(audit, "check-proof", leave_out=("domain", "kafka", "actor", "key"))(check_proof)
    archive.register(audit)
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
            found = (record_data(entry, pool), lines(entry.record, pool))
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


async def show(
    session: Session,
    seq: Annotated[int, typer.Argument(help="Which record.")],
    file: FromFile = None,
    archive: FromArchive = None,
) -> None:
    """One record whole: its attributes, its data, its hash and the one before it."""
    async with source_of(session, file, archive) as source, aclosing(source.messages) as messages:
        source.from_its_beginning("audit show")
        judge, pool = walk.Walk(source.domain), Pool()
        async for entry in walk.entries(judge, messages, "see: bailiff audit verify"):
            apply(pool, entry.record)
            if entry.record.seq == seq:
                found = record_data(entry, pool)
                break
        else:
            last = judge.head.next_seq - 1
            raise Problem(ExitCode.NOT_FOUND, f"{source.domain} has no record #{seq}: its log ends at #{last}")
        session.show(found, lambda: record_block(found))


async def verify(
    session: Session,
    file: FromFile = None,
    archive: FromArchive = None,
    trust: Trust = None,
    derived: Annotated[
        bool, typer.Option("--derived", help="With --archive: do its tables for people say what the records say?")
    ] = False,
) -> ExitCode:
    """Walk the chain: is every record what its writer wrote, is none missing, and is the log the one that was sealed?

    Orphans are counted and named. They do no harm where their place was taken or their writer replaced. A record that
    claims a free place without following the one before it shows that the log was changed: exit code 1.

    Seals show what the chain alone cannot: a tail that was cut off, or a log that was written anew. Without --trust the
    keys are believed that the seals themselves name.
    """
    if derived and (archive is None or "://" not in archive):
        raise Problem(ExitCode.USAGE, "--derived compares the tables of an archive", "say which: --archive postgresql://…")
    async with source_of(session, file, archive) as source:
        found = await verified(source, trust or ())
    if derived and archive is not None and found["ok"]:
        compared = await compare_derived(archive, source.domain)
        found["derived"], found["derived_rows"] = compared.differences, compared.rows
        found["ok"] = not compared.differences
        if compared.unchecked:
            session.say(f"not compared: {compared.unchecked}", "yellow")
    session.show(found, lambda: verification_block(found))
    return ExitCode.DONE if found["ok"] else ExitCode.FOUND_WRONG


async def replay(
    session: Session,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="SEQ|TIME", help="Decide again from the turn of this record or time on.")
    ] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="SEQ|TIME", help="Up to the turn of this record or time.")] = None,
    file: FromFile = None,
    archive: FromArchive = None,
) -> ExitCode:
    """Fold the log, decide every turn again with the engine that its records name, and compare byte for byte.

    Engines of other releases run in processes of their own, from wheels kept by digest (bailiff engine list). TIME is as in
    2026-01-31T12:00:00Z, or -2h: before now, of a file before its end. What stands before --from is verified and folded.
    """
    async with source_of(session, file, archive) as source:
        domain, grows = source.domain, source.path is None
        source.from_its_beginning("replay")

    async def read() -> AsyncGenerator[Message, None]:
        async with source_of(session, file, archive) as source:
            async for message in source.messages:
                yield message

    points = [point(each, option) if each is not None else Point() for each, option in ((from_, "--from"), (to, "--to"))]
    if any(each.ago is not None for each in points):
        end = wall_clock() if grows else await end_of(read())
        points = [each.at(end) for each in points]
    found = await replaying.replay(domain, read, store=session.settings.engines, from_=points[0], to=points[1])
    session.show(found, lambda: replayed_block(found))
    if not found["ok"]:
        return ExitCode.FOUND_WRONG
    return ExitCode.ENGINE_MISSING if found["turns_of_other_engines"] else ExitCode.DONE


async def export(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; - for standard output.")],
    before: Annotated[
        int | None, typer.Option(metavar="SEQ", help="Only what stands before this record, as for replay by an earlier release.")
    ] = None,
    stretch: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="FILE is a folder: files of N records each, with a manifest."),
    ] = None,
    anonymise: Anonymise = False,
    keep_key: KeepKey = None,
    licence: Licence = "",
    name_original: NameOriginal = False,
    log: FromFile = None,
    archive: FromArchive = None,
) -> None:
    """Write the log as JSON Lines, orphans and seals included, so that it can be verified and replayed without Kafka.

    With --stretch only whole stretches that are under a seal are written, and those that are there already stay as they are.

    With --anonymise FILE is a folder: a dataset with pseudonyms for names and shifted times (docs/dataset.md).
    """
    async with source_of(session, log, archive) as source:
        domain, partition = source.domain, source.partition
        messages = source.messages if before is None else walk.before(before, source.start, source.messages)
        if anonymise:
            source.messages = messages
            await write_anonymised(session, file, source, keep_key, licence, name_original)
            return
        if stretch is not None:
            written = await write_stretches(file, stretch, source.start, source.tree, partition, messages, source.seals)
            session.say(f"{file}: {count_text(len(written), 'new stretch')} of {count_text(stretch, 'record')} of {domain}")
            return
        if source.start.next_seq:
            text = f"{domain}: the archive begins with record {source.start.next_seq}, which a file cannot say"
            raise Problem(ExitCode.USAGE, text, "export stretches, into the folder that has those before: --stretch N")
        seals = [seal_to(seal) for seal in source.seals] if before is None else []
        if str(file) == "-":
            await write_log(sys.stdout, domain, partition, messages, seals)
            return
        draft = file.with_name(f"{file.name}.draft")
        try:
            with draft.open("w", encoding="utf-8") as out:
                count = await write_log(out, domain, partition, messages, seals)
            draft.replace(file)
        except OSError as error:
            raise Problem(ExitCode.USAGE, f"{file}: cannot be written: {error.strerror}") from None
        session.say(f"{file}: {count_text(count, 'message')} of {domain}")


async def seals(session: Session, file: FromFile = None, archive: FromArchive = None, trust: Trust = None) -> ExitCode:
    """The seals of the log: are they signed, by keys that vouch for each other, and does each continue the one before it?"""
    async with source_of(session, file, archive) as source:
        chain, problem = chain_of(source, trust or ())
    found = {
        "domain": source.domain, "ok": not problem, "problem": problem, "keys": chain.keys,
        "seals": [
            {"size": each.size, "root": each.root, "sealed_at": time_text(each.sealed_at), "key": each.key}
            for each in chain.seals
        ],
    }  # fmt: skip
    session.show(found, lambda: seals_block(found))
    return ExitCode.FOUND_WRONG if problem else ExitCode.DONE


async def prove(
    session: Session,
    seq: Annotated[int, typer.Argument(min=0, help="Which record.")],
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE", help="Where to write it. Default: standard output.")] = None,
    file: FromFile = None,
    archive: FromArchive = None,
) -> None:
    """Write a proof that a record is in the log under a seal. Whoever has it needs neither Kafka nor the log to check it."""
    async with source_of(session, file, archive) as source:
        chain, _ = chain_of(source)
        seal = next((each for each in chain.seals if each.size > seq), None)
        if seal is None:
            last = f"the last seal is over {count_text(chain.last.size, 'record')}" if chain.last else "there is no seal yet"
            raise Problem(ExitCode.NOT_FOUND, f"{source.domain}#{seq} is not under a seal: {last}")
        keys = chain.handovers[: chain.keys.index(seal.key) + 1]
        proof = await proofs.prove(source, seq, seal, keys)
    text = json.dumps(proof, indent=1) + "\n"
    if to is None:
        session.out.out(text, highlight=False, end="")
        return
    write(to, text)
    session.say(f"{to}: {source.domain}#{seq} under the seal over {count_text(seal.size, 'record')}, by key {seal.key}")


async def check_proof(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A proof that `bailiff audit prove` wrote.")],
    trust: Annotated[
        list[str] | None,
        typer.Option(
            "--trust", metavar="KEY", help="The log's first sealing key, or the seal's, known from elsewhere; repeat it."
        ),
    ] = None,
) -> ExitCode:
    """Check a proof, with nothing but the file: is this record, byte for byte, in the log that was sealed?

    Without --trust the key that the proof names is believed: compare it with the one that you know.
    """
    found = proofs.checked(file, trust or [])
    session.show(found, lambda: proof_block(found))
    return ExitCode.DONE if found["ok"] else ExitCode.FOUND_WRONG


@asynccontextmanager
async def log_of(session: Session, file: Path | None) -> AsyncIterator[tuple[str, AsyncGenerator[Message, None]]]:
    """The domain, and every message of its log as it is now: orphans, too."""
    async with source_of(session, file, None) as source:
        yield source.domain, source.messages


@asynccontextmanager
async def source_of(session: Session, file: Path | None, archive: str | None) -> AsyncIterator[Source]:
    """Where the log comes from: a file, a folder of stretches, the archive, or Kafka."""
    if file is not None and archive is not None:
        raise Problem(ExitCode.USAGE, "--file and --archive name two sources", "choose one")
    if archive is not None and "://" not in archive:
        file = Path(archive)
    if file is not None:
        source = from_file(file)
        if session.domain not in (None, source.domain):
            text = f"{file} is a log of {source.domain}, and {session.domain} was asked for"
            raise Problem(ExitCode.NOT_FOUND, text, f"say --domain {source.domain}, or another file")
        yield source
    elif archive is not None:
        async with from_archive(archive, session.domain) as source:
            yield source
    else:
        async with session.client() as client:
            yield await from_kafka(client, session.domain)
