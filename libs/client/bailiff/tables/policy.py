"""Tables of the policy in force and its priority classes."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from bailiff.render.plain_text import plain
from bailiff.render.serializers.policy import ClassRow

from .cells import seconds_cell, some
from .style import indented, pairs, table, text


def classes_table(rows: Sequence[ClassRow]) -> RenderableType:
    """`bailiff class list`."""
    numbers = ("VALUE", "RUNNING", "PENDING")
    made = table("CLASS", "VALUE", "PREEMPTIBLE", "CAN PREEMPT", "GRACE", "USERS", *numbers[1:], right=numbers)
    for row in rows:
        marks = [mark for mark, wanted in (("default", row["is_default"]), ("immediate", row["immediate"])) if wanted]
        name = Text(plain(row["priority_class"]), "bold") + Text(f" ({', '.join(marks)})" if marks else "", "dim")
        made.add_row(
            name,
            str(row["value"]),
            "yes" if row["preemptible"] else "no",
            "yes" if row["can_preempt"] else "no",
            seconds_cell(row["grace_s"]),
            text("all" if row["users"] is None else some(row["users"], 3)),
            str(row["jobs_running"] or "-"),
            str(row["jobs_pending"] or "-"),
        )
    return Group(made, Text("Higher values take precedence.", "dim"))


def policy_block(found: Mapping[str, Any]) -> RenderableType:
    """`bailiff policy show`."""
    document = found["policy"]
    classes = table("CLASS", "VALUE", "PREEMPTIBLE", "CAN PREEMPT", "GRACE", right=("VALUE",))
    for entry in sorted(document["priority_classes"], key=lambda entry: -entry["value"]):
        name = Text(plain(entry["name"]), "bold") + Text(" (default)" if entry["global_default"] else "", "dim")
        grace = entry["grace"] or ""
        can_preempt = "yes" if entry["preemption_policy"] == "PreemptLowerPriority" else "no"
        classes.add_row(name, str(entry["value"]), "yes" if entry["preemptible"] else "no", can_preempt, grace)
    parts: list[RenderableType] = [Text(f"policy of {found['pool']}, in force since #{found['seq']}", "bold"), indented(classes)]
    order = pairs()
    for name, value in document.items():
        if isinstance(value, str):
            order.add_row(name, value)
    projects = ", ".join(project["name"] for project in document["projects"][:10])
    more = len(document["projects"]) - 10
    order.add_row("projects", text((projects or "none") + (f" and {more} more" if more > 0 else "")))
    for topology in document["topologies"]:
        order.add_row(f"topology {plain(topology['name'])}", text(" > ".join(topology["levels"])))
    parts += ["", indented(order)]
    for section, fields in document.items():
        if not isinstance(fields, dict) or section == "limits":
            continue
        rules = pairs()
        for name, value in fields.items():
            left_open = name == "scope" and value is None
            rules.add_row(name, text(f"{found['scope']} (default: project if there are projects)" if left_open else _rule(value)))
        parts += ["", Text(section, "bold"), indented(rules)]
    parts += [
        "",
        Text(f"At most {document['max_rejections_per_minute']} rejections per minute and sender are recorded singly.", "dim"),
        Text(_limits(document["limits"]), "dim"),
    ]
    return Group(*parts)


def _rule(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_rule(each) for each in value) or "none"
    if isinstance(value, dict):
        pairs = (f"{key} → {_rule(each)}" for key, each in value.items() if each is not None)
        return "; ".join(pairs) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "off" if value is None else str(value)


def _limits(limits: dict[str, dict[str, int | None]]) -> str:
    """As `Limits: 20000 open jobs per user`."""
    units = {"open_jobs": "open jobs", "requests_per_second": "requests/s", "bytes_per_second": "bytes/s"}
    stated = [
        f"{amount} {units[name]} per {whose}"
        for whose, each in limits.items()
        for name, amount in each.items()
        if amount is not None
    ]
    return f"Limits: {', '.join(stated) or 'none'}."
