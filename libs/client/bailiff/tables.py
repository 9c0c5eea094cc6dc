"""Tables and blocks for people, made from the dicts of `present` and `walk`, never from state itself.

Meant to be read at 100 columns; colour only repeats what a word says already.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bailiff_core.model.places import ranges
from bailiff_core.words import cost_text, duration_text, memory_text, thousandths_text

from .doctor import Check
from .eventline import plain
from .events import EventRow
from .present import AffectedRow, ClassRow, DrainRow, JobDetails, JobRow, MoveRow, NodeRow, PoolRow
from .projects import ProjectRow, amounts_text
from .replaying import EngineUsed, Replayed
from .walk import ORPHAN_MEANINGS, ORPHANS_SHOWN, Verification

STATE_STYLES = {
    "running": "green", "succeeded": "green", "ready": "green", "ok": "green", "free": "green",
    "evicting": "yellow", "leaving": "yellow", "reserved": "magenta", "starting": "cyan", "cancelling": "yellow",
    "pending": "", "held": "red", "failed": "red", "cancelled": "dim", "unreachable": "yellow", "lost": "red",
    "paused": "cyan", "pausing": "yellow", "draining": "yellow", "drained": "cyan",
    "unhealthy": "red", "quarantined": "red", "shared": "cyan", "warn": "yellow", "wrong": "red", "skipped": "dim",
}  # fmt: skip


NUMBERS = ("#", "GPUS", "TRY", "EVICTED")
SEQS_SHOWN = 6
MOVES_SHOWN = 3
LIST_WIDTH, MOST_WIDTH = 100, 1000
WHOLE = ("JOB", "PROJECT", "TASKS", "NODE", "CLASS", "STATE", "TIME", "SUBMITTED")


def table(*columns: str, right: Sequence[str] = (), **options: Any) -> Table:
    """An empty table in the house style: no frame, quiet headings. `right` names the columns of numbers."""
    made = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0), **options)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", no_wrap=column in (*WHOLE, *right))
    return made


def state(word: str) -> Text:
    """A state in its colour."""
    return Text(word, STATE_STYLES.get(word, ""))


def seconds(number: int | None) -> str:
    """A duration for a cell."""
    return "" if number is None else duration_text(number * 1_000_000) if number else "0s"


def counted(number: int, what: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def text(value: str, style: str = "") -> Text:
    """Text from outside: no markup, nothing that a terminal obeys."""
    return Text(plain(value), style)


# --- jobs


def jobs(rows: Sequence[JobRow], *, wide: bool = False) -> RenderableType:
    """`bailiff list`."""
    if not rows:
        return Text("No jobs. Submit one: bailiff submit --gpus 1 -- python train.py", "dim")
    added = ["TASKS", "RESERVED", "SUBMITTED"] if wide else []
    notes = any(row["note"] for row in rows)
    made = table(
        "#",
        "JOB",
        *(["PROJECT"] if wide else []),
        "CLASS",
        "STATE",
        "GPUS",
        "NODES",
        "TRY",
        "EVICTED",
        "TIME",
        *added,
        *(["NOTE"] if notes else []),
        right=NUMBERS,
    )
    for row in rows:
        cells: list[RenderableType] = [
            "" if row["ahead"] is None else str(row["ahead"]),
            text(row["job"], "bold"),
            *([text(row["project"] or "-")] if wide else []),
            text(f"{row['priority_class']} {row['priority']}"),
            state(row["state"]),
            _gpus(row),
            text(_some(row["nodes"], 99 if wide else 1)),
            str(row["attempt"] or "-"),
            str(row["evictions"] or "-"),
            _time_spent(row),
        ]
        if wide:
            cells.append(text(_tasks(row)))
            cells.append(text(_some(row["reserved_nodes"], 99)))
            cells.append(text((row["submitted_at"] or "")[5:16].replace("T", " ")))
        made.add_row(*cells, *([text(row["note"], "dim")] if notes else []))
    return Unsqueezed(made, MOST_WIDTH if wide else LIST_WIDTH)


class Unsqueezed:
    """A table as wide as it has to be, up to a bound: better a line that the terminal breaks than a column that is lost."""

    def __init__(self, made: Table, most: int) -> None:
        self._made, self._most = made, most

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table at the width that it asks for."""
        wanted = self._made.__rich_measure__(console, options.update(max_width=MOST_WIDTH)).maximum
        yield from console.render(self._made, options.update(max_width=max(options.max_width, min(wanted, self._most))))


def _gpus(row: JobRow) -> str:
    """What it holds of what it wants, where it runs with fewer tasks."""
    some = 0 < row["placed_tasks"] < row["tasks"]
    wanted = "-" if row["gpus_text"] == "0" else row["gpus_text"]
    return f"{row['placed_gpus_text']}/{wanted}" if some and wanted != "-" else wanted


