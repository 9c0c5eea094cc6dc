"""Text of records: one in detail, one as an event, and explanations."""

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from bailiff.render.events import EventRow
from bailiff.render.plain_text import plain
from bailiff_core.humanize import cost_text, thousandths_text

from .style import indented, pairs, table, text

SEQS_SHOWN = 6


def record_block(found: Mapping[str, Any]) -> RenderableType:
    """`bailiff audit show`."""
    facts = pairs()
    for name in ("time", "epoch", "cycle", "cause", "actor", "auth", "engine", "policy", "writer", "offset", "append_time"):
        value = found[name]
        if name == "cycle":
            value = f"{value}, ended by this record" if found["cycle_end"] else value
        if name == "cause" and value.isdigit():
            value = f"#{value}"
        if name == "auth" and value == "none":
            value = "none: not verified"
        if value not in ("", None):
            facts.add_row(name.replace("_", " "), text(str(value)))
    if found["signed_by"]:
        facts.add_row("signed by", text(found["signed_by"]))
    if found["vouched_by"] is not None:
        facts.add_row("vouched by", text(f"{found['vouched_by']['issuer']}, subject {found['vouched_by']['subject']}"))
    for position, offset in found["inputs"].items():
        facts.add_row("input read", text(f"{position} up to offset {offset - 1}"))
    facts.add_row("hash", Text(found["hash"], "bold"))
    facts.add_row("continues", f"#{found['seq'] - 1} {found['prev']}" if found["seq"] else "none: the first record")
    data = json.dumps(found["data"], indent=2, ensure_ascii=False)
    body = [text(line) for line in data.splitlines()]
    title = text(f"{found['pool']}#{found['seq']}  {found['type']}", "bold")
    return Group(title, *(text(line) for line in found["lines"]), "", indented(facts), "", *body)


EVENT_TONES = {
    "Preempted": "magenta",
    "Reclaimed": "magenta",
    "Moved": "magenta",
    "Evicting": "yellow",
    "Stopping": "yellow",
    "Requeued": "yellow",
    "Shrunk": "yellow",
    "Pending": "",
    "Scheduled": "cyan",
    "Reserved": "magenta",
    "Started": "green",
    "Resumed": "green",
    "Restarted": "green",
    "Grown": "green",
    "Succeeded": "green",
    "Failed": "red",
    "Evicted": "red",
    "Rejected": "red",
    "NodeLost": "red",
    "NodeNotReady": "yellow",
    "NodeReady": "green",
    "EvictionStuck": "red",
    "GraceShortened": "yellow",
    "DecisionFailed": "red",
}


def event_line(row: EventRow) -> Text:
    """One line of `bailiff events`."""
    line = Text()
    line.append(row["time"][5:19].replace("T", " "), "dim")
    line.append(f" {row['pool']}#{row['seq']:<6}", "cyan")
    line.append(f" {row['type']:<16}", EVENT_TONES.get(row["type"], ""))
    tasks = f"/{row['tasks']}" if row["tasks"] else ""
    about = f"{plain(row['job'] or row['node']) or '-'}{tasks}"
    where = row["node"] if row["job"] and row["type"] in ("Scheduled", "Started", "Resumed", "Restarted", "Reserved") else ""
    project = f"[{row['project']}]" if row["project"] else ""
    more = "  ".join(part for part in (project, f"on {where}" if where else "", row["reason"]) if part)
    line.append(f" {about:<16}" if more else f" {about}", "bold")
    line.append(f"  {plain(more)}" if more else "")
    return line


def explained_block(found: Mapping[str, Any]) -> RenderableType:
    """`bailiff explain`."""
    parts: list[RenderableType] = []
    for section in found["sections"]:
        parts += [*([""] if parts else []), text(section["question"], "bold")]
        for sentence in section["sentences"]:
            seqs = ", ".join(f"#{seq}" for seq in sentence["seqs"][-SEQS_SHOWN:])
            if len(sentence["seqs"]) > SEQS_SHOWN:
                seqs = f"latest: {seqs}"
            line = text(sentence["text"]) + Text(f"  ({seqs})" if seqs else "", "dim")
            parts.append(Padding(line, (0, 0, 0, 2), expand=False))
    if found["candidates"] is not None:
        several = len({row["action"] for row in found["candidates"]}) > 1
        columns = (*(["ACTION"] if several else []), "JOB", "TASKS", "CLASS", "PROJECT", "GPUS", "COST", "VICTIM?")
        listed = table(*columns, right=("GPUS", "COST"))
        for row in found["candidates"]:
            taken = Text("yes", "yellow") if row["chosen"] else text(f"no: {row['rule']}" if row["rule"] else "no: not needed")
            listed.add_row(
                *([row["action"]] if several else []),
                text(row["job"], "bold"),
                (row["tasks"] or "all") + (f", after {row['after']}" if row["after"] else ""),
                text(f"{row['class_name']} {row['priority']}"),
                text(row["project"] or "-"),
                thousandths_text(row["gpu_milli"]),
                ("+ " if row["after"] else "") + cost_text(row["lost_gpu_ms"]),
                taken,
            )
        parts += ["", Text("All candidates at that time, by replay", "bold"), indented(listed)]
    if found["condition"] is not None:
        condition = found["condition"]
        parts += ["", text(f"condition {condition['type']}, reason {condition['reason']}: {condition['message']}", "dim")]
    return Group(*parts)
