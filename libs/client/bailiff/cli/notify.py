"""`bailiff notify`: notifies job owners of evictions and restarts."""

from pathlib import Path
from typing import Annotated

import typer

from .session import Session, command


@command("notify", leave_out=("pool", "actor", "key"))
async def notify(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Notification hooks (YAML); example in docs/how-to/notify.md.")],
    once: Annotated[bool, typer.Option("--once", help="Deliver pending notifications and exit, as for cron.")] = False,
) -> None:
    """Notify job owners of preemptions and restarts, by webhook or local command.

    Each notification is delivered at least once, with a stable id. A hook starts with events after its first run; its position
    is stored on disk.
    """
    from bailiff.notify.notifier import Notifier, read_notify_file

    notify_file = read_notify_file(file)

    async with session.client() as client:
        count = await Notifier(client, notify_file, lambda text: session.note(text, "yellow")).run(once=once)
    session.show({"delivered": count}, lambda: f"{count} notifications delivered")
