"""`bailiff class list`: the priority classes of a pool."""

import typer

from .session import Session, command


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    group = typer.Typer(help="Priority classes.", no_args_is_help=True)
    group.callback()(_nothing)
    command(group, "list")(list_classes)
    app.add_typer(group, name="class", rich_help_panel="Machines and pools")


def _nothing() -> None:
    """Callback: without one, Typer turns a group with one command into that command."""


async def list_classes(session: Session) -> None:
    """List priority classes, highest first, with their jobs. They are part of the policy: bailiff policy show"""
    from bailiff.render.serializers.policy import class_rows
    from bailiff.render.tables.policy import classes_table

    async with session.client() as client:
        rows = class_rows((await client.projection(session.pool)).state)
        session.show(rows, lambda: classes_table(rows))
