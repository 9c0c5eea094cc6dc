"""Commands on the audit log: read, verify, replay, export, prove. They read the log itself and trust no service."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bailiff.client.errors import ClientError, ExitCode
from bailiff_core.humanize import count_text

from . import archive
from .dataset import Anonymise, KeepKey, Licence, NameOriginal, write_anonymised
from .session import Session, command

if TYPE_CHECKING:
    from bailiff.audit.log_sources import Source
    from bailiff.audit.object_path import AnyPath
    from bailiff.render.record_text.line import Line
    from bailiff.witness.witnesses import WitnessAddress
    from bailiff_bus.port import Message
    from bailiff_log.reader import Entry

PANEL = "Audit log"
LATEST = 20

FromFile = Annotated[
    Path | None, typer.Option("--file", "-f", help="An exported log, or a folder of segments, instead of Kafka's log.")
]
FromArchive = Annotated[
    str | None,
    typer.Option(
        "--archive",
        metavar="ADDRESS",
        help="The auditor's PostgreSQL instead of Kafka: postgresql://…; or a folder of segments: its path, or s3://….",
    ),
]
Trust = Annotated[
    list[str] | None,
    typer.Option("--trust", metavar="KEY", help="The log's first sealing key, obtained out of band; repeatable."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    audit = typer.Typer(help="Read, verify, replay, export and prove the audit log.", no_args_is_help=True)
    command(audit)(tail)
    command(audit)(show)
    command(audit)(verify)
    command(audit)(replay)
    command(audit, leave_out=("output",))(export)
    command(audit, leave_out=("pool", "kafka", "actor", "key"))(parquet)
    command(audit)(seals)
    command(audit, leave_out=("output",))(prove)
    command(audit, "check-proof", leave_out=("pool", "kafka", "actor", "key"))(check_proof)
    archive.register(audit)
    app.add_typer(audit, name="audit", rich_help_panel=PANEL)


async def tail(
    session: Session,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow appended records.")] = False,
    from_seq: Annotated[
        int | None, typer.Option("--from", metavar="SEQ", help=f"First record. Default: the last {LATEST}.")
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", "-t", metavar="TYPE", help="Only records of this type, as in JobPlaced; repeatable."),
    ] = None,
    job: Annotated[str | None, typer.Option(help="Only records about this job.")] = None,
) -> None:
    """Print one line per record (a preemption has one per victim). Times are UTC."""
    from bailiff.render.record_text.lines import lines
    from bailiff.render.serializers.records import record_data
    from bailiff_core.model.state import PoolState

    types = {known_type(name) for name in type_ or []}

    def print_record(found: dict[str, Any], text_lines: list[Line]) -> None:
        if session.for_people:
            session.show_lines(text_lines)
        else:
            session.one_of_many(found)

    async with session.client() as client:
        pool = (await client.pool(session.pool)).name
        end = (await client.audit_spans())[(await client.pool(pool)).partition].end
        latest: deque[tuple[dict[str, Any], list[Line]]] | None = deque(maxlen=LATEST) if from_seq is None else None
        state = PoolState()
        async for entry in mark_end(client.follow(pool, from_seq or 0, state=state, on=follow), end):
            if entry is None or latest is None or entry.offset >= end:
                for earlier in latest or ():
                    print_record(*earlier)
                latest = None
            if entry is None or not _is_wanted(entry, types, job):
                continue
            found = (record_data(entry, state), lines(entry.record, state))
            if latest is None:
                print_record(*found)
            else:
                latest.append(found)


async def mark_end(entries: AsyncIterator[Entry], end: int) -> AsyncIterator[Entry | None]:
    """The entries, with a None after the last one below offset `end`, and at the end of the stream."""
    async for entry in entries:
        yield entry
        if entry.offset == end - 1:
            yield None
    yield None


def known_type(name: str) -> str:
    """The record type's short name, case-insensitive. Raises `ClientError` for an unknown one."""
    from bailiff_core.records import AUDIT_TYPES

    known = {kind.NAME.lower(): kind.NAME for kind in AUDIT_TYPES.values()}
    found = known.get(name.lower())
    if found is None:
        raise ClientError(
            ExitCode.USAGE, f"--type: unknown record type {name!r}", f"known types: {', '.join(sorted(known.values()))}"
        )
    return found


