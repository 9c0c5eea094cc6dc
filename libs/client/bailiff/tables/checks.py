"""Table of the findings of `bailiff doctor`."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from bailiff.doctor.finding import Check
from bailiff.render.plain_text import plain
from bailiff_core.humanize import count_text

from .style import state_word, table, text


def checks_table(found: Sequence[Check]) -> RenderableType:
    """`bailiff doctor`: what is so now, then what was rejected and refused."""
    now, past = ([check for check in found if check["when"] == when] for when in ("now", "past"))
    parts: list[RenderableType] = [_table(now)]
    if past:
        parts += ["", Text("Rejected and refused before", "bold"), _table(past)]
    recent = sum(check["status"] == "warn" for check in past)
    end = _summary(now)
    if recent:
        end.append(f". {count_text(recent, 'kind')} of messages rejected or refused in the last day", "dim")
    return Group(*parts, "", end)


def _summary(now: Sequence[Check]) -> Text:
    wrong = sum(check["status"] == "wrong" for check in now)
    warned = sum(check["status"] == "warn" for check in now)
    if wrong:
        return Text(f"{wrong} wrong" + (f", {count_text(warned, 'warning')}" if warned else ""), "bold red")
    return Text(f"No problems now, {count_text(warned, 'warning')}" if warned else "No problems now", "bold green")


def _table(checks: Sequence[Check]) -> RenderableType:
    """Advice that several findings share stands once, at the last of them."""
    made = table("", "CHECK", "FOUND")
    left = Counter(check["advice"] for check in checks)
    shared = dict(left)
    for check in checks:
        cell, advice = text(check["found"]), check["advice"]
        left[advice] -= 1
        if advice and not left[advice]:
            count = f" (for {shared[advice]} findings)" if shared[advice] > 1 else ""
            cell.append(f"\n→ {plain(advice)}{count}", "bold" if check["status"] == "wrong" else "")
        made.add_row(state_word(check["status"]), text(check["check"]), cell)
    return made
