"""Where a command reads the log from: its options, and the log itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bailiff.client.errors import NotFound, UsageError

from .session import Session

if TYPE_CHECKING:
    from bailiff.audit.log_sources import Source
    from bailiff_log.reader import Entry

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
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit code 9 if nothing is wrong, but something was found that a person has to judge.")
]


@asynccontextmanager
async def source_of(
    session: Session, file: Path | None, archive: str | None, witnesses: Sequence[str] = ()
) -> AsyncIterator[Source]:
    """The source of the log: a file, a folder of segments, the archive, or Kafka. Raises `ClientError`.

    Args:
        witnesses: Known ones, beside those of the settings, each as `VKEY` or `VKEY URL`.
    """
    from bailiff.audit.log_sources import from_archive, from_file, from_kafka
    from bailiff.audit.object_path import path_of
    from bailiff_log.cosignatures import witness_keys

    if file is not None and archive is not None:
        raise UsageError("--file and --archive are mutually exclusive", "use one")
    path = path_of(archive) if archive is not None and not is_database(archive) else file
    async with AsyncExitStack() as opened:
        if path is not None:
            source = from_file(path)
            if session.pool not in (None, source.pool):
                text = f"{path} is a log of {source.pool}, not of {session.pool}"
                raise NotFound(text, f"use --pool {source.pool}, or another file")
        elif archive is not None:
            source = await opened.enter_async_context(from_archive(archive, session.pool))
        else:
            known = session.settings.named_witnesses() | witness_keys(witnesses)
            source = await from_kafka(await opened.enter_async_context(session.client()), session.pool, known)
        await opened.enter_async_context(aclosing(source.messages))  # before what it reads from
        yield source


def is_database(address: str) -> bool:
    """Whether it is an archive in PostgreSQL, not a folder of segments."""
    return address.startswith(("postgresql://", "postgres://"))


async def mark_end(entries: AsyncIterator[Entry], end: int) -> AsyncIterator[Entry | None]:
    """The entries, with a None after the last one below offset `end`, and at the end of the stream."""
    async for entry in entries:
        yield entry
        if entry.offset == end - 1:
            yield None
    yield None