def _is_wanted(entry: Entry, types: set[str], job: str | None) -> bool:
    from bailiff_core.explain import jobs_of

    record = entry.record
    if types and (record.data is None or record.data.NAME not in types):
        return False
    return job is None or job in jobs_of(record)


async def show(
    session: Session,
    seq: Annotated[int, typer.Argument(help="The number of the record.")],
    file: FromFile = None,
    archive: FromArchive = None,
) -> None:
    """Show one record: attributes, data, hash and previous hash."""
    from bailiff.audit import chain_report
    from bailiff.render.serializers.records import record_data
    from bailiff.render.tables.records import record_block
    from bailiff_core.fold import apply
    from bailiff_core.model.state import PoolState

    async with source_of(session, file, archive) as source, aclosing(source.messages) as messages:
        source.from_its_beginning("audit show")
        verifier, state = chain_report.ChainVerifier(source.pool), PoolState()
        async for entry in chain_report.entries(verifier, messages, "see: bailiff audit verify"):
            apply(state, entry.record)
            if entry.record.seq == seq:
                found = record_data(entry, state)
                break
        else:
            last = verifier.head.next_seq - 1
            raise ClientError(ExitCode.NOT_FOUND, f"{source.pool} has no record #{seq}: its log ends at #{last}")
        session.show(found, lambda: record_block(found))


async def verify(
    session: Session,
    file: FromFile = None,
    archive: FromArchive = None,
    trust: Trust = None,
    witnesses: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="So many witnesses must have cosigned it. Also: BAILIFF_WITNESSES."),
    ] = None,
    witness_key: Annotated[
        list[str] | None,
        typer.Option(
            "--witness-key",
            metavar="'VKEY [URL]'",
            help="A witness; with its URL it is asked what it has cosigned; repeatable. Also: BAILIFF_WITNESS_KEYS.",
        ),
    ] = None,
    derived: Annotated[
        bool,
        typer.Option("--derived", help="Also compare what is derived from the records: tables of the archive, Parquet files."),
    ] = False,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            metavar="N",
            min=1,
            max=1000,
            help="With a folder of segments: how many to verify at the same time. Default: one for each core, if it is large.",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With a folder of segments: keep in FILE what was verified, and pass over what it says, if it is unchanged.",
        ),
    ] = None,
) -> ExitCode:
    """Verify the hash chain and the seals: no record is changed or missing.

    Orphans are counted and listed. They are harmless if another record has their position or their writer was replaced. A
    record at a free position that does not continue the chain shows that the log was changed: exit code 1.

    Seals detect what the chain alone cannot: a truncated tail, or a rewritten log. Without --trust the keys named by the seals
    themselves are trusted.

    Witnesses detect what the seals cannot: a tail that was cut together with its seals, an older copy, another history. Without
    --witness-key, cosignatures are compared with the log, but anybody could have made them.
    """
    from bailiff.audit import segment_proofs, verified_segments
    from bailiff.audit.cosignatures import ask
    from bailiff.audit.log_sources import from_file
    from bailiff.audit.parallel_verify import processes_for
    from bailiff.audit.verify import chain_of, verified
    from bailiff.audit.verify_derived import derived as compare_derived
    from bailiff.render.tables.audit import verification_block

    is_archive = archive is not None and is_database(archive)
    if derived and file is None and archive is None:
        raise ClientError(
            ExitCode.USAGE, "--derived compares the tables of an archive, or Parquet files", "name it: --archive ADDRESS"
        )
    wanted = session.settings.witnesses if witnesses is None else witnesses
    addresses = witness_addresses(witness_key or session.settings.witness_keys, wanted)
    asked = None
    if any(address.url for address in addresses):
        async with source_of(session, file, archive) as source:
            asked = await ask(chain_of(source, trust or ())[0], addresses)
    async with source_of(session, file, archive) as source:
        begin = first_segment(source, resume, trust or ())
        if begin and source.path is not None:
            source = from_file(source.path, slice(begin, None))
        at_once = processes or processes_for(source.folder)
        found = await verified(source, trust or (), wanted, addresses, asked, at_once)
    found["passed_over"] = str(resume) if begin else ""
    if resume is not None and source.folder is not None and found["ok"]:
        verified_segments.write(resume, source.folder, chain_of(source, trust or ())[0])
    if derived and source.folder is not None and found["ok"]:
        found["derived"] = segment_proofs.faults(source.folder, found["seal_keys"])
        found["ok"] = not found["derived"]
    if derived and is_archive and archive is not None and found["ok"]:
        compared = await compare_derived(archive, source.pool)
        found["derived"], found["derived_rows"] = compared.differences, compared.rows
        found["ok"] = not compared.differences
        if compared.unchecked:
            session.say(f"not compared: {compared.unchecked}", "yellow")
    session.show(found, lambda: verification_block(found))
    return ExitCode.DONE if found["ok"] else ExitCode.FOUND_WRONG


