"""`bailiff version` and `bailiff help-exit-codes`."""

import typer

from bailiff.client.errors import ExitCode

from . import version_text
from .command_table import HELP
from .session import Session, command


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    command(app, rich_help_panel=HELP, leave_out=("pool", "actor", "key", "kafka", "settings"))(version)
    app.command("help-exit-codes", rich_help_panel=HELP)(help_exit_codes)


def version(session: Session) -> None:
    """Print the release, the digest of the engine's source, and the version of its rules."""
    from bailiff_log.engine_identity import engine_identity

    engine = engine_identity()
    found = {"release": engine.release, "engine_digest": engine.digest, "logic": engine.logic}
    session.show(found, version_text)


def help_exit_codes() -> None:
    """List the exit codes and what each means."""
    for code in ExitCode:
        typer.echo(f"{int(code):>3}  {code.name.lower().replace('_', '-'):<14} {code.__doc__}")
