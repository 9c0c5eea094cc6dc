"""`bailiff audit tail` and `show`: records for people."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bailiff.cli.log_source import FromArchive, FromFile, mark_end, source_of
from bailiff.cli.session import Session, command
from bailiff.client.errors import NotFound, UsageError

if TYPE_CHECKING:
    from bailiff.render.record_text.line import Line
    from bailiff_log.reader import Entry

LATEST = 20


@command("audit tail")
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


def known_type(name: str) -> str:
    """The record type's short name, case-insensitive.

    Raises:
        ClientError: The word is unknown.
    """
    from bailiff_core.records import AUDIT_TYPES

    known = {kind.NAME.lower(): kind.NAME for kind in AUDIT_TYPES.values()}
    found = known.get(name.lower())
    if found is None:
        raise UsageError(f"--type: unknown record type {name!r}", f"known types: {', '.join(sorted(known.values()))}")
    return found


def _is_wanted(entry: Entry, types: set[str], job: str | None) -> bool:
    from bailiff_core.records.subjects import jobs_of

    record = entry.record
    if types and (record.data is None or record.data.NAME not in types):
        return False
    return job is None or job in jobs_of(record)


@command("audit show")
async def show(
    session: Session,
    seq: Annotated[int, typer.Argument(help="The number of the record.")],
    file: FromFile = None,
    archive: FromArchive = None,
) -> None:
    """Show one record: attributes, data, hash and previous hash."""
    from bailiff.audit import chain_report
    from bailiff.render.serializers.records import record_data
    from bailiff.tables.records import record_block
    from bailiff_core.fold import apply
    from bailiff_core.model.state import PoolState
    from bailiff_log.chain_verifier import ChainVerifier

    async with source_of(session, file, archive) as source:
        source.from_its_beginning("audit show")
        verifier, state = ChainVerifier(source.pool), PoolState()
        async for entry in chain_report.entries(verifier, source.messages, "see: bailiff audit verify"):
            apply(state, entry.record)
            if entry.record.seq == seq:
                found = record_data(entry, state)
                break
        else:
            last = verifier.head.next_seq - 1
            raise NotFound(f"{source.pool} has no record #{seq}: its log ends at #{last}")
        session.show(found, lambda: record_block(found))