def first_segment(source: Source, resume: Path | None, trust: Sequence[str]) -> int:
    """The number of the first segment that is not known to be verified. Raises `ClientError`."""
    from bailiff.audit import verified_segments
    from bailiff.audit.verify import chain_of

    if resume is None:
        return 0
    if source.folder is None:
        raise ClientError(ExitCode.USAGE, "--resume: only a folder of segments", "name it: --archive FOLDER")
    return verified_segments.first_to_verify(source.folder, chain_of(source, trust)[0], verified_segments.read(resume))


def witness_addresses(texts: Sequence[str], wanted: int) -> list[WitnessAddress]:
    """The witnesses of these texts. wanted: number that must have cosigned the log. Raises `ClientError`."""
    from bailiff.witness.witnesses import WitnessAddress
    from bailiff_log.signed_notes import NoteError

    try:
        found = {str(each.key): each for each in map(WitnessAddress.parse, texts)}
    except NoteError as error:
        raise ClientError(ExitCode.USAGE, f"--witness-key: {error}") from None
    if wanted > len(found):
        text = f"--witnesses {wanted}: {len(found)} witnesses are known"
        raise ClientError(ExitCode.USAGE, text, "name each one's key: --witness-key VKEY, or BAILIFF_WITNESS_KEYS")
    return list(found.values())


async def replay(
    session: Session,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="SEQ|TIME", help="First decision cycle: of this record or time.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="SEQ|TIME", help="Last decision cycle: of this record or time.")
    ] = None,
    file: FromFile = None,
    archive: FromArchive = None,
    processes: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=1000, help="With a folder of segments: replay so many ranges at the same time."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep in FILE up to which record it was replayed, and continue after the one in it."),
    ] = None,
) -> ExitCode:
    """Replay every decision cycle with the engine named by its records, and compare byte for byte.

    Engines of other releases run in separate processes, from stored wheels (bailiff engine list). TIME is as in
    2026-01-31T12:00:00Z, or -2h: before now, for a file before its end. Records before --from are verified and folded.
    """
    from bailiff.audit import replayed_records
    from bailiff.audit.log_positions import Point, end_of, point, wall_clock
    from bailiff.audit.parallel_replay import replay_in_parallel
    from bailiff.audit.replay import replay as replay_log
    from bailiff.render.tables.audit import replayed_block

    if resume is not None and (from_ or to):
        raise ClientError(ExitCode.USAGE, "--resume continues where it stopped: it excludes --from and --to", "use one")
    async with source_of(session, file, archive) as source:
        pool, is_live, folder = source.pool, source.path is None, source.folder
        source.from_its_beginning("replay")
    known = replayed_records.read(resume, pool) if resume is not None else None

    async def read() -> AsyncGenerator[Message, None]:
        async with source_of(session, file, archive) as source:
            async for message in source.messages:
                yield message

    points = [point(each, option) if each is not None else Point() for each, option in ((from_, "--from"), (to, "--to"))]
    if any(each.ago is not None for each in points):
        end = wall_clock() if is_live else await end_of(read())
        points = [each.at(end) for each in points]
    if known is not None:
        points[0] = Point(seq=known[0] + 1)
    found = None
    if folder is not None and (processes or 1) > 1 and points == [Point(), Point()]:
        found = await replay_in_parallel(folder, processes or 1, session.settings.engines)
    if found is None:
        found = await replay_log(pool, read, store=session.settings.engines, from_=points[0], to=points[1], known=known)
    if resume is not None and found["ok"] and not found["cycles_of_other_engines"]:
        replayed_records.write(resume, found)
    session.show(found, lambda: replayed_block(found))
    if not found["ok"]:
        return ExitCode.FOUND_WRONG
    return ExitCode.ENGINE_MISSING if found["cycles_of_other_engines"] else ExitCode.DONE


