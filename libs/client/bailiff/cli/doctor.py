"""`bailiff doctor` and `bailiff version`: is everything there, and which code is this?"""

from pathlib import Path
from typing import Annotated

import typer

from bailiff.doctor import examine
from bailiff.problem import ExitCode
from bailiff.tables.checks import checks_table
from bailiff_bus.engine_identity import engine_identity

from .session import Session, command

PANEL = "Help"


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    command(app, rich_help_panel=PANEL, leave_out=("domain", "actor", "key"))(doctor)
    command(app, rich_help_panel=PANEL, leave_out=("domain", "actor", "key", "kafka", "settings"))(version)


async def doctor(
    session: Session,
    state_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where services write the files with their addresses.")
    ] = None,
    probe: Annotated[bool, typer.Option("--probe", help="Write one empty message to compare the clocks exactly.")] = False,
) -> ExitCode:
    """Check this machine, Kafka, the topics, every pool's log and the services; say what is wrong and what to do."""
    async with session.client() as client:
        found = await examine(client, session.settings, state_dir=state_dir, probe=probe)
    session.show(found, lambda: checks_table(found))
    return ExitCode.FOUND_WRONG if any(check["status"] == "wrong" for check in found) else ExitCode.DONE


async def version(session: Session) -> None:
    """The release, the digest of the core that decides, and the number of its rules."""
    engine = engine_identity()
    found = {"release": engine.release, "engine_digest": engine.digest, "logic": engine.logic}
    session.show(found, lambda: f"bailiff {engine.release}, engine {engine.digest[:12]}, logic {engine.logic}")
