"""`bailiff audit export` and `parquet`: the log as a file, as segments, as tiles, as Parquet, or as an anonymised dataset."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bailiff.cli.log_source import FromArchive, FromFile, Trust, source_of
from bailiff.cli.session import LOCAL, Session, command
from bailiff.client.errors import CheckFailed, UsageError
from bailiff_core.humanize import count_text

if TYPE_CHECKING:
    from bailiff.audit.log_sources import Source

Anonymise = Annotated[bool, typer.Option("--anonymise", help="FILE is a folder: write an anonymised dataset.")]
KeepKey = Annotated[
    Path | None,
    typer.Option(
        metavar="KEYFILE", help="With --anonymise: file with the key of the pseudonyms, created if missing. Default: not kept."
    ),
]
Licence = Annotated[str, typer.Option(metavar="TEXT", help="With --anonymise: licence named in the manifest.")]
NameOriginal = Annotated[bool, typer.Option("--name-original", help="With --anonymise: name the original log in the manifest.")]


@command("audit export", leave_out=("output",))
async def export(
    session: Session,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file; - for standard output; a folder, or s3://… for segments.")
    ],
    before: Annotated[
        int | None, typer.Option(metavar="SEQ", help="Only records before this one, as for replay by an earlier release.")
    ] = None,
    segment: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="FILE is a folder: write segments of N records each, with a manifest.")
    ] = None,
    tiles: Annotated[
        bool, typer.Option("--tiles", help="FILE is a folder: write the sealed records' Merkle tree as C2SP tlog-tiles.")
    ] = False,
    anonymise: Anonymise = False,
    keep_key: KeepKey = None,
    licence: Licence = "",
    name_original: NameOriginal = False,
    log: FromFile = None,
    archive: FromArchive = None,
) -> None:
    """Write the log as JSON Lines with orphans and seals, so that it can be verified and replayed without Kafka.

    With --segment only whole sealed segments are written; existing segments are not changed.

    With --tiles FILE is a folder: what the newest seal covers, for clients of transparency logs. Entries are the records' hashes.

    With --anonymise FILE is a folder: a dataset with pseudonyms for names and shifted times (docs/how-to/dataset.md).
    """
    from bailiff.audit import chain_report
    from bailiff.audit.cosignatures import newest_cosignatures
    from bailiff.audit.log_files import write_log
    from bailiff.audit.object_path import ObjectPath, path_of
    from bailiff.audit.segment_writer import write_segments
    from bailiff.audit.segments import seal_to
    from bailiff.client.safe_write import replacing

    async with source_of(session, log, archive) as source:
        pool, partition, to = source.pool, source.partition, path_of(file)
        messages = source.messages if before is None else chain_report.before(before, source.start, source.messages)
        if tiles:
            await write_as_tiles(session, Path(file), source)
            return
        if anonymise:
            source.messages = messages
            await write_anonymised(session, Path(file), source, keep_key, licence, name_original)
            return
        if segment is not None:
            written = await write_segments(
                to,
                segment,
                source.start,
                source.tree,
                partition,
                messages,
                source.seals,
                source.cosignatures,
                source.folder.closing if source.folder is not None else None,
            )
            session.say(f"{file}: {count_text(len(written), 'new segment')} of {count_text(segment, 'record')} of {pool}")
            return
        if source.start.next_seq:
            text = f"{pool}: the archive begins with record {source.start.next_seq}; a file must contain the whole log"
            raise UsageError(text, "export segments into the folder with the earlier ones: --segment N")
        seals = [seal_to(seal) for seal in source.seals] if before is None else []
        cosigned = [each.to_data() for each in newest_cosignatures(source.cosignatures)] if before is None else []
        if isinstance(to, ObjectPath):
            raise UsageError(f"{file}: only segments are written to object storage", "add --segment N")
        if file == "-":
            await write_log(sys.stdout, pool, partition, messages, seals, cosigned)
            return
        with replacing(to) as raw, TextIOWrapper(raw, encoding="utf-8") as out:
            count = await write_log(out, pool, partition, messages, seals, cosigned)
        session.say(f"{file}: {count_text(count, 'message')} of {pool}")


async def write_as_tiles(session: Session, folder: Path, source: Source) -> None:
    """Writes the tiles of what the newest seal covers."""
    from bailiff.audit.log_sources import not_sealed
    from bailiff.audit.tiles import write_tiles
    from bailiff.audit.verify import chain_of
    from bailiff_bus.messages.seals import CheckpointCosigned

    source.from_its_beginning("its tree")
    chain, problem = chain_of(source)
    if problem:
        raise CheckFailed(f"{source.pool}: {problem}", "see: bailiff audit verify")
    if chain.last is None:
        raise await not_sealed(source.pool, source.read)
    cosigned = [each for each in source.cosignatures if isinstance(each, CheckpointCosigned)]
    written = await write_tiles(folder, source.pool, source.messages, chain.last, cosigned)
    size = f"{count_text(written.records, 'record')} of {source.pool}, {written.records - written.before} of them new"
    session.say(f"{folder}: {size}; {count_text(written.files, 'file')} written")


async def write_anonymised(
    session: Session, folder: Path, source: Source, keep_key: Path | None, licence: str, name_original: bool
) -> None:
    """Writes the dataset, and prints the re-identification risks."""
    from bailiff.dataset import Pseudonyms, kept_key, new_key, write_dataset

    key = new_key() if keep_key is None else kept_key(keep_key)
    made = await write_dataset(folder, source, Pseudonyms(key), licence, name_original=name_original)
    size = f"{count_text(made.records, 'record')} ({made.left_out} left out), {made.bytes // 1024} KiB"
    session.say(f"{folder}: {size}; start with dataset.json")
    if keep_key is None:
        session.say("the key of its pseudonyms was not kept: another export will have other pseudonyms")
    for sentence in made.reidentification_risks:
        session.say(f"review before publishing: {sentence}")


@command("audit parquet", leave_out=LOCAL)
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
    from bailiff_log.seals import chain_of_bodies

    found = SegmentFolder(path_of(folder))
    chain, problem = chain_of_bodies(found.pool, found.seals, trust or ())
    if problem:
        raise CheckFailed(f"{folder}: {problem}", f"see: bailiff audit verify --archive {folder}")
    written = await segment_proofs.write_all(found, chain)
    names = [each.name for each in written]
    session.show(
        {"pool": found.pool, "segments": names}, lambda: f"{folder}: {count_text(len(names), 'segment')} written as Parquet"
    )
