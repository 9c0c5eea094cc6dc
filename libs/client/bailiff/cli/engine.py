"""`bailiff engine`: the store of engine wheels by digest, with which `audit replay` replays logs of other releases."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from bailiff.client.errors import CheckFailed, ExitCode, UsageError

from .session import LOCAL, Session, command


@command("engine list", leave_out=LOCAL)
async def list_(session: Session) -> ExitCode:
    """List the engines in the store (BAILIFF_ENGINES), each verified against its digest."""
    from bailiff.tables.audit import engines_block
    from bailiff_log import engine_store

    store, mine = session.settings.engines, engine_store.running_engine()
    rows: list[dict[str, Any]] = [
        {**asdict(each), "path": str(each.path), "running": each.digest == mine.digest}
        for each in engine_store.stored_engines(store)
    ]
    found = {"store": str(store), "running": {"engine": str(mine), "digest": mine.digest}, "engines": rows}
    session.show(found, lambda: engines_block(found))
    return ExitCode.FOUND_WRONG if any(row["problem"] for row in rows) else ExitCode.DONE


@command("engine keep", leave_out=LOCAL)
async def keep(
    session: Session,
    source: Annotated[
        Path | None,
        typer.Argument(metavar="WHEEL|FOLDER", help="A wheel of bailiff-core, or its source. Default: the running engine."),
    ] = None,
    git: Annotated[
        str | None,
        typer.Option(metavar="REVISION", help="A tag or commit of the Bailiff repository in FOLDER (default: this one)."),
    ] = None,
    digest: Annotated[
        str | None, typer.Option(help="Fail unless the engine has this digest (as in ce_engine of a record).")
    ] = None,
) -> None:
    """Store an engine as a wheel, in a folder named by its digest.

    The same files give the same wheel, byte for byte, on every machine. Admission stores its own engine at start.
    """
    from bailiff_log import engine_store

    store = session.settings.engines
    try:
        if git is not None:
            engine = engine_store.engine_from_commit(source or Path(), git)
        else:
            engine = engine_store.running_engine() if source is None else engine_store.load_engine(source)
    except engine_store.EngineError as no:
        raise UsageError(str(no)) from None
    if digest is not None and not (len(digest) >= 12 and engine.digest.startswith(digest)):
        text = f"found engine {engine.digest} ({engine}), expected {digest}: not stored"
        raise CheckFailed(text, "use the release, tag or commit that wrote the records")
    try:
        path = engine_store.store_engine(store, engine)
    except OSError as error:
        raise UsageError(f"{store}: cannot be written: {error.strerror}", "set another folder: BAILIFF_ENGINES") from None
    found = {"engine": str(engine), "digest": engine.digest, "path": str(path)}
    session.show(found, lambda: f"{engine}: {path}")
