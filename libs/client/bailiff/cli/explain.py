"""`bailiff explain`: why a job waits or had to leave, what one decision says, what was on a GPU at some time."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

import typer

from bailiff import explaining
from bailiff.explaining import Explained, Log
from bailiff.moments import WANTED, Point, moment, wall_clock
from bailiff.problem import ExitCode, Problem
from bailiff.tables.records import explained_block
from bailiff_bus.port import Message
from bailiff_core.model.pool import Pool

from .audit import PANEL, FromArchive, FromFile, source_of
from .jobs import no_such_job
from .session import Session, command

NODE = re.compile(r"(?P<node>[^/@]+)(/(gpu)?(?P<device>[0-9]+))?@(?P<when>.+)")


def register(app: typer.Typer) -> None:
    """Add the command to the root."""
    command(app, rich_help_panel=PANEL)(explain)


async def explain(
    session: Session,
    about: Annotated[
        str,
        typer.Argument(
            metavar="JOB|SEQ|NODE@TIME",
            help="A job's name; a record's number, as in 118 or #118; a node, or one of its GPUs, at a time, as in "
            "node-3@2026-01-31T12:00:00Z or node-3/gpu2@-10m.",
        ),
    ],
    all_: Annotated[
        bool, typer.Option("--all", "-a", help="Also every job that was considered, each with what shielded it, by replay.")
    ] = False,
    instead: Annotated[
        str | None,
        typer.Option("--not", "--why-not", metavar="JOB", help="Also why not that one, or what would have been without it."),
    ] = None,
    next_: Annotated[
        bool,
        typer.Option("--next", help="Also who would be next, if the same asker came again; of a decision it is told anyway."),
    ] = False,
    file: FromFile = None,
    archive: FromArchive = None,
) -> None:
    """Why does it wait, why did it have to leave, for whom, when is it back? Why this one and not that one, and who is next?

    Every sentence names the records to check it by (audit show SEQ). All of it is read from the log; no service is asked.
    """

    async def read() -> AsyncGenerator[Message, None]:
        async with source_of(session, file, archive) as source, aclosing(source.messages) as messages:
            async for message in messages:
                yield message

    async def pool() -> Pool:
        """As it is at the end; of Kafka's log from the client's cache on, where the log confirms that."""
        if elsewhere:
            return await log.folded()
        async with session.client() as client:
            return (await client.view(session.domain)).pool

    async with source_of(session, file, archive) as source:
        domain, live, elsewhere = source.domain, source.path is None, file is not None or archive is not None
        source.from_its_beginning("explain")
    log = Log(domain, read, pool)
    explained = await _explained(log, about, all_=all_, instead=instead, next_=next_, live=live)
    shown = explained.model_dump(mode="json")
    session.show(shown, lambda: explained_block(shown))


async def _explained(log: Log, about: str, *, all_: bool, instead: str | None, next_: bool, live: bool) -> Explained:
    node = NODE.fullmatch(about)
    if node is not None:
        if all_ or next_ or instead is not None:
            raise Problem(ExitCode.USAGE, f"--all, --not and --next are about decisions, and {about} is a node at a time")
        device = int(node["device"]) if node["device"] is not None else None
        return await explaining.explain_node(log, about, node["node"], device, _when(node["when"], live=live))
    number = about.removeprefix("#")
    seq = int(number) if number.isascii() and number.isdigit() else None
    found = await log.found(about, seq)
    if seq is not None:
        explained = await explaining.explain_record(log, about, seq, found)
    elif about in found.pool.jobs:
        explained = explaining.explain_job(about, found)
    else:
        raise no_such_job(about, log.domain, found.history)
    if instead is not None:
        explained = await explaining.with_instead(log, explained, found, instead)
    if next_ and explained.next is None:
        explained = await explaining.with_next(log, explained, found)
    return await explaining.with_candidates(log, explained, found) if all_ else explained


def _when(text: str, *, live: bool) -> Point:
    """How long ago is counted from now, and in a file from its last record."""
    try:
        found = moment(text)
    except ValueError:
        raise Problem(ExitCode.USAGE, f"NODE@TIME: expected {WANTED}; found {text!r}") from None
    return found.at(wall_clock()) if live else found