def _tasks(row: JobRow) -> str:
    least = f", at least {row['min_tasks']}" if row["min_tasks"] < row["tasks"] else ""
    return f"{row['placed_tasks']}/{row['tasks']}{least}"


def _time_spent(row: JobRow) -> str:
    if row["waiting_s"] is not None:
        return f"waits {seconds(row['waiting_s'])}"
    if row["running_s"] is not None:
        return f"{'ran' if row['ended_at'] else 'runs'} {seconds(row['running_s'])}"
    return ""


def job(details: JobDetails) -> RenderableType:
    """`bailiff describe`, without the events."""
    row = details["summary"]
    facts = _pairs()
    place = "" if row["ahead"] is None else f", {row['ahead']} ahead" if row["ahead"] else ", first in the queue"
    facts.add_row("state", Text.assemble(state(row["state"]), place))
    if details["why"]:
        facts.add_row("why", text(details["why"]))
    if row["note"]:
        facts.add_row("note", text(row["note"]))
    preemptible = "preemptible" if row["preemptible"] else "not preemptible"
    aged = f" (its class has {row['base_priority']})" if row["base_priority"] != row["priority"] else ""
    facts.add_row("class", text(f"{row['priority_class']} {row['priority']}{aged}, {preemptible}"))
    if row["project"]:
        facts.add_row("project", text(row["project"]))
    facts.add_row("asks for", text(details["demand"]))
    if row["min_tasks"] < row["tasks"]:
        facts.add_row("tasks", text(f"{row['placed_tasks']}/{row['tasks']} placed, at least {row['min_tasks']}"))
    if row["reserved_nodes"]:
        facts.add_row("reserved on", text(", ".join(row["reserved_nodes"])))
    request = details["request"]
    if "run_time_limit" in request:
        facts.add_row("runs at most", duration_text(request["run_time_limit"]))
    if "topology" in request:
        rule = request["topology"]
        kinds = [f"{kind} {rule[kind]}" for kind in ("required", "preferred") if kind in rule]
        facts.add_row("topology", text(f"{rule['topology']}: {', '.join(kinds)}"))
    if "sub_groups" in request:
        facts.add_row("sub-groups", text(", ".join(group["name"] for group in request["sub_groups"])))
    evicted, failed = counted(row["evictions"], "time"), counted(row["failures"], "time")
    facts.add_row("attempts", f"{row['attempt']}, evicted {evicted}, failed {failed}")
    facts.add_row("submitted", f"{_time(row['submitted_at'])}  (#{details['submitted_seq']})")
    if row["started_at"]:
        facts.add_row(
            "running since" if not row["ended_at"] else "last start", f"{_time(row['started_at'])}  ({seconds(row['running_s'])})"
        )
    if row["ended_at"]:
        facts.add_row("ended", _time(row["ended_at"]))
    if details["reserved_until"]:
        facts.add_row("reserved until", _time(details["reserved_until"]))
    if details["labels"]:
        facts.add_row("labels", text(", ".join(f"{key}={value}" for key, value in details["labels"].items())))
    for move in details["moves"][-MOVES_SHOWN:]:
        facts.add_row("moved", text(_move(move)))
    parts: list[RenderableType] = [text(row["job"], "bold"), _indented(facts)]
    if details["task_list"]:
        talks = any(task["step"] is not None or task["stage"] for task in details["task_list"])
        more = ("EVICTION", "STEP", "SAVED") if talks else ()
        tasks = table("TASK", "NODE", "GPUS", "STATE", "EXIT", *more, right=("TASK", "EXIT", "STEP"))
        for task in details["task_list"]:
            exit_code = "" if task["exit_code"] is None else str(task["exit_code"])
            saved = f"{task['checkpoint_step']} at {_time(task['checkpoint_at'])}" if task["checkpoint_at"] else ""
            step = "" if task["step"] is None else str(task["step"])
            said = (task["stage"].replace("_", " "), step, saved) if talks else ()
            tasks.add_row(
                str(task["task"]), text(task["node"]), _numbers(task["devices"]), state(task["state"]), exit_code, *said
            )
        parts += ["", _indented(tasks)]
    return Group(*parts)


def _move(move: MoveRow) -> str:
    """`from gpu-01 to gpu-02 (#118): 2.1s from the notice until it ran again, 1.4s of it without a process`."""
    where = f"from {_some(move['from_nodes'], 3)} to {_some(move['to_nodes'], 3)} (#{move['seq']})"
    if move["pause_s"] is None or move["down_s"] is None:
        return f"{where}: not there yet"
    return f"{where}: {move['pause_s']:.1f}s from the notice until it ran again, {move['down_s']:.1f}s of it without a process"


# --- nodes and pools


