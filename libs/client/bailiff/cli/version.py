"""`bailiff version` and `bailiff help-exit-codes`."""

import typer

from bailiff.client.errors import ExitCode

from .session import OFFLINE, SHARED, Session, command
from .version_line import version_text


@command("version", leave_out=OFFLINE)
def version(session: Session) -> None:
    """Print the release, the digest of the engine's source, and the version of its rules."""
    from bailiff_log.engine_identity import engine_identity

    engine = engine_identity()
    found = {"release": engine.release, "engine_digest": engine.digest, "logic": engine.logic}
    session.show(found, version_text)


@command("help-exit-codes", leave_out=tuple(SHARED))
def help_exit_codes(_: Session) -> None:
    """List the exit codes and what each means."""
    for code in ExitCode:
        typer.echo(f"{int(code):>3}  {code.name.lower().replace('_', '-'):<14} {code.__doc__}")
