"""`bailiff explain`: why a job is pending or was preempted, why a decision was made, which job had a GPU at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .log_source import FromArchive, FromFile, source_of
from .session import Session, command

if TYPE_CHECKING:
    from bailiff.explain.explanations import Log
    from bailiff_bus.port import Message


@command("explain")
async def explain(
    session: Session,
    about: Annotated[
        str,
        typer.Argument(
            metavar="JOB|SEQ|NODE@TIME",
            help="A job; a record number, as in 118 or #118; a node or one of its GPUs at a time, as in "
            "node-3@2026-01-31T12:00:00Z or node-3/gpu2@-10m.",
        ),
    ],
    all_: Annotated[
        bool, typer.Option("--all", "-a", help="Also every candidate, each with the protection that excluded it, by replay.")
    ] = False,
    instead: Annotated[
        str | None,
        typer.Option("--not", "--why-not", metavar="JOB", help="Also why this job was not chosen, or the outcome without it."),
    ] = None,
    next_: Annotated[
        bool,
        typer.Option(
            "--next", help="Also which jobs would be preempted next for the same preemptor; always shown for a decision."
        ),
    ] = False,
    file: FromFile = None,
    archive: FromArchive = None,
) -> None:
    """Explain why a job is pending or was preempted, by which job, and why it was chosen.

    Sentences cite the records that they follow from (audit show SEQ); all is read from the log.
    """
    from bailiff.explain.question import answer, log_of
    from bailiff.tables.records import explained_block

    async with AsyncExitStack() as opened:
        if file is None and archive is None:
            log, live = await log_of(await opened.enter_async_context(session.client()), session.pool), True
        else:
            log, live = await _stored_log(session, file, archive)
        explained = await answer(log, about, all_=all_, instead=instead, next_=next_, live=live)
    shown = explained.model_dump(mode="json")
    session.show(shown, lambda: explained_block(shown))


async def _stored_log(session: Session, file: Path | None, archive: str | None) -> tuple[Log, bool]:
    """A log in files or in the archive, which is read anew for each question; and whether it is the auditor's."""
    from bailiff.explain.explanations import Log

    async def read() -> AsyncGenerator[Message, None]:
        async with source_of(session, file, archive) as source:
            async for message in source.messages:
                yield message

    async with source_of(session, file, archive) as source:
        source.from_its_beginning("explain")
    log = Log(source.pool, read, lambda: log.folded())
    return log, source.path is None
