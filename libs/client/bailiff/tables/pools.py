"""Tables of pools, and the overview of a cluster."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from bailiff.render.serializers.pools import PoolRow
from bailiff_core.humanize import count_text, gpus_text

from .cells import gpus_cell, seconds_cell
from .style import indented, pairs, table, text


def pools_table(rows: Sequence[PoolRow]) -> RenderableType:
    """`bailiff pools`."""
    numbers = ("HEAD", "LAST RECORD", "NODES", "GPUS", "FREE", "RUNNING", "PENDING", "EVICTING")
    made = table("POOL", *numbers, "POLICY", right=numbers)
    for row in rows:
        made.add_row(
            text(row["pool"], "bold"),
            f"#{row['head_seq']}",
            f"{seconds_cell(row['head_age_s'])} ago",
            _ready(row),
            gpus_cell(row["gpus"]),
            gpus_cell(row["gpus_free"]),
            str(row["jobs_running"]),
            str(row["jobs_pending"]),
            str(row["jobs_evicting"] or "-"),
            f"#{row['policy_seq']}",
        )
    return made


def pool_list_table(rows: Sequence[PoolRow]) -> RenderableType:
    """`bailiff pool list`."""
    numbers = ("NODES", "GPUS", "IN USE", "FREE", "RUNNING", "PENDING")
    made = table("POOL", *numbers, "PROJECTS", "DISABLED", right=(*numbers, "PROJECTS"))
    for row in rows:
        made.add_row(
            text(row["pool"], "bold"),
            _ready(row),
            gpus_cell(row["gpus"]),
            gpus_cell(row["gpus_allocated"]),
            gpus_cell(row["gpus_free"]),
            str(row["jobs_running"]),
            str(row["jobs_pending"]),
            str(row["projects"] or "-"),
            Text(", ".join(row["disabled_actions"]) or "-", "yellow" if row["disabled_actions"] else ""),
        )
    return made


def _ready(row: PoolRow) -> Text:
    return Text(f"{row['nodes_ready']}/{row['nodes']}", "" if row["nodes_ready"] == row["nodes"] else "yellow")


def _in_use(row: Mapping[str, Any]) -> str:
    return f"{gpus_cell(row['gpus_allocated'])}/{gpus_cell(row['gpus'])} GPUs in use"


def _out_of_service(row: Mapping[str, Any]) -> str:
    quarantined = gpus_text(round(row["gpus_quarantined"] * 1000))
    return f"{quarantined} quarantined, {gpus_cell(row['gpus_unhealthy'])} unhealthy (bailiff node list)"


def cluster_block(found: Mapping[str, Any]) -> RenderableType:
    """`bailiff cluster-info`."""
    facts = pairs()
    facts.add_row("Kafka", text(found["kafka"]))
    facts.add_row("this command", text(f"release {found['release']}, logic {found['logic']}"))
    total = found["total"]
    facts.add_row(
        "total", f"{count_text(total['nodes'], 'node')}, {_in_use(total)}, {count_text(total['jobs_pending'], 'job')} pending"
    )
    parts: list[RenderableType] = [facts]
    for row in found["pools"]:
        about = pairs()
        about.add_row(
            "machines",
            f"{row['nodes_ready']}/{row['nodes']} nodes ready, {_in_use(row)}"
            + (f", {row['nodes_drained']} drained" if row["nodes_drained"] else ""),
        )
        about.add_row(
            "jobs",
            f"{row['jobs_running']} running, {row['jobs_pending']} pending, {row['jobs_evicting']} evicting"
            + (f", {row['jobs_paused']} paused" if row["jobs_paused"] else ""),
        )
        if row["gpus_quarantined"] or row["gpus_unhealthy"]:
            about.add_row("out of service", Text(_out_of_service(row), "red"))
        head_age = seconds_cell(row["head_age_s"])
        about.add_row("log", text(f"partition {row['partition']}, head #{row['head_seq']} {head_age} ago, epoch {row['epoch']}"))
        about.add_row("engine", text(row["engine"]))
        projects = count_text(row["projects"], "project")
        about.add_row("policy", text(f"in force since #{row['policy_seq']}, {projects}, preempt within the {row['scope']}"))
        about.add_row("disabled actions", text(", ".join(row["disabled_actions"]) or "none"))
        parts += ["", text(f"pool {row['pool']}", "bold"), indented(about)]
    return Group(*parts)