def affected(rows: Sequence[AffectedRow]) -> RenderableType:
    """Whom a drain concerns."""
    if not rows:
        return Text("Nobody stands there, and nobody is promised room there.", "dim")
    made = table("JOB", "CLASS", "WHAT", "TO", "TASKS", "GPUS", "GRACE", "LOSES", right=("GPUS", "GRACE"))
    for row in rows:
        promised = row["what"] == "promise goes elsewhere"
        made.add_row(
            text(row["job"], "bold"), text(f"{row['priority_class']} {row['priority']}"), row["what"],
            text(", ".join(row["to"]) or ("" if promised else "the queue")), row["tasks"],
            "-" if row["gpus"] == "0" else row["gpus"], "" if promised else seconds(row["grace_s"]),
            "nothing" if promised else cost_text(row["lost_gpu_ms"]),
        )  # fmt: skip
    return made


def _drain(drain: DrainRow) -> str:
    """`graceful until 2026-11-22 12:00:00 (#118): new driver`."""
    until = f" until {_time(drain['deadline'])}" if drain["deadline"] and not drain["due"] else ""
    due = ", what stands there leaves" if drain["due"] else ", jobs may finish"
    return f"{drain['mode']}{until}{due} (#{drain['seq']})" + (f": {drain['reason']}" if drain["reason"] else "")


def nodes(rows: Sequence[NodeRow], *, wide: bool = False) -> RenderableType:
    """`bailiff nodes`: one row per node, and under it who holds its devices."""
    if not rows:
        return Text("No nodes have joined. Start an agent on a machine: python -m bailiff_node_agent", "dim")
    made = table("NODE", "STATE", "GPU", "FREE", "CPU FREE", "MEMORY FREE", "DEVICES", right=("FREE", "CPU FREE", "MEMORY FREE"))
    for row in rows:
        made.add_row(
            text(row["node"], "bold"),
            state(row["state"]),
            text(_models(row)),
            f"{row['gpus_free']}/{row['gpus']}",
            f"{thousandths_text(row['cpu_milli_free'])}/{thousandths_text(row['cpu_milli'])}",
            f"{memory_text(row['memory_bytes_free'])}/{memory_text(row['memory_bytes'])}",
            _device_summary(row),
        )
    drained = [row for row in rows if row["drain"] is not None]
    notes = [text(f"{row['node']} is drained: {_drain(row['drain'])}", "dim") for row in drained if row["drain"] is not None]
    if not wide:
        return Group(made, *notes) if notes else made
    parts: list[RenderableType] = [made, *notes]
    for row in rows:
        devices = table("GPU", "ID", "MODEL", "MEMORY", "STATE", "JOB", "RESERVED FOR", right=("GPU",))
        for device in row["devices"]:
            holder = f"{device['job']}/{device['task']}" if device["job"] else ""
            holder = ", ".join(device["shared_by"]) or holder
            devices.add_row(
                str(device["number"]), text(device["id"]), text(device["model"]), memory_text(device["memory_bytes"]),
                state(device["state"]), text(holder), text(device["reserved_for"] or ""),
            )  # fmt: skip
        labels = ", ".join(f"{key}={value}" for key, value in row["labels"].items())
        about = f"machine {row['machine_id']}" + (f", labels {labels}" if labels else "")
        parts += ["", Text.assemble((plain(row["node"]), "bold"), (f"  {plain(about)}", "dim")), _indented(devices)]
    return Group(*parts)


def pools(rows: Sequence[PoolRow]) -> RenderableType:
    """`bailiff pools`."""
    numbers = ("HEAD", "LAST RECORD", "NODES", "GPUS", "FREE", "RUNNING", "WAITING", "LEAVING")
    made = table("POOL", *numbers, "POLICY", right=numbers)
    for row in rows:
        made.add_row(
            text(row["pool"], "bold"), f"#{row['head_seq']}", f"{seconds(row['head_age_s'])} ago",
            _ready(row), str(row["gpus"]), str(row["gpus_free"]),
            str(row["jobs_running"]), str(row["jobs_waiting"]), str(row["jobs_leaving"] or "-"), f"#{row['policy_seq']}",
        )  # fmt: skip
    return made


def pool_list(rows: Sequence[PoolRow]) -> RenderableType:
    """`bailiff pool list`."""
    numbers = ("NODES", "GPUS", "IN USE", "FREE", "RUNNING", "WAITING")
    made = table("POOL", *numbers, "PROJECTS", "SWITCHED OFF", right=(*numbers, "PROJECTS"))
    for row in rows:
        made.add_row(
            text(row["pool"], "bold"), _ready(row), str(row["gpus"]), str(row["gpus_held"]), str(row["gpus_free"]),
            str(row["jobs_running"]), str(row["jobs_waiting"]), str(row["projects"] or "-"),
            Text(", ".join(row["verbs_off"]) or "-", "yellow" if row["verbs_off"] else ""),
        )  # fmt: skip
    return made


def _ready(row: PoolRow) -> Text:
    return Text(f"{row['nodes_ready']}/{row['nodes']}", "" if row["nodes_ready"] == row["nodes"] else "yellow")


