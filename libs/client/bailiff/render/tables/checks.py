"""Table of the findings of `bailiff doctor`."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from bailiff.client.checks import Check
from bailiff.render.plain_text import plain

from .style import state_word, table, text


def checks_table(found: Sequence[Check]) -> RenderableType:
    """`bailiff doctor`."""
    made = table("", "CHECK", "FOUND")
    for check in found:
        cell = text(check["found"])
        if check["advice"]:
            cell.append(f"\n→ {plain(check['advice'])}", "bold" if check["status"] == "wrong" else "")
        made.add_row(state_word(check["status"]), text(check["check"]), cell)
    wrong = sum(check["status"] == "wrong" for check in found)
    warned = sum(check["status"] == "warn" for check in found)
    if wrong:
        end = Text(f"{wrong} wrong" + (f", {warned} warnings" if warned else ""), "bold red")
    else:
        end = Text(f"No problems, {warned} warnings" if warned else "No problems", "bold green")
    return Group(made, "", end)
