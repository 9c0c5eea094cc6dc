"""The report of `bailiff import`: who was preempted, what it cost, what a policy would have done, and how sure that is."""

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from bailiff.render.plain_text import plain
from bailiff.simulation.options import simulator
from bailiff_core.humanize import count_text
from bailiff_core.records.wire import time_text

from .style import results_table, table


def history_report(found: dict[str, Any]) -> RenderableType:
    """The report as text and tables."""
    recorded = found["recorded"]
    parts: list[RenderableType] = [Text(f"What {found['scheduler']} did", "bold"), *(Text(line) for line in headline(found)), ""]
    if recorded["victims"]:
        parts += [Text("Preempted", "bold"), _victims(recorded["victims"]), ""]
    if recorded["pairs"]:
        parts += [Text("Preempted by", "bold"), _pairs(recorded["pairs"]), ""]
    if "runs" in found:
        parts += [Text("The same jobs with Bailiff", "bold")]
        parts += [Text(plain(each), "yellow") for each in (*found["rejected"], *found["not_simulated"])]
        parts += [results_table(*simulator("tables").compared(found["runs"])), ""]
        parts += [
            Text("Waiting time by class", "bold"),
            results_table(*simulator("tables").by_key(found["runs"], "waiting", "class ")),
            "",
        ]
        parts += [*(Text(plain(line)) for line in comparison(found["runs"])), *map(Text, why_waits_differ(found["waiting"])), ""]
    parts += [Text("How sure is this", "bold"), *(Text(f"  • {plain(each)}") for each in found["certainty"])]
    if found["left_out"]:
        parts.append(Text("  • left out: " + ", ".join(f"{count:,} {plain(why)}" for why, count in found["left_out"].items())))
    return Group(*parts)


def headline(found: dict[str, Any]) -> list[str]:
    """The first lines: jobs, preemptions, GPU-hours lost."""
    recorded = found["recorded"]
    span = f"{time_text(recorded['from'])[:10]} to {time_text(recorded['to'])[:10]}"
    machines = "with the most GPUs seen in use" if found["machines_seen"] else "as configured"
    where = f" on {count_text(found['machines'], 'machine')} with {found['gpus']} GPUs ({machines})" if found["machines"] else ""
    lines = [f"{count_text(recorded['jobs'], 'job')} with GPUs, {span}{where}; {recorded['gpu_hours_used']:,.1f} GPU-hours used"]
    share = 100 * recorded["gpu_hours_lost"] / recorded["gpu_hours_used"] if recorded["gpu_hours_used"] else 0.0
    lines.append(
        f"{count_text(recorded['preemptions'], 'preemption')} of {count_text(recorded['jobs_preempted'], 'job')}: "
        f"{recorded['gpu_hours_lost']:,.1f} GPU-hours lost ({share:.1f} % of those used). "
        f"{recorded['gpu_hours_preempted']:,.1f} without any checkpoint"
    )
    if recorded["preempted_and_not_back"]:
        lines.append(f"{count_text(recorded['preempted_and_not_back'], 'job')} did not start again after a preemption")
    if recorded["ended_by_a_machine"]:
        lines.append(f"{count_text(recorded['ended_by_a_machine'], 'attempt')} ended by a failing machine")
    return lines


def comparison(runs: list[dict[str, Any]]) -> list[str]:
    """A sentence about each simulated policy beside what was recorded."""
    was, *others = runs
    lines = [
        f"{each['label']}: {count_text(each['evictions'], 'eviction')} instead of {was['evictions']:,}, "
        f"{each['gpu_hours']['lost'] + each['gpu_hours']['restarts']:,.1f} GPU-hours lost instead of "
        f"{was['gpu_hours']['lost']:,.1f}, waiting {_hours(each)} instead of {_hours(was)} on average."
        for each in others
    ]
    return [*lines, "The simulation starts with an empty pool, and knows neither failing machines nor slow starts."]


def why_waits_differ(waiting: dict[str, Any] | None) -> list[str]:
    """Why jobs wait longer or shorter than was recorded, and which setting moves it."""
    if waiting is None:
        return []
    hours = simulator("tables").hours_text
    usual = waiting[waiting["changed_from"]]
    goal = waiting["before" if waiting["changed_from"] == "after" else "after"]
    head = f"Why jobs wait {'longer' if waiting['after'] > waiting['before'] else 'less long'} with {waiting['label']}:"
    if waiting["settings"] is None:
        return [f"{head} the settings are tried one by one for at most {waiting['most']:,} jobs: --jobs {waiting['most']}."]
    lines = [head]
    for each in waiting["settings"]:
        moved = f"{hours(each['waited_mean'])} instead of {hours(usual)}"
        lines.append(f"  • {each['setting']} ({each['change']}) moves the mean waiting time: {moved}.")
    explained = any(abs(each["waited_mean"] - goal) < abs(usual - goal) / 2 for each in waiting["settings"])
    if not explained and goal == waiting["after"]:
        lines.append("  • most of it no setting explains alone: the policies differ in several that act together.")
    elif not explained:
        tried = "projects and their limits, preemption.actions, backfill"
        rest = "failing machines, starts that take time, or another order of the queue"
        lines.append(f"  • most of it no setting tried explains ({tried}): the record may have {rest}.")
        lines.append("    bailiff simulate tries the first two: --mtbf and --start-delay.")
    return lines


def _hours(run: dict[str, Any]) -> str:
    return str(simulator("tables").hours_text(run["waiting"].get("all", {}).get("mean", 0.0)))


def _victims(rows: list[dict[str, Any]]) -> RenderableType:
    shown = table("PROJECT", "CLASS", "PREEMPTIONS", "GPU-H RUN", "GPU-H LOST", right=("PREEMPTIONS", "GPU-H RUN", "GPU-H LOST"))
    for row in rows[:20]:
        shown.add_row(
            plain(row["project"] or "-"),
            plain(row["class"] or "-"),
            f"{row['preemptions']:,}",
            f"{row['gpu_hours_preempted']:,.2f}",
            f"{row['gpu_hours_lost']:,.2f}",
        )
    return shown


def _pairs(rows: list[dict[str, Any]]) -> RenderableType:
    shown = table("PREEMPTOR", "VICTIM", "PREEMPTIONS", "KNOWN FROM", right=("PREEMPTIONS",))
    for row in rows:
        by = f"{row['preemptor_project'] or '-'}/{row['preemptor_class'] or '-'}"
        of = f"{row['victim_project'] or '-'}/{row['victim_class'] or '-'}"
        known = "inferred: the next job on its nodes, within 2 min" if row["inferred"] else "the record"
        shown.add_row(plain(by), plain(of), f"{row['preemptions']:,}", known)
    return shown
