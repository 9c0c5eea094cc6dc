"""`bailiff explain`: why a job is pending or was preempted, why a decision was made, which job had a GPU at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from .audit import PANEL, FromArchive, FromFile, source_of
from .session import Session, command

if TYPE_CHECKING:
    from bailiff_bus.port import Message
    from bailiff_core.model.state import PoolState


def register(app: typer.Typer) -> None:
    """Add the command to the root."""
    command(app, rich_help_panel=PANEL)(explain)


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

    Every sentence cites its records (audit show SEQ). Everything is read from the log; no service is queried.
    """
    from bailiff.explain.explanations import Log
    from bailiff.explain.question import answer
    from bailiff.render.tables.records import explained_block

    async def read() -> AsyncGenerator[Message, None]:
        async with source_of(session, file, archive) as source, aclosing(source.messages) as messages:
            async for message in messages:
                yield message

    async def state() -> PoolState:
        """The state at the end of the log; for Kafka's log from the client's snapshot, if the log confirms it."""
        if is_offline:
            return await log.folded()
        async with session.client() as client:
            return (await client.projection(session.pool)).state

    async with source_of(session, file, archive) as source:
        pool, live, is_offline = source.pool, source.path is None, file is not None or archive is not None
        source.from_its_beginning("explain")
    log = Log(pool, read, state)
    explained = await answer(log, about, all_=all_, instead=instead, next_=next_, live=live)
    shown = explained.model_dump(mode="json")
    session.show(shown, lambda: explained_block(shown))