def classes(rows: Sequence[ClassRow]) -> RenderableType:
    """`bailiff class list`."""
    numbers = ("VALUE", "RUNNING", "PENDING")
    made = table("CLASS", "VALUE", "PREEMPTIBLE", "DISPLACES OTHERS", "GRACE", "WHO MAY", *numbers[1:], right=numbers)
    for row in rows:
        marks = [mark for mark, wanted in (("default", row["is_default"]), ("immediate", row["immediate"])) if wanted]
        name = Text(plain(row["priority_class"]), "bold") + Text(f" ({', '.join(marks)})" if marks else "", "dim")
        made.add_row(
            name, str(row["value"]), "yes" if row["preemptible"] else "no", "yes" if row["displaces_others"] else "no",
            seconds(row["grace_s"]), text("anybody" if row["users"] is None else _some(row["users"], 3)),
            str(row["jobs_running"] or "-"), str(row["jobs_pending"] or "-"),
        )  # fmt: skip
    return Group(made, Text("Higher values win, everywhere.", "dim"))


def _out_of_use(row: Mapping[str, Any]) -> str:
    return f"{counted(row['gpus_quarantined'], 'GPU')} quarantined, {row['gpus_unhealthy']} unhealthy (bailiff node list)"


def node_list(rows: Sequence[NodeRow]) -> RenderableType:
    """`bailiff node list`: every GPU that nobody can be given, and why; the machines are `bailiff nodes`."""
    made = table("NODE", "GPU", "ID", "STATE", "SINCE", "LEFT BY", "WHY", right=("GPU",))
    count = 0
    for row in rows:
        for device in row["devices"]:
            if device["state"] in ("quarantined", "unhealthy"):
                count += 1
                made.add_row(
                    text(row["node"], "bold"), str(device["number"]), text(device["id"]), state(device["state"]),
                    device["trouble_since"] or "", text(device["left_by"] or ""), text(device["trouble"]),
                )  # fmt: skip
    gpus = sum(row["gpus"] for row in rows)
    if not count:
        return Text(f"All {counted(gpus, 'GPU')} of {counted(len(rows), 'node')} are in use or can be given out.", "dim")
    return Group(
        made, Text("A quarantined GPU is freed once it is seen free, or by: bailiff node clear NODE GPU --reason …", "dim")
    )


def node_details(row: NodeRow) -> RenderableType:
    """`bailiff node describe`: one machine, and what is wrong with its GPUs."""
    parts: list[RenderableType] = [nodes([row], wide=True)]
    for device in row["devices"]:
        if device["trouble"]:
            left = f", left so by {device['left_by']}" if device["left_by"] else ""
            since = f" since {device['trouble_since']}" if device["trouble_since"] else ""
            told = f"GPU {device['number']} is {device['state']}{since}{left}: {plain(device['trouble'])}"
            parts.append(Text(told, "red"))
    return Group(*parts)


def cluster(found: Mapping[str, Any]) -> RenderableType:
    """`bailiff cluster-info`."""
    facts = _pairs()
    facts.add_row("Kafka", text(found["kafka"]))
    facts.add_row("this command", text(f"release {found['release']}, logic {found['logic']}"))
    total = found["total"]
    facts.add_row(
        "in all",
        f"{counted(total['nodes'], 'node')}, {total['gpus_held']}/{total['gpus']} GPUs in use, "
        f"{counted(total['jobs_waiting'], 'job')} waiting",
    )
    parts: list[RenderableType] = [facts]
    for row in found["pools"]:
        about = _pairs()
        about.add_row(
            "machines",
            f"{row['nodes_ready']}/{row['nodes']} nodes ready, {row['gpus_held']}/{row['gpus']} GPUs in use"
            + (f", {row['nodes_drained']} drained" if row["nodes_drained"] else ""),
        )
        about.add_row(
            "jobs",
            f"{row['jobs_running']} running, {row['jobs_waiting']} waiting, {row['jobs_leaving']} leaving"
            + (f", {row['jobs_paused']} paused" if row["jobs_paused"] else ""),
        )
        if row["gpus_quarantined"] or row["gpus_unhealthy"]:
            about.add_row("out of use", Text(_out_of_use(row), "red"))
        about.add_row(
            "log",
            text(f"partition {row['partition']}, head #{row['head_seq']} {seconds(row['head_age_s'])} ago, epoch {row['epoch']}"),
        )
        about.add_row("engine", text(row["engine"]))
        about.add_row(
            "policy",
            text(
                f"in force since #{row['policy_seq']}, {counted(row['projects'], 'project')}, preempt within the {row['scope']}"
            ),
        )
        about.add_row("switched off", text(", ".join(row["verbs_off"]) or "nothing"))
        parts += ["", text(f"pool {row['pool']}", "bold"), _indented(about)]
    return Group(*parts)


def _models(row: NodeRow) -> str:
    return f"{row['gpus']} × {', '.join(row['gpu_models'])}" if row["gpus"] else "none"