async def export(
    session: Session,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file; - for standard output; a folder, or s3://… for segments.")
    ],
    before: Annotated[
        int | None, typer.Option(metavar="SEQ", help="Only records before this one, as for replay by an earlier release.")
    ] = None,
    segment: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="FILE is a folder: write segments of N records each, with a manifest."),
    ] = None,
    anonymise: Anonymise = False,
    keep_key: KeepKey = None,
    licence: Licence = "",
    name_original: NameOriginal = False,
    log: FromFile = None,
    archive: FromArchive = None,
) -> None:
    """Write the log as JSON Lines with orphans and seals, so that it can be verified and replayed without Kafka.

    With --segment only whole sealed segments are written; existing segments are not changed.

    With --anonymise FILE is a folder: a dataset with pseudonyms for names and shifted times (docs/how-to/dataset.md).
    """
    from bailiff.audit import chain_report
    from bailiff.audit.cosignatures import newest_cosignatures
    from bailiff.audit.log_files import write_log
    from bailiff.audit.object_path import ObjectPath, path_of
    from bailiff.audit.segment_writer import write_segments
    from bailiff.audit.segments import seal_to

    async with source_of(session, log, archive) as source:
        pool, partition, to = source.pool, source.partition, path_of(file)
        messages = source.messages if before is None else chain_report.before(before, source.start, source.messages)
        if anonymise:
            source.messages = messages
            await write_anonymised(session, Path(file), source, keep_key, licence, name_original)
            return
        if segment is not None:
            written = await write_segments(
                to, segment, source.start, source.tree, partition, messages, source.seals, source.cosignatures,
                source.folder.closing if source.folder is not None else None,
            )  # fmt: skip
            session.say(f"{file}: {count_text(len(written), 'new segment')} of {count_text(segment, 'record')} of {pool}")
            return
        if source.start.next_seq:
            text = f"{pool}: the archive begins with record {source.start.next_seq}; a file must contain the whole log"
            raise ClientError(ExitCode.USAGE, text, "export segments into the folder with the earlier ones: --segment N")
        seals = [seal_to(seal) for seal in source.seals] if before is None else []
        cosigned = [each.to_data() for each in newest_cosignatures(source.cosignatures)] if before is None else []
        if isinstance(to, ObjectPath):
            raise ClientError(ExitCode.USAGE, f"{file}: only segments are written to object storage", "add --segment N")
        if file == "-":
            await write_log(sys.stdout, pool, partition, messages, seals, cosigned)
            return
        draft = to.with_name(f"{to.name}.draft")
        try:
            with draft.open("w", encoding="utf-8") as out:
                count = await write_log(out, pool, partition, messages, seals, cosigned)
            draft.replace(to)
        except OSError as error:
            raise ClientError(ExitCode.USAGE, f"{file}: cannot be written: {error.strerror}") from None
        session.say(f"{file}: {count_text(count, 'message')} of {pool}")


async def parquet(
    session: Session,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A folder of segments, or s3://BUCKET/PREFIX.")],
    trust: Trust = None,
) -> None:
    """Write Parquet files and a proof beside the segments of a folder, for those that have none yet.

    records/ has a row for each record, victims/ one for each victim of a preemption. proofs/ shows without the log that the
    records are the sealed ones: bailiff audit check-proof FOLDER/proofs/NAME.json.
    """
    from bailiff.audit import segment_proofs
    from bailiff.audit.object_path import path_of
    from bailiff.audit.segments import SegmentFolder
    from bailiff.audit.verify import chain_of_bodies

    found = SegmentFolder(path_of(folder))
    chain, problem = chain_of_bodies(found.pool, found.seals, trust or ())
    if problem:
        raise ClientError(ExitCode.FOUND_WRONG, f"{folder}: {problem}", f"see: bailiff audit verify --archive {folder}")
    written = await segment_proofs.write_all(found, chain)
    names = [each.name for each in written]
    session.show(
        {"pool": found.pool, "segments": names}, lambda: f"{folder}: {count_text(len(names), 'segment')} written as Parquet"
    )


async def seals(session: Session, file: FromFile = None, archive: FromArchive = None, trust: Trust = None) -> ExitCode:
    """List the seals and verify their signatures, key handovers and order."""
    from bailiff.audit.verify import chain_of
    from bailiff.render.tables.audit import seals_block
    from bailiff_core.records.wire import time_text

    async with source_of(session, file, archive) as source:
        chain, problem = chain_of(source, trust or ())
    found = {
        "pool": source.pool, "ok": not problem, "problem": problem, "keys": chain.keys,
        "seals": [
            {"size": each.size, "root": each.root, "sealed_at": time_text(each.sealed_at), "key": each.key}
            for each in chain.seals
        ],
    }  # fmt: skip
    session.show(found, lambda: seals_block(found))
    return ExitCode.FOUND_WRONG if problem else ExitCode.DONE


