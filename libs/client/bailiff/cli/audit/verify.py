"""`bailiff audit verify`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bailiff.cli.log_source import FromArchive, FromFile, Strict, Trust, source_of
from bailiff.cli.session import Session, command
from bailiff.client.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from bailiff.audit.cosignatures import Asked
    from bailiff.audit.log_sources import Source
    from bailiff.audit.verify import Verified
    from bailiff.witness.witnesses import WitnessAddress


@command("audit verify")
async def verify(
    session: Session,
    file: FromFile = None,
    archive: FromArchive = None,
    trust: Trust = None,
    root: Annotated[
        str | None, typer.Option("--root", metavar="KEY", help="The root key of the log's first record, obtained out of band.")
    ] = None,
    witnesses: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="So many witnesses must have cosigned it. Also: BAILIFF_WITNESSES.")
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
    strict: Strict = False,
) -> ExitCode:
    """Verify the hash chain and the seals: no record is changed or missing.

    Orphans are counted and listed. They are harmless if another record has their position or their writer was replaced. A
    record at a free position that does not continue the chain shows that the log was changed: exit code 1.

    Seals detect what the chain alone cannot: a truncated tail, or a rewritten log. Without --trust the keys named by the seals
    themselves are trusted. Whoever has the sealing key can seal another log: --root names the root key that this one must have.

    With --strict, exit code 9 where something takes a person to judge: records that the writer has not signed, seals of unknown
    keys, an accepted loss of sealed records.

    Witnesses detect what the seals cannot: a tail that was cut together with its seals, an older copy, another history. Without
    --witness-key, cosignatures are compared with the log, but anybody could have made them. Before the first seal there is
    nothing that a witness could cosign: exit code 5.
    """
    from bailiff.audit import resume_files
    from bailiff.audit.log_sources import from_file, not_sealed
    from bailiff.audit.parallel_verify import processes_for
    from bailiff.audit.verify import chain_of, verified
    from bailiff.tables.audit import verification_block

    if derived and file is None and archive is None:
        raise UsageError("--derived compares the tables of an archive, or Parquet files", "name it: --archive ADDRESS")
    trusted, pinned = trust or (), root or ""
    wanted = session.settings.witnesses if witnesses is None else witnesses
    addresses = witness_addresses(witness_key or session.settings.witness_keys, wanted)
    asked = await ask_witnesses(session, file, archive, trusted, addresses)
    async with source_of(session, file, archive, witness_key or ()) as source:
        begin = first_segment(source, resume, trusted, pinned)
        if begin and source.path is not None:
            source = from_file(source.path, slice(begin, None))
        at_once = processes or processes_for(source.folder)
        found = await verified(source, trusted, wanted, addresses, asked, at_once, root="" if begin else pinned)
        unsealed = await not_sealed(source.pool, source.read) if found["witnesses"]["unsealed"] else None
    found["passed_over"] = str(resume) if begin else ""
    if resume is not None and source.folder is not None and found["ok"]:
        resume_files.note_verified(resume, source.folder, chain_of(source, trusted)[0], pinned)
    if derived and found["ok"]:
        await compare_derived(session, found, source, archive)
    session.show(found, lambda: verification_block(found))
    if unsealed is not None:
        raise unsealed
    if not found["ok"]:
        return ExitCode.FOUND_WRONG
    return ExitCode.TO_JUDGE if strict and found["to_judge"] else ExitCode.DONE


async def ask_witnesses(
    session: Session, file: Path | None, archive: str | None, trust: Sequence[str], addresses: Sequence[WitnessAddress]
) -> Asked | None:
    """What the witnesses with a URL have cosigned, asked before the log is read: so it cannot be shorter than they say."""
    from bailiff.audit.cosignatures import ask
    from bailiff.audit.verify import chain_of

    if not any(address.url for address in addresses):
        return None
    async with source_of(session, file, archive) as source:
        return await ask(chain_of(source, trust)[0], addresses)


async def compare_derived(session: Session, found: Verified, source: Source, archive: str | None) -> None:
    """Adds to `found` how Parquet files, or the tables of the archive, differ from what the records say."""
    from bailiff.audit import segment_proofs
    from bailiff.audit.verify_derived import derived

    if source.folder is not None:
        found["derived"] = segment_proofs.faults(source.folder, found["seal_keys"])
    elif archive is not None:
        compared = await derived(archive, source.pool)
        found["derived"], found["derived_rows"] = compared.differences, compared.rows
        if compared.unchecked:
            session.say(f"not compared: {compared.unchecked}", "yellow")
    found["ok"] = not found["derived"]


def first_segment(source: Source, resume: Path | None, trust: Sequence[str], root: str) -> int:
    """The number of the first segment that is not known to be verified. Raises `ClientError`."""
    from bailiff.audit import resume_files
    from bailiff.audit.verify import chain_of

    if resume is None:
        return 0
    if source.folder is None:
        raise UsageError("--resume: only a folder of segments", "name it: --archive FOLDER")
    earlier = resume_files.read(resume, resume_files.VerifiedSegments)
    if earlier is not None and root not in ("", earlier.root):
        return 0  # verified without this root key
    return resume_files.first_to_verify(source.folder, chain_of(source, trust)[0], earlier)


def witness_addresses(texts: Sequence[str], wanted: int) -> list[WitnessAddress]:
    """Parses the witnesses.

    Args:
        wanted: How many of them must have cosigned the log.

    Raises:
        ClientError: A text is not a witness, or fewer than `wanted` are given.
    """
    from bailiff.witness.witnesses import WitnessAddress
    from bailiff_log.signed_notes import NoteError

    try:
        found = {str(each.key): each for each in map(WitnessAddress.parse, texts)}
    except NoteError as error:
        raise UsageError(f"--witness-key: {error}") from None
    if wanted > len(found):
        text = f"--witnesses {wanted}: {len(found)} witnesses are known"
        raise UsageError(text, "name each one's key: --witness-key VKEY, or BAILIFF_WITNESS_KEYS")
    return list(found.values())