def _device_summary(row: NodeRow) -> Text:
    """`train-7 [0-3], free [4-7]`: who holds which devices."""
    found: dict[tuple[str, str], list[int]] = {}
    for device in row["devices"]:
        kind = device["state"]
        who = device["job"] or device["reserved_for"] or ""
        if kind == "shared":
            left = thousandths_text(device["free_milli"])
            who = f"{_some(list(dict.fromkeys(name.partition('/')[0] for name in device['shared_by'])), 3)}, {left} of it free"
        label = {
            "held": who,
            "shared": f"shared by {who}",
            "free": "free",
            "leaving": f"{who} leaves",
            "reserved": f"{who} reserved",
        }.get(kind, kind)
        if kind == "leaving" and device["reserved_for"]:
            label += f", then {device['reserved_for']}"
        found.setdefault((label, kind), []).append(device["number"])
    summary = Text()
    for at, ((label, kind), devices) in enumerate(found.items()):
        summary.append("; " if at else "")
        summary.append(plain(label), {"held": "bold", "free": "green"}.get(kind, STATE_STYLES.get(kind, "")))
        summary.append(f" [{_numbers(devices)}]", "dim")
    return summary


def _numbers(devices: Sequence[int]) -> str:
    return ranges(devices)


# --- projects


def projects(rows: Sequence[ProjectRow], *, wide: bool = False, flat: bool = False) -> RenderableType:
    """`bailiff project list`. flat: without the tree."""
    if not rows:
        return Text("No projects: everybody shares the pool. Make one: bailiff project create NAME --gpus 4", "dim")
    more = ["CPU", "MEMORY"] if wide else []
    made = table(
        "PROJECT", "GPUS", *more, "FAIR SHARE", "LIMIT", "PRIO", "RUNNING", "PENDING", right=("PRIO", "RUNNING", "PENDING")
    )
    for row in rows:
        over = bool(row["borrowed"]["gpu_milli"])
        used, quota = row["used"], row["quota"]
        cells = [
            _of(used["cpu_milli"], quota["cpu_milli"], thousandths_text),
            _of(used["memory_bytes"], quota["memory_bytes"], memory_text),
        ]
        made.add_row(
            text(("" if flat else "  " * row["depth"]) + (row["project"] or "(none)"), "bold" if row["project"] else "dim"),
            Text(row["standing"], "yellow" if over else ""),
            *(cells if wide else []),
            _bound(row["fair_share"]["gpu_milli"], thousandths_text),
            _bound(row["limit"]["gpu_milli"], thousandths_text),
            str(row["priority"] or "-"),
            str(row["jobs_running"] or "-"),
            str(row["jobs_pending"] or "-"),
        )
    return made


def project(found: Mapping[str, Any]) -> RenderableType:
    """`bailiff project describe`."""
    row = found["summary"]
    facts = _pairs()
    facts.add_row("GPUs", text(row["standing"]))
    for name in ("used", "quota", "borrowed", "fair_share", "limit"):
        facts.add_row(name.replace("_", " "), text(amounts_text(row[name])))
    facts.add_row("not preemptible", text(f"{amounts_text(row['non_preemptible'])} (has to stay within the quota)"))
    weights = list(row["weight"].values())
    same = len(dict.fromkeys(weights)) == 1
    facts.add_row(
        "over-quota weight", str(weights[0]) if same else ", ".join(f"{name} {of}" for name, of in row["weight"].items())
    )
    facts.add_row("priority", str(row["priority"]))
    if row["parent"]:
        facts.add_row("below", text(row["parent"]))
    if row["description"]:
        facts.add_row("description", text(row["description"]))
    if found["reclaimed_at"]:
        facts.add_row("last reclaimed from", _time(found["reclaimed_at"]))
    facts.add_row("jobs", f"{row['jobs_running']} running, {row['jobs_pending']} pending")
    parts: list[RenderableType] = [text(row["project"], "bold"), _indented(facts)]
    if found["below"]:
        parts += ["", _indented(projects(found["below"], flat=True))]
    if found["job_list"]:
        parts += ["", _indented(jobs(found["job_list"]))]
    return Group(*parts)


def _of(used: int | None, bound: int | None, shown: Callable[[int], str]) -> str:
    return f"{shown(used or 0)}/{_bound(bound, shown)}"


def _bound(value: int | None, shown: Callable[[int], str]) -> str:
    return "-" if value is None else shown(value)


# --- policy


