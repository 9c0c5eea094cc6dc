"""Tables of `bailiff what-if`: differences, affected jobs, confidence and assumptions."""

from collections.abc import Collection
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from bailiff.render.plain_text import plain
from bailiff.simulation.options import simulator

from .history import why_waits_differ
from .style import table

RUNS = ("recorded", "simulated", "other")
COLUMNS = ("", "recorded", "simulated", "other policy")


def what_if_table(found: dict[str, Any]) -> RenderableType:
    """The comparison as tables."""
    parts: list[RenderableType] = [Text(f"{found['pool']} under {found['policy']}", "bold")]
    parts += [*(Text(plain(line), "yellow") for line in found["headline"]), "", _totals(found), ""]
    for waiting in found.get("waiting", ()):
        parts += [*(Text(plain(line)) for line in why_waits_differ(waiting)), ""]
    parts += [Text("mean waiting time · evictions · GPU-hours lost", "dim"), _groups(found["groups"]), ""]
    for key, title in (("improved", "improved most"), ("worsened", "worsened most")):
        missing = len(found["rejected"]) if key == "worsened" else 0
        parts += [Text(title, "bold")]
        if missing:
            parts.append(Text(f"  {missing} rejected: {plain(_names(found['rejected']))}"))
        if found[key] or not missing:
            parts.append(changed_jobs(found[key], found["never_started"]) if found[key] else Text("  none", "dim"))
        parts.append("")
    parts += [Text(found["confidence"]), "", Text("Assumptions:", "bold")]
    parts += [Text(f"  • {plain(sentence)}") for sentence in found["assumptions"]]
    return Group(*parts)


def _names(rejected: list[dict[str, Any]]) -> str:
    return ", ".join(each["job"] for each in rejected[:10]) + (" …" if len(rejected) > 10 else "")


def _totals(found: dict[str, Any]) -> RenderableType:
    runs = [next(run for run in found["runs"] if run["label"] == label) for label in RUNS]
    fair = [run["fairness"]["jain"] for run in runs]
    shown = table(*COLUMNS, right=COLUMNS[1:])
    shown.add_row("waited, mean", *(_time(run["waiting"].get("all", {}).get("mean", 0.0)) for run in runs))
    shown.add_row("waited, p95", *(_time(run["waiting"].get("all", {}).get("p95", 0.0)) for run in runs))
    shown.add_row("attempts that ended early", *(str(run["evictions"]) for run in runs))
    shown.add_row("GPU-hours lost", *(_number(run["gpu_hours"]["lost"]) for run in runs))
    shown.add_row("GPU-hours of work", *(_number(run["gpu_hours"]["work"]) for run in runs))
    shown.add_row("utilisation", *(f"{100 * run['utilisation']:.1f} %" for run in runs))
    shown.add_row("fairness (Jain)", *("-" if each is None else f"{each:.3f}" for each in fair))
    shown.add_row("jobs ended", *(str(run["ended"]) for run in runs))
    return shown


def _groups(groups: dict[str, Any]) -> RenderableType:
    shown = table("", "jobs", *COLUMNS[1:], right=("jobs", *COLUMNS[1:]))
    for key, runs in groups.items():
        cells = [
            f"{_time(runs[label]['waited_mean'])} · {runs[label]['evictions']} · {_number(runs[label]['gpu_hours_lost'])}"
            for label in RUNS
        ]
        shown.add_row(plain(key), str(runs["simulated"]["jobs"]), *cells)
    return shown


def changed_jobs(jobs: list[dict[str, Any]], never_started: Collection[str]) -> RenderableType:
    """The jobs that change most; those of `never_started` do not start under the other policy."""
    shown = table("JOB", "PROJECT", "CLASS", "GPUS", "TIME", "WAITED", "EVICTIONS", right=("GPUS", "TIME", "WAITED", "EVICTIONS"))
    for job in jobs:
        before, after = map(_time, job["waited_hours"])
        waited = f"{before} → {'not started' if job['job'] in never_started else after}"
        evictions = " → ".join(str(each) for each in job["evictions"])
        shown.add_row(
            plain(job["job"]),
            plain(job["project"] or "-"),
            plain(job["class"]),
            f"{job['gpus']:g}",
            simulator("tables").change_text(job["time_lost_hours"]),
            waited,
            evictions,
        )
    return shown


def _time(hours: float) -> str:
    return str(simulator("tables").hours_text(hours))


def _number(value: float) -> str:
    return f"{value:.2f}"