async def prove(
    session: Session,
    seq: Annotated[int, typer.Argument(min=0, help="The number of the record.")],
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE", help="File to write. Default: standard output.")] = None,
    file: FromFile = None,
    archive: FromArchive = None,
) -> None:
    """Write a proof that a record is in the sealed log. It can be checked without Kafka and without the log."""
    from bailiff.audit import proofs
    from bailiff.audit.verify import chain_of
    from bailiff.client.safe_write import write

    async with source_of(session, file, archive) as source:
        chain, _ = chain_of(source)
        seal = next((each for each in chain.seals if each.size > seq), None)
        if seal is None:
            last = f"the last seal is over {count_text(chain.last.size, 'record')}" if chain.last else "no seal exists yet"
            raise ClientError(ExitCode.NOT_FOUND, f"{source.pool}#{seq} is not sealed: {last}")
        keys = chain.key_messages[: chain.keys.index(seal.key) + 1]
        proof = await proofs.prove(source, seq, seal, keys)
    text = json.dumps(proof, indent=1) + "\n"
    if to is None:
        session.out.out(text, highlight=False, end="")
        return
    write(to, text)
    session.say(f"{to}: {source.pool}#{seq} under the seal over {count_text(seal.size, 'record')}, by key {seal.key}")


async def check_proof(
    session: Session,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A proof written by `bailiff audit prove` or `bailiff audit parquet`.")
    ],
    trust: Annotated[
        list[str] | None,
        typer.Option(
            "--trust", metavar="KEY", help="The log's first sealing key, or the seal's, obtained out of band; repeatable."
        ),
    ] = None,
) -> ExitCode:
    """Check a proof: the record is in the sealed log, byte for byte. A segment's proof is checked with its Parquet files.

    Without --trust the key named by the proof is trusted: compare it with the known key.
    """
    from bailiff.audit import proofs
    from bailiff.audit.object_path import path_of
    from bailiff.audit.segment_proofs import check_segment, is_segment_proof
    from bailiff.render.tables.audit import proof_block, segment_proof_block

    path = path_of(file)
    if is_segment_proof(path):
        rows = check_segment(path, trust or [])
        session.show(rows, lambda: segment_proof_block(rows))
        return ExitCode.DONE if rows["ok"] else ExitCode.FOUND_WRONG
    found = proofs.checked(path, trust or [])
    session.show(found, lambda: proof_block(found))
    return ExitCode.DONE if found["ok"] else ExitCode.FOUND_WRONG


@asynccontextmanager
async def log_of(session: Session, file: Path | None) -> AsyncIterator[tuple[str, AsyncGenerator[Message, None]]]:
    """The pool, and all messages of its current log including orphans."""
    async with source_of(session, file, None) as source:
        yield source.pool, source.messages


def is_database(address: str) -> bool:
    """Whether it is an archive in PostgreSQL, not a folder of segments."""
    return address.startswith(("postgresql://", "postgres://"))


@asynccontextmanager
async def source_of(session: Session, file: Path | None, archive: str | None) -> AsyncIterator[Source]:
    """The source of the log: a file, a folder of segments, the archive, or Kafka. Raises `ClientError`."""
    from bailiff.audit.log_sources import from_archive, from_file, from_kafka
    from bailiff.audit.object_path import path_of

    if file is not None and archive is not None:
        raise ClientError(ExitCode.USAGE, "--file and --archive are mutually exclusive", "use one")
    if archive is not None and not is_database(archive):
        path: AnyPath | None = path_of(archive)
    else:
        path = file
    if path is not None:
        source = from_file(path)
        if session.pool not in (None, source.pool):
            text = f"{path} is a log of {source.pool}, not of {session.pool}"
            raise ClientError(ExitCode.NOT_FOUND, text, f"use --pool {source.pool}, or another file")
        yield source
    elif archive is not None:
        async with from_archive(archive, session.pool) as source:
            yield source
    else:
        async with session.client() as client:
            yield await from_kafka(client, session.pool)