def policy(found: Mapping[str, Any]) -> RenderableType:
    """`bailiff policy show`."""
    document = found["policy"]
    classes = table("CLASS", "VALUE", "PREEMPTIBLE", "DISPLACES OTHERS", "GRACE", right=("VALUE",))
    for entry in sorted(document["priority_classes"], key=lambda entry: -entry["value"]):
        name = Text(plain(entry["name"]), "bold") + Text(" (default)" if entry["global_default"] else "", "dim")
        grace = entry["grace"] or ""
        displaces = "yes" if entry["preemption_policy"] == "PreemptLowerPriority" else "no"
        classes.add_row(name, str(entry["value"]), "yes" if entry["preemptible"] else "no", displaces, grace)
    parts: list[RenderableType] = [Text(f"policy of {found['pool']}, in force since #{found['seq']}", "bold"), _indented(classes)]
    order = _pairs()
    order.add_row("backfill", document["backfill"])
    order.add_row("packing", document["packing"])
    projects = ", ".join(project["name"] for project in document["projects"][:10])
    more = len(document["projects"]) - 10
    order.add_row("projects", text((projects or "none") + (f" and {more} more" if more > 0 else "")))
    for topology in document["topologies"]:
        order.add_row(f"topology {plain(topology['name'])}", text(" > ".join(topology["levels"])))
    parts += ["", _indented(order)]
    for section in ("preemption", "protections", "eviction", "nodes", "retention", "identity"):
        pairs = _pairs()
        for name, value in document[section].items():
            left_open = name == "scope" and value is None
            pairs.add_row(
                name, text(f"{found['scope']} (not stated: project where there are projects)" if left_open else _rule(value))
            )
        parts += ["", Text(section, "bold"), _indented(pairs)]
    parts += [
        "",
        Text(f"At most {document['max_rejections_per_minute']} rejections a minute and source get a record of their own.", "dim"),
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


# --- the log


def record(found: Mapping[str, Any]) -> RenderableType:
    """`bailiff audit show`."""
    facts = _pairs()
    for name in ("time", "epoch", "turn", "cause", "actor", "auth", "engine", "policy", "writer", "offset", "append_time"):
        value = found[name]
        if name == "turn":
            value = f"{value}, which it ends" if found["turn_end"] else value
        if name == "cause" and value.isdigit():
            value = f"#{value}"
        if value not in ("", None):
            facts.add_row(name.replace("_", " "), text(str(value)))
    for position, offset in found["inputs"].items():
        facts.add_row("input read", text(f"{position} up to offset {offset - 1}"))
    facts.add_row("hash", Text(found["hash"], "bold"))
    facts.add_row("continues", f"#{found['seq'] - 1} {found['prev']}" if found["seq"] else "nothing: it is the first")
    data = json.dumps(found["data"], indent=2, ensure_ascii=False)
    body = [text(line) for line in data.splitlines()]
    title = text(f"{found['domain']}#{found['seq']}  {found['type']}", "bold")
    return Group(title, *(text(line) for line in found["says"]), "", _indented(facts), "", *body)


EVENT_TONES = {
    "Preempted": "magenta", "Reclaimed": "magenta", "Moved": "magenta", "Stopping": "yellow", "Requeued": "yellow",
    "Shrunk": "yellow", "Pending": "", "Scheduled": "cyan", "Reserved": "magenta", "Started": "green", "Resumed": "green",
    "Restarted": "green", "Grown": "green", "Succeeded": "green", "Failed": "red", "Evicted": "red", "Rejected": "red",
    "NodeLost": "red", "NodeNotReady": "yellow", "NodeReady": "green", "Stuck": "red", "Held": "red",
}  # fmt: skip


def event(row: EventRow) -> Text:
    """One line of `bailiff events`."""
    line = Text()
    line.append(row["time"][5:19].replace("T", " "), "dim")
    line.append(f" {row['pool']}#{row['seq']:<6}", "cyan")
    line.append(f" {row['type']:<16}", EVENT_TONES.get(row["type"], ""))
    tasks = f"/{row['tasks']}" if row["tasks"] else ""
    line.append(f" {plain(row['job'] or row['node'])}{tasks}", "bold")
    where = row["node"] if row["job"] and row["type"] in ("Scheduled", "Started", "Resumed", "Restarted", "Reserved") else ""
    project = f"[{row['project']}]" if row["project"] else ""
    more = "  ".join(part for part in (project, f"on {where}" if where else "", row["reason"]) if part)
    line.append(f"  {plain(more)}" if more else "")
    return line


def explained(found: Mapping[str, Any]) -> RenderableType:
    """`bailiff explain`."""
    parts: list[RenderableType] = []
    for section in found["sections"]:
        parts += [*([""] if parts else []), text(section["question"], "bold")]
        for said in section["says"]:
            seqs = ", ".join(f"#{seq}" for seq in said["seqs"][-SEQS_SHOWN:])
            if len(said["seqs"]) > SEQS_SHOWN:
                seqs = f"the last: {seqs}"
            line = text(said["text"]) + Text(f"  ({seqs})" if seqs else "", "dim")
            parts.append(Padding(line, (0, 0, 0, 2)))
    if found["candidates"] is not None:
        several = len({row["verb"] for row in found["candidates"]}) > 1
        columns = (*(["VERB"] if several else []), "JOB", "TASKS", "CLASS", "PROJECT", "GPUS", "LOSES", "TAKEN?")
        listed = table(*columns, right=("GPUS", "LOSES"))
        for row in found["candidates"]:
            taken = Text("taken", "yellow") if row["chosen"] else text(f"no: {row['rule']}" if row["rule"] else "could have been")
            listed.add_row(
                *([row["verb"]] if several else []),
                text(row["job"], "bold"), row["tasks"] or "all", text(f"{row['class_name']} {row['priority']}"),
                text(row["project"] or "-"), thousandths_text(row["gpu_milli"]), cost_text(row["lost_gpu_ms"]), taken,
            )  # fmt: skip
        parts += ["", Text("Everybody that held room then, by replay", "bold"), _indented(listed)]
    if found["condition"] is not None:
        condition = found["condition"]
        parts += ["", text(f"condition {condition['type']}, reason {condition['reason']}: {condition['message']}", "dim")]
    return Group(*parts)


def seals(found: Mapping[str, Any]) -> RenderableType:
    """`bailiff audit seals`."""
    listed = table("RECORDS", "ROOT", "SEALED AT", "KEY", right=("RECORDS",))
    for seal in found["seals"]:
        listed.add_row(str(seal["size"]), seal["root"], seal["sealed_at"], text(seal["key"]))
    if found["problem"]:
        head = text(f"{found['domain']}: {found['problem']}", "bold red")
    elif not found["seals"]:
        return Text(f"{found['domain']}: nothing was sealed yet")
    else:
        head = Text(f"{found['domain']}: each seal is signed and continues the one before it", "bold green")
    return Group(head, _indented(listed))


def proof(found: Mapping[str, Any]) -> RenderableType:
    """`bailiff audit check-proof`."""
    if not found["ok"]:
        return text(f"not proved: {found['problem']}", "bold red")
    facts = _pairs()
    facts.add_row("record", text(f"{found['domain']}#{found['seq']}  {found['type']}  {found['time']}"))
    facts.add_row("data", text(json.dumps(found["data"], ensure_ascii=False)))
    facts.add_row("seal", text(f"over {found['sealed_records']} records, {found['sealed_at']}"))
    facts.add_row("key", text(found["key"]))
    return Group(Text("proved: the record is in the log that was sealed", "bold green"), _indented(facts))


def verification(found: Verification) -> RenderableType:
    """`bailiff audit verify`."""
    facts = _pairs()
    facts.add_row("records", f"{found['records']}")
    facts.add_row("head", f"#{found['head_seq']}  {found['head_hash']}")
    facts.add_row("head time", found["head_time"])
    facts.add_row("log identity", found["identity"])
    for epoch in found["epochs"]:
        facts.add_row(
            f"epoch {epoch['epoch']}",
            text(f"from #{epoch['from_seq']}, {_records(epoch['records'])}, writer {epoch['writer'] or '-'}"),
        )
    if found["seals"]:
        facts.add_row("seals", text(f"{found['seals']}, over the first {_records(found['sealed'])}"))
        facts.add_row("sealed by", text(", ".join(found["seal_keys"])))
    orphans = [
        f"{count} {kind} ({ORPHAN_MEANINGS[kind]})" for kind, count in found["orphans_by_kind"].items() if kind != "breaks-chain"
    ]
    facts.add_row("orphans", text("; ".join(orphans) or "none"))
    parts: list[RenderableType] = []
    if found["broken"] is None:
        parts.append(Text(f"{found['domain']}: the chain is whole", "bold green"))
    else:
        parts.append(Text(f"{found['domain']}: the chain is BROKEN", "bold red"))
    if found["seal_problem"]:
        parts.append(text(f"{found['domain']}: {found['seal_problem']}", "bold red"))
    parts.append(_indented(facts))
    shown = found["orphan_list"]
    if shown:
        listed = table("OFFSET", "KIND", "SAYS SEQ", "EPOCH", "REASON", right=("OFFSET", "SAYS SEQ", "EPOCH"))
        for orphan in shown:
            listed.add_row(
                str(orphan["offset"]), orphan["kind"], text(orphan["seq"]), text(orphan["epoch"]), text(orphan["reason"], "dim")
            )
        parts += ["", _indented(listed)]
        more = found["orphans"] - found["unexplained"] - ORPHANS_SHOWN
        if more > 0:
            parts.append(Text(f"    … and {more} more orphans", "dim"))
    broken = found["broken"]
    if broken is not None:
        parts += [
            "",
            text(
                f"First break: the record at offset {broken['offset']} that says it is #{broken['seq']}: {broken['reason']}.",
                "red",
            ),
            text(f"That means: {broken['meaning']}."),
        ]
        if found["unexplained"] > 1:
            parts.append(Text(f"{_records(found['unexplained'])} in all follow nothing that the log holds."))
    return Group(*parts)


def replayed(found: Replayed) -> RenderableType:
    """`bailiff audit replay`."""
    facts = _pairs()
    facts.add_row("records", f"{found['records']}, chain checked")
    if found["from_seq"] or found["to_seq"] + 1 < found["records"]:
        facts.add_row("decided again", f"#{found['from_seq']} to #{found['to_seq']}, on the fold of what stands before")
    facts.add_row("turns", f"{found['turns']}, of which {found['turns_decided_again']} were decided again")
    facts.add_row("decisions", str(found["decisions"]))
    facts.add_row("state digests", str(found["digests"]))
    if found["orphans"]:
        facts.add_row("orphans", str(found["orphans"]))
    parts: list[RenderableType] = [_verdict(found), _indented(facts)]
    if len(found["engines"]) > 1 or any(engine["advice"] for engine in found["engines"]):
        parts += ["", *_engines(found["engines"])]
    difference = found["difference"]
    if difference is not None:
        where = f"#{difference['seq']}, at {_time(difference['time'] or None)}, in turn {difference['turn']}"
        by = difference["decided_by"].replace("its wheel", "the engine that the record names, from its wheel")
        parts += ["", text(f"First difference: {where}, written by the engine {difference['engine']}.", "red")]
        for name, told in (("It was recorded: ", difference["recorded"]), (f"Decided again by {by}: ", difference["now"])):
            parts += [Padding(Text.assemble((name, "dim"), plain(line)), (0, 0, 0, 2)) for line in told]
        parts += [Padding(text(field, "bold"), (0, 0, 0, 4)) for field in difference["fields"]]
        for name, said in (("in the log", difference["found"]), ("decided again", difference["expected"])):
            parts.append(Padding(Text.assemble((f"{name}: ", "dim"), plain(said)), (0, 0, 0, 4)))
    if found["error"]:
        parts += ["", text(found["error"], "red")]
    return Group(*parts)


def _verdict(found: Replayed) -> Text:
    if found["difference"] is not None:
        return Text(f"{found['domain']}: deciding again gives something else", "bold red")
    if found["error"]:
        return Text(f"{found['domain']}: the log could not be replayed to its end", "bold red")
    if found["turns_of_other_engines"]:
        return Text(f"{found['domain']}: what was decided again is the same, byte for byte; not all of it was", "bold yellow")
    return Text(f"{found['domain']}: decided again, every byte is the same", "bold green")


def _engines(used: Sequence[EngineUsed]) -> Iterable[RenderableType]:
    listed = table("ENGINE", "RECORDS", "TURNS", "DECIDED AGAIN BY", right=("TURNS",))
    for engine in used:
        by = text(engine["decided_by"]) if engine["decided_by"] else Text("nobody: verified and folded only", "yellow")
        listed.add_row(engine["engine"], f"#{engine['from_seq']} to #{engine['to_seq']}", str(engine["turns"]), by)
    yield _indented(listed)
    for engine in used:
        if engine["advice"]:
            yield Padding(text(f"To have {engine['engine']} decide its own turns, {engine['advice']}.", "dim"), (0, 0, 0, 2))


def engines(found: Mapping[str, Any]) -> RenderableType:
    """`bailiff engine list`."""
    listed = table("RELEASE", "LOGIC", "DIGEST", "WHEEL'S SHA-256", "", right=("LOGIC",))
    for row in found["engines"]:
        note = text(row["problem"], "red") if row["problem"] else Text("this release" if row["running"] else "", "dim")
        listed.add_row(text(row["release"]), str(row["logic"] or ""), text(row["digest"][:12]), text(row["sha256"][:12]), note)
    head = text(f"{found['store']}: {counted(len(found['engines']), 'engine')}; this release is {found['running']['engine']}")
    return Group(head, _indented(listed)) if found["engines"] else head


# --- doctor


def checks(found: Sequence[Check]) -> RenderableType:
    """`bailiff doctor`."""
    made = table("", "CHECK", "FOUND")
    for check in found:
        said = text(check["found"])
        if check["advice"]:
            said.append(f"\n→ {plain(check['advice'])}", "bold" if check["status"] == "wrong" else "")
        made.add_row(state(check["status"]), text(check["check"]), said)
    wrong = sum(check["status"] == "wrong" for check in found)
    warned = sum(check["status"] == "warn" for check in found)
    if wrong:
        end = Text(f"{wrong} wrong" + (f", {warned} to look at" if warned else ""), "bold red")
    else:
        end = Text(f"Nothing is wrong; {warned} to look at" if warned else "Everything is as it should be", "bold green")
    return Group(made, "", end)


# --- small things


def _pairs() -> Table:
    made = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    return made


def _indented(inner: RenderableType) -> Padding:
    return Padding(inner, (0, 0, 0, 2))


def _records(number: int) -> str:
    return "1 record" if number == 1 else f"{number} records"


def _some(names: Sequence[str], most: int) -> str:
    return ", ".join(names[:most]) + (f" +{len(names) - most}" if len(names) > most else "") if names else "-"


def _time(value: str | None) -> str:
    return "" if value is None else escape(value[:19].replace("T", " ") + " UTC")
