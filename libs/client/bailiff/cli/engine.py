"""`bailiff engine`: the engines that are kept by digest, so that `audit replay` can decide with the one that a record names."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from bailiff.problem import ExitCode, Problem
from bailiff.tables.audit import engines_block
from bailiff_bus import engines

from .audit import PANEL
from .session import Session, command

LOCAL = ("domain", "kafka", "actor", "key")


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    engine = typer.Typer(help="Keep the engines of releases, to decide their turns again.", no_args_is_help=True)
    command(engine, "list", leave_out=LOCAL)(list_)
    command(engine, leave_out=LOCAL)(keep)
    app.add_typer(engine, name="engine", rich_help_panel=PANEL)


async def list_(session: Session) -> ExitCode:
    """The engines that are kept here, each checked against its digest. Where: BAILIFF_ENGINES."""
    store, mine = session.settings.engines, engines.running_engine()
    rows: list[dict[str, Any]] = [
        {**asdict(each), "path": str(each.path), "running": each.digest == mine.digest} for each in engines.kept(store)
    ]
    found = {"store": str(store), "running": {"engine": str(mine), "digest": mine.digest}, "engines": rows}
    session.show(found, lambda: engines_block(found))
    return ExitCode.FOUND_WRONG if any(row["problem"] for row in rows) else ExitCode.DONE


async def keep(
    session: Session,
    source: Annotated[
        Path | None, typer.Argument(metavar="WHEEL|FOLDER", help="A wheel of bailiff-core, or its source. Default: what runs.")
    ] = None,
    git: Annotated[
        str | None, typer.Option(metavar="REVISION", help="A tag or commit of Bailiff's repository: FOLDER, or this one.")
    ] = None,
    digest: Annotated[str | None, typer.Option(help="Only if it is this engine: the digest that a record names.")] = None,
) -> None:
    """Keep an engine as a wheel, in a folder named by the digest of its files: the one that the records name.

    The same files give the same wheel, byte for byte, on every machine. Admission keeps its own when it starts.
    """
    store = session.settings.engines
    try:
        if git is not None:
            engine = engines.engine_of_commit(source or Path(), git)
        else:
            engine = engines.running_engine() if source is None else engines.engine_in(source)
    except engines.NoEngine as no:
        raise Problem(ExitCode.USAGE, str(no)) from None
    if digest is not None and not (len(digest) >= 12 and engine.digest.startswith(digest)):
        text = f"that is the engine {engine.digest} ({engine}), not {digest}: it is not kept"
        raise Problem(ExitCode.FOUND_WRONG, text, "the release, tag or commit is another one than that which wrote the records")
    try:
        path = engines.keep(store, engine)
    except OSError as error:
        raise Problem(ExitCode.USAGE, f"{store}: cannot be written: {error.strerror}", "say where: BAILIFF_ENGINES") from None
    found = {"engine": str(engine), "digest": engine.digest, "path": str(path)}
    if session.for_people:
        session.say(f"{engine}: {path}")
    else:
        session.show(found, lambda: "")
