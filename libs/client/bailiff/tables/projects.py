"""Tables of projects: the tree, and one in detail."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from bailiff.render.serializers.projects import ProjectRow, amounts_text, kind_text
from bailiff_core.humanize import memory_text, thousandths_text

from .budgets import TONES
from .cells import gpus_cell
from .job_columns import jobs_table
from .style import indented, pairs, table, text, time_cell


def projects_table(
    rows: Sequence[ProjectRow], *, wide: bool = False, flat: bool = False, below: Sequence[str] = ()
) -> RenderableType:
    """The table of `bailiff project list`.

    Args:
        flat: Without the tree.
        below: Lines below it: turns to come, limits of open jobs that are near, and budgets that are used.
    """
    if not rows:
        return Text("No projects. Create one: bailiff project create NAME --gpus 4", "dim")
    more = ["CPU", "MEMORY"] if wide else []
    past = ["PAST USE"] if any(row["past_use"]["gpus"] for row in rows) else []
    kinds = [kind["kind"] for kind in rows[0]["kinds"]]
    heads = (
        "PROJECT",
        "GPUS",
        *(kind.upper() for kind in kinds),
        *more,
        *past,
        "FAIR SHARE",
        "LIMIT",
        "PRIO",
        "RUNNING",
        "PENDING",
    )
    made = table(*heads, right=("PRIO", "RUNNING", "PENDING"))
    for row in rows:
        over = bool(row["borrowed"]["gpus"])
        used, quota = row["used"], row["quota"]
        cells = [
            _of(used["cpu_milli"], quota["cpu_milli"], thousandths_text),
            _of(used["memory_bytes"], quota["memory_bytes"], memory_text),
        ]
        made.add_row(
            text(("" if flat else "  " * row["depth"]) + (row["project"] or "(none)"), "bold" if row["project"] else "dim"),
            Text(row["usage_text"], "yellow" if over else ""),
            *(text(kind_text(kind), "yellow" if "over" in kind_text(kind) else "") for kind in row["kinds"]),
            *(cells if wide else []),
            *(_gpus(row["past_use"]["gpus"]) for _ in past),
            _gpus(row["fair_share"]["gpus"]),
            _gpus(row["limit"]["gpus"]),
            str(row["priority"] or "-"),
            str(row["jobs_running"] or "-"),
            str(row["jobs_pending"] or "-"),
        )
    return Group(made, *(text(each, "yellow") for each in below)) if below else made


def project_block(found: Mapping[str, Any]) -> RenderableType:
    """`bailiff project describe`."""
    row = found["summary"]
    facts = pairs()
    facts.add_row("GPUs", text(row["usage_text"]))
    for kind in row["kinds"]:
        bounds = [("fair share", kind["fair_share"]), ("limit", kind["limit"])]
        shown = "".join(f", {name} {gpus_cell(amount)}" for name, amount in bounds if amount is not None)
        facts.add_row(text(kind["kind"]), text(f"{kind_text(kind)}{shown}"))
    for name in ("used", "quota", "quota_in_force", "borrowed", "past_use", "fair_share", "limit"):
        if (name == "quota_in_force" and row[name] == row["quota"]) or (name == "past_use" and not row[name]["gpus"]):
            continue
        facts.add_row(name.replace("_", " "), text(amounts_text(row[name])))
    facts.add_row("not preemptible", text(f"{amounts_text(row['non_preemptible'])} (limited to the quota)"))
    weights = list(row["weight"].values())
    same = len(dict.fromkeys(weights)) == 1
    facts.add_row(
        "over-quota weight", str(weights[0]) if same else ", ".join(f"{name} {of}" for name, of in row["weight"].items())
    )
    facts.add_row("priority", str(row["priority"]))
    if row["parent"]:
        facts.add_row("parent", text(row["parent"]))
    if row["description"]:
        facts.add_row("description", text(row["description"]))
    if found["reclaimed_at"]:
        facts.add_row("last reclaimed from", time_cell(found["reclaimed_at"]))
    facts.add_row("jobs", f"{row['jobs_running']} running, {row['jobs_pending']} pending")
    for budget in found["budgets"]:
        figures = f"{budget['used_hours']:.1f} of {budget['hours']} GPU-h used in {budget['month']}"
        facts.add_row(f"budget {budget['budget']}", text(figures, TONES[budget["level"]]))
    for near in found["near_limits"]:
        facts.add_row("limit of open jobs", text(near))
    parts: list[RenderableType] = [text(row["project"], "bold"), indented(facts)]
    if found["below"]:
        parts += ["", indented(projects_table(found["below"], flat=True))]
    if found["job_list"]:
        parts += ["", indented(jobs_table(found["job_list"]))]
    return Group(*parts)


def _of(used: int | None, bound: int | None, shown: Callable[[int], str]) -> str:
    return f"{shown(used or 0)}/{'-' if bound is None else shown(bound)}"


def _gpus(bound: float | None) -> str:
    return "-" if bound is None else gpus_cell(bound)
