"""`bailiff audit replay`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bailiff.cli.log_source import FromArchive, FromFile, Strict, source_of
from bailiff.cli.session import Session, command
from bailiff.client.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from bailiff_bus.port import Message


@command("audit replay")
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
    strict: Strict = False,
) -> ExitCode:
    """Replay every decision cycle with the engine named by its records, and compare byte for byte.

    Engines of other releases run in separate processes, from stored wheels (bailiff engine list). TIME is as in
    2026-01-31T12:00:00Z, or -2h: before now, for a file before its end. Records before --from are verified and folded.

    With --strict, exit code 9 where a part was replayed by another engine than its records name, or a stored wheel was refused.
    """
    from bailiff.audit import resume_files
    from bailiff.audit.log_positions import Point, end_of, point, wall_clock
    from bailiff.audit.parallel_replay import replay_in_parallel
    from bailiff.audit.replay import replay as replay_log
    from bailiff.tables.audit import replayed_block

    if resume is not None and (from_ or to):
        raise UsageError("--resume continues where it stopped: it excludes --from and --to", "use one")
    async with source_of(session, file, archive) as source:
        pool, is_live, folder = source.pool, source.path is None, source.folder
        source.from_its_beginning("replay")
    known = resume_files.last_replayed(resume, pool) if resume is not None else None

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
        resume_files.note_replayed(resume, found)
    session.show(found, lambda: replayed_block(found))
    if not found["ok"]:
        return ExitCode.FOUND_WRONG
    if strict and found["to_judge"]:
        return ExitCode.TO_JUDGE
    return ExitCode.ENGINE_MISSING if found["cycles_of_other_engines"] else ExitCode.DONE
