"""One job in detail, as tables. The list: `job_columns`."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from bailiff.render.plain_text import plain
from bailiff.render.serializers.attachments import AttachmentRow
from bailiff.render.serializers.job_details import JobDetails
from bailiff.render.serializers.moves import MoveRow
from bailiff.render.serializers.times import moment
from bailiff_core.humanize import count_text, duration_text, exit_value, user_text
from bailiff_core.model.placement_ranges import ranges

from .cells import seconds_cell, some
from .style import indented, pairs, state_word, table, text, time_cell

MOVES_SHOWN = 3
ATTACHMENTS_SHOWN = 5


def job_block(details: JobDetails, spec: Mapping[str, Any] | None = None) -> RenderableType:
    """`bailiff describe`, without the events.

    Args:
        spec: The private part of the job, if it is to be shown.
    """
    row = details["summary"]
    facts = pairs()
    place = "" if row["jobs_ahead"] is None else f", {row['jobs_ahead']} ahead" if row["jobs_ahead"] else ", first in the queue"
    facts.add_row("state", Text.assemble(state_word(row["state"]), place))
    if details["pending_reason"]:
        facts.add_row(
            "why",
            text(
                f"{details['pending_reason']} (#{details['pending_reason_seq']}), as of {time_cell(details['pending_reason_at'])}"
            ),
        )
    if details["end_reason"]:
        facts.add_row("why", text(details["end_reason"]))
    if row["state"] == "failed" or (row["failures"] and not row["ended_at"]):
        facts.add_row("output", text(f"bailiff logs {row['job']}"))
    if row["note"]:
        facts.add_row("note", text(row["note"]))
    preemptible = "preemptible" if row["preemptible"] else "not preemptible"
    aged = f" (its class has {row['base_priority']})" if row["base_priority"] != row["priority"] else ""
    facts.add_row("class", text(f"{row['priority_class']} {row['priority']}{aged}, {preemptible}"))
    if row["user"]:
        facts.add_row("user", text(user_text(row["user"], row["user_verified"])))
    if row["project"]:
        facts.add_row("project", text(row["project"]))
    facts.add_row("requests", text(details["demand"]))
    if row["min_tasks"] < row["tasks"]:
        facts.add_row("tasks", text(f"{row['placed_tasks']}/{row['tasks']} placed, at least {row['min_tasks']}"))
    if row["reserved_nodes"]:
        facts.add_row("reserved on", text(", ".join(row["reserved_nodes"])))
    for claim in details["claims"]:
        facts.add_row("claims", text(f"{claim['field']} {claim['claimed']}; granted: {claim['granted']}"))
    if details["believed"]:
        facts.add_row("believed", text(details["believed"]))
    request = details["request"]
    if "run_time_limit" in request:
        facts.add_row("run time limit", duration_text(request["run_time_limit"]))
    if "begin" in request:
        facts.add_row("not before", time_cell(moment(request["begin"])))
    if "checkpoint" in request:
        facts.add_row("checkpoint", request["checkpoint"])
    if "checkpoint_every" in request:
        facts.add_row("checkpoint every", duration_text(request["checkpoint_every"]))
    if "topology" in request:
        rule = request["topology"]
        kinds = [f"{kind} {rule[kind]}" for kind in ("required", "preferred") if kind in rule]
        facts.add_row("topology", text(f"{rule['topology']}: {', '.join(kinds)}"))
    if "sub_groups" in request:
        facts.add_row("sub-groups", text(", ".join(group["name"] for group in request["sub_groups"])))
    others = " by others" if row["user_verified"] else ""
    counted = [("evicted", row["evictions"], others), ("failed", row["failures"], "")]
    ends = [f", {what} {count_text(count, 'time')}{whose}" for what, count, whose in counted if count]
    facts.add_row("attempts", f"{row['attempt']}{''.join(ends)}")
    if details["attempt_end"]:
        facts.add_row("before", text(details["attempt_end"]))
    facts.add_row("submitted", f"{time_cell(row['submitted_at'])}  (#{row['submitted_seq']})")
    signed = f", signed by {details['signed_by']}" if details["signed_by"] else ""
    facts.add_row("owner", text(user_text(row["user"] or "unnamed", row["user_verified"]) + signed))
    if row["started_at"]:
        facts.add_row(
            "running since" if not row["ended_at"] else "last start",
            f"{time_cell(row['started_at'])}  ({seconds_cell(row['running_s'])})",
        )
    if row["ended_at"]:
        facts.add_row("ended", time_cell(row["ended_at"]))
    if details["reserved_until"]:
        facts.add_row("reserved until", time_cell(details["reserved_until"]))
    if row["labels"]:
        facts.add_row("labels", text(", ".join(f"{key}={value}" for key, value in row["labels"].items())))
    for attachment in details["attachments"][-ATTACHMENTS_SHOWN:]:
        facts.add_row("attached", text(_attachment(attachment)))
    for name, value in _spec_rows(spec or {}):
        facts.add_row(name, text(value))
    for move in details["moves"][-MOVES_SHOWN:]:
        facts.add_row("moved", text(_move(move)))
    parts: list[RenderableType] = [text(row["job"], "bold"), indented(facts)]
    if details["task_list"]:
        has_progress = any(task["step"] is not None or task["stage"] for task in details["task_list"])
        more = ("STOPPING", "STEP", "SAVED") if has_progress else ()
        tasks = table("TASK", "NODE", "GPUS", "STATE", "EXIT", *more, right=("TASK", "EXIT", "STEP"))
        for task in details["task_list"]:
            exit_code = "" if task["exit_code"] is None else exit_value(task["exit_code"])
            resumed = "" if task["resumed_step"] is None else f"{task['resumed_step']} by an earlier attempt"
            saved = f"{task['checkpoint_step']} at {time_cell(task['checkpoint_at'])}" if task["checkpoint_at"] else resumed
            step = "" if task["step"] is None else str(task["step"])
            progress = (task["stage"].replace("_", " "), step, saved) if has_progress else ()
            tasks.add_row(
                str(task["task"]), text(task["node"]), ranges(task["devices"]), state_word(task["state"]), exit_code, *progress
            )
        parts += ["", indented(tasks)]
    return Group(*parts)


def _spec_rows(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Control characters of what the job's owner has written are not printed."""
    for name, value in spec.items():
        if name == "command":
            yield name, plain(value if isinstance(value, str) else shlex.join(value))
        elif isinstance(value, Mapping):
            for variable, content in value.items():
                yield {"env": "environment"}.get(name, name), plain(f"{variable}={content}")
        else:
            yield name.replace("_", " "), plain(str(value))


def _attachment(row: AttachmentRow) -> str:
    """`ada to task 0, port 8888, since 12:00:00 (#118)`."""
    user = user_text(row["user"] or "unnamed", row["user_verified"])
    what = f"{user} to task {row['task']}" + (
        f", port {row['port']}," if row["port"] is not None else ", a shell," if row["shell"] else ""
    )
    if row["started_at"] is None:
        state = f"granted at {time_cell(row['granted_at'])}" + (f", not connected: {row['reason']}" if row["reason"] else "")
    elif row["ended_at"] is None:
        state = f"since {time_cell(row['started_at'])}"
    else:
        state = f"from {time_cell(row['started_at'])} to {time_cell(row['ended_at'])}"
    return f"{what} {state} (#{row['seq']})"


def _move(move: MoveRow) -> str:
    """`from gpu-01 to gpu-02 (#118): 2.1s from notice to running, 1.4s down`."""
    where = f"from {some(move['from_nodes'], 3)} to {some(move['to_nodes'], 3)} (#{move['seq']})"
    if move["pause_s"] is None or move["down_s"] is None:
        return f"{where}: not finished"
    return f"{where}: {move['pause_s']:.1f}s from notice to running, {move['down_s']:.1f}s down"
