"""`bailiff notify`: tell owners of evictions and returns, for as long as it runs."""

from pathlib import Path
from typing import Annotated

import typer

from bailiff.notify import Notifier, read_notify_file

from .session import Session, command


def register(app: typer.Typer) -> None:
    """Add the command to the root."""
    command(app, rich_help_panel="Operators", leave_out=("domain", "actor", "key"))(notify)


async def notify(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Whom to tell of what (YAML); docs/cli.md shows one.")],
    once: Annotated[bool, typer.Option("--once", help="Deliver what is owed now, and end: for cron.")] = False,
) -> None:
    """Follow the logs and tell owners when a job had to leave and when it is back: by a webhook, or a local command.

    Each notice is delivered at least once and carries an id that is the same each time. A hook begins with what happens
    after it was first run; its position is kept on disk.
    """
    told = read_notify_file(file)

    def say(text: str) -> None:
        session.err.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)

    async with session.client() as client:
        count = await Notifier(client, told, say).run(once=once)
    session.show({"delivered": count}, lambda: f"{count} notices delivered")
