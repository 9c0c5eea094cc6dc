"""Tables of `bailiff security`."""

from collections.abc import Sequence

from rich.console import RenderableType

from bailiff.security.apply import Applied
from bailiff.security.tools import by_operations
from bailiff_bus.grants import Principal

from .style import table, text


def rights_table(principals: Sequence[Principal]) -> RenderableType:
    """`bailiff security rights`: one row for each set of operations."""
    made = table("USER", "OPERATIONS", "ON", "NAMES")
    for principal in principals:
        for operations, grants in by_operations(principal):
            names = ", ".join(grant.name for grant in grants)
            made.add_row(
                text(principal.name), text(", ".join(each.title for each in operations)), text(grants[0].resource), text(names)
            )
    return made


def applied_table(applied: Sequence[Applied], *, pruned: bool) -> RenderableType:
    """`bailiff security apply`: one row for each user."""
    made = table("USER", "CREATED", "DELETED" if pruned else "NOT NEEDED", "SETTINGS")
    for each in applied:
        made.add_row(
            text(each.principal),
            text(f"{len(each.created)} rules"),
            text("; ".join(each.extra) or "–"),
            text(each.settings or "–"),
        )
    return made
