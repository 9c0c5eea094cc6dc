"""Tables of nodes and GPUs: the list, unavailable GPUs, one in detail, and the effect of a drain."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from bailiff.client.enrolments import Enrolment, enrolment_text
from bailiff.render.plain_text import plain
from bailiff.render.serializers.nodes import CRIU_PAGE, NO_CRIU, DrainRow, ListedNode, NodeRow, SnapshotRow
from bailiff.render.serializers.victims import AffectedView
from bailiff_core.humanize import cost_text, count_text, memory_text, thousandths_text, user_text
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.state import Drain
from bailiff_core.views import MaintenanceView

from .cells import RESTART, gpus_cell, seconds_cell, some
from .style import STATE_STYLES, indented, state_word, table, text, time_cell

MAY_FINISH = "may finish"


def affected_table(rows: Sequence[AffectedView], drain: Drain) -> RenderableType:
    """The jobs that this drain affects."""
    if not rows:
        return Text("No tasks and no reservations on this node.", "dim")
    made = table("JOB", "CLASS", "EFFECT", "TO", "TASKS", "GPUS", "GRACE", "LOSES", RESTART, right=("GPUS", "GRACE"))
    for row in rows:
        effect = _effect(row, drain)
        loses_nothing = effect in ("reservation moves", MAY_FINISH)
        made.add_row(
            text(row["job"], "bold"),
            text(f"{row['priority_class']} {row['priority']}"),
            effect,
            text(", ".join(dict.fromkeys(row["to"])) or ("the queue" if effect == "evicted" else "")),
            row["tasks"] or "all",
            "-" if row["gpus_text"] == "0" else row["gpus_text"],
            "" if loses_nothing else seconds_cell(row["grace_s"]),
            "nothing" if loses_nothing else cost_text(row["work_lost_gpu_ms"]),
            "" if loses_nothing else cost_text(row["restart_gpu_ms"]),
        )
    return made


def _effect(row: AffectedView, drain: Drain) -> str:
    """What becomes of the job; under a graceful drain it may finish first."""
    effect = row["effect"]
    if drain.mode != "graceful" or effect in ("migrates", "reservation moves", "already evicting"):
        return effect
    return MAY_FINISH if drain.deadline is None else f"{MAY_FINISH}, else {effect}"


def _maintenance(row: MaintenanceView) -> str:
    ends = f"until {time_cell(row['end'])}"
    when = ends if row["now"] else f"from {time_cell(row['begin'])} {ends}"
    return f"{row['node']} has maintenance {when} (#{row['made_at_seq']})" + (f": {row['reason']}" if row["reason"] else "")


def _drain(drain: DrainRow) -> str:
    """`graceful until 2026-11-22 12:00:00 (#118): new driver`."""
    until = f" until {time_cell(drain['deadline'])}" if drain["deadline"] and not drain["due"] else ""
    due = ", remaining jobs are evicted" if drain["due"] else ", jobs may finish"
    requester = user_text(drain["requester"], drain["requester_verified"])
    by = f" by {requester}" if requester else ""
    return f"{drain['mode']}{by}{until}{due} (#{drain['seq']})" + (f": {drain['reason']}" if drain["reason"] else "")


def nodes_table(rows: Sequence[NodeRow], *, wide: bool = False) -> RenderableType:
    """One row per node, and under it the jobs on its devices."""
    if not rows:
        return Text("No nodes have joined. Start an agent on a machine: python -m bailiff_node_agent", "dim")
    any_driver = any(row["snapshots"] for row in rows)
    columns = ("NODE", "STATE", "GPU", "FREE", "CPU FREE", "MEMORY FREE", *(("SAVES TASKS",) if any_driver else ()), "DEVICES")
    made = table(*columns, right=("FREE", "CPU FREE", "MEMORY FREE"))
    for row in rows:
        made.add_row(
            text(row["node"], "bold"),
            state_word(row["state"]),
            text(_models(row)),
            f"{gpus_cell(row['gpus_free'])}/{gpus_cell(row['gpus'])}",
            f"{thousandths_text(row['cpu_milli_free'])}/{thousandths_text(row['cpu_milli'])}",
            f"{memory_text(row['memory_bytes_free'])}/{memory_text(row['memory_bytes'])}",
            *((_drivers(row),) if any_driver else ()),
            _device_summary(row),
        )
    drained = [row for row in rows if row["drain"] is not None]
    notes = [text(f"{row['node']} is drained: {_drain(row['drain'])}", "dim") for row in drained if row["drain"] is not None]
    notes += [text(_maintenance(row["maintenance"]), "dim") for row in rows if row["maintenance"] is not None]
    notes += [text(f"{row['node']} has no valid key: its reports do not count", "yellow") for row in rows if row["key"] == ""]
    if not wide:
        return Group(made, *notes) if notes else made
    parts: list[RenderableType] = [made, *notes]
    for row in rows:
        partitioned, linked = any(row["mig_devices"]), any(device["island"] for device in row["devices"])
        more = [*(["MIG", "CARD"] if partitioned else []), *(["ISLAND"] if linked else [])]
        devices = table("GPU", "ID", "MODEL", *more, "MEMORY", "STATE", "JOB", "RESERVED FOR", right=("GPU",))
        for device in row["devices"]:
            holder = f"{device['job']}/{device['task']}" if device["job"] else ""
            holder = ", ".join(device["shared_by"]) or holder
            cells = [device["profile"], device["parent"] or ""] if partitioned else []
            cells += [device["island"]] if linked else []
            devices.add_row(
                str(device["number"]),
                text(device["id"]),
                text(device["model"]),
                *map(text, cells),
                memory_text(device["memory_bytes"]),
                state_word(device["state"]),
                text(holder),
                text(device["reserved_for"] or ""),
            )
        labels = ", ".join(f"{key}={value}" for key, value in row["labels"].items())
        about = f"machine {row['machine_id']}" + (f", labels {labels}" if labels else "")
        about += f", enrolled with the key {row['key']}" if row["key"] else ""
        parts += ["", Text.assemble((plain(row["node"]), "bold"), (f"  {plain(about)}", "dim")), indented(devices)]
    return Group(*parts)


def listed_table(rows: Sequence[ListedNode], *, wide: bool = False) -> RenderableType:
    """`bailiff nodes`: the nodes, and under them where files of ended tasks are left."""
    left = [
        text(f"{row['node']} cannot remove what {count_text(row['left_folders'], 'task')} left: {row['left_example']}", "yellow")
        for row in rows
        if row["left_folders"]
    ]
    return Group(nodes_table(rows, wide=wide), *left, *_unsaved(rows))


def _unsaved(rows: Sequence[ListedNode]) -> list[Text]:
    """A line where no node can save a running program, with the reason."""
    offers = [each for row in rows for each in row["snapshots"]]
    if not rows or not all(each["why_not"] for each in offers):
        return []
    why = "; ".join(dict.fromkeys(plain(each["why_not"]) for each in offers)) or NO_CRIU
    return [Text(f"No node can save a running program (checkpoint: snapshot): {why}; to install it: {CRIU_PAGE}", "dim")]


def troubles_table(rows: Sequence[NodeRow]) -> RenderableType:
    """`bailiff node list`: nodes on which nothing is placed, GPUs that cannot be allocated, and why."""
    made = table("NODE", "GPU", "ID", "STATE", "SINCE", "LEFT BY", "WHY", right=("GPU",))
    count = 0
    for row in rows:
        for device in row["devices"]:
            if device["state"] in ("quarantined", "unhealthy"):
                count += 1
                made.add_row(
                    text(row["node"], "bold"),
                    str(device["number"]),
                    text(device["id"]),
                    state_word(device["state"]),
                    device["fault_since"] or "",
                    text(device["fault_job"] or ""),
                    text(device["fault"]),
                )
    closed = [text(f"Nothing new is placed on {row['node']}: it is {row['state']}.") for row in rows if row["state"] != "ready"]
    if count:
        returns = Text("A quarantined GPU returns once it is seen free, or by: bailiff node clear NODE GPU --reason …", "dim")
        return Group(*closed, made, returns)
    if closed:
        return Group(*closed)
    gpus = sum(len(row["devices"]) for row in rows)
    return Text(f"All {count_text(gpus, 'GPU')} of {count_text(len(rows), 'node')} are in use or available.", "dim")


def node_block(row: NodeRow, enrolment: Enrolment | None = None) -> RenderableType:
    """`bailiff node describe`: one node, the faults of its GPUs, and who vouched for it."""
    parts: list[RenderableType] = [nodes_table([row], wide=True)]
    if enrolment is not None:
        parts.append(text(enrolment_text(enrolment)))
    parts += [text(_snapshots(each), "dim" if each["why_not"] else "") for each in row["snapshots"]]
    if row["parking_bytes"]:
        free, kept = memory_text(row["parking_bytes_free"]), memory_text(row["parking_bytes"])
        parts.append(text(f"Parks jobs in {kept} of its memory, of which {free} are free."))
    for device in row["devices"]:
        if device["fault"]:
            left = f", after {device['fault_job']}" if device["fault_job"] else ""
            since = f" since {device['fault_since']}" if device["fault_since"] else ""
            fault_text = f"GPU {device['number']} is {device['state']}{since}{left}: {plain(device['fault'])}"
            parts.append(Text(fault_text, "red"))
    return Group(*parts)


def _drivers(row: NodeRow) -> Text:
    """`criu 850MiB/s`, `not by criu`, or `no`: the reason is in `bailiff node describe`."""
    cells = []
    for each in row["snapshots"]:
        rate = f" {memory_text(each['bytes_per_s'])}/s" if each["bytes_per_s"] and not each["why_not"] else ""
        cells.append(f"not by {each['driver']}" if each["why_not"] else f"{each['driver']}{rate}")
    works = any(not each["why_not"] for each in row["snapshots"])
    return text(", ".join(cells) or "no", "" if works else "dim")


def _snapshots(row: SnapshotRow) -> str:
    """`Saves tasks by criu 4.2, 850MB each second.`"""
    driver = f"{row['driver']} {row['version']}".strip()
    if row["why_not"]:
        return f"Saves no tasks by {driver}: {plain(row['why_not'])}"
    return f"Saves tasks by {driver}" + (f", {memory_text(row['bytes_per_s'])} each second." if row["bytes_per_s"] else ".")


def _models(row: NodeRow) -> str:
    """`8 × H100-80GB`, or with MIG devices `4 × H100-80GB, 6 × 3g.40gb of H100-80GB`."""
    if not row["mig_devices"]:
        return f"{gpus_cell(row['gpus'])} × {', '.join(row['gpu_models'])}" if row["gpus"] else "none"
    kinds: dict[str, int] = {}
    for device in row["devices"]:
        kind = f"{device['profile']} of {device['model']}" if device["profile"] else device["model"]
        kinds[kind] = kinds.get(kind, 0) + 1
    return ", ".join(f"{count} × {kind}" for kind, count in kinds.items())


def _device_summary(row: NodeRow) -> Text:
    """`train-7 [0-3], free [4-7]`: allocation of the devices."""
    found: dict[tuple[str, str], list[int]] = {}
    for device in row["devices"]:
        kind: str = device["state"]
        who = device["job"] or device["reserved_for"] or ""
        if kind == "shared":
            left = thousandths_text(device["free_milli"])
            who = f"{some(list(dict.fromkeys(name.partition('/')[0] for name in device['shared_by'])), 3)}, {left} of it free"
        label = {
            "allocated": who,
            "shared": f"shared by {who}",
            "free": "free",
            "releasing": f"{who} releasing",
            "reserved": f"{who} reserved",
        }.get(kind, kind)
        if kind == "releasing" and device["reserved_for"]:
            label += f", then {device['reserved_for']}"
        found.setdefault((label, kind), []).append(device["number"])
    summary = Text()
    for at, ((label, kind), devices) in enumerate(found.items()):
        summary.append("; " if at else "")
        summary.append(plain(label), {"allocated": "bold", "free": "green"}.get(kind, STATE_STYLES.get(kind, "")))
        summary.append(f" [{ranges(devices)}]", "dim")
    return summary
