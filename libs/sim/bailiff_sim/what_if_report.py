"""HTML report of `bailiff what-if`, one self-contained page."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from .report import document, held, plot, table, waits, wanted
from .tables import by_project, change_text, compared, hours_text
from .what_if import WhatIf

RUNS = ("recorded", "simulated", "other")
HEAD = ("", "recorded", "simulated", "other policy")
NAMES = {
    "wait mean": "waited, mean",
    "wait p95": "waited, p95",
    "JCT mean": "from submission to end, mean",
    "slowdown p95": "slowdown, p95",
    "evictions": "attempts that ended early",
    "GPU-h lost": "GPU-hours lost",
    "used": "utilisation",
    "large gangs p95": "large gangs waited, p95",
    "Jain": "fairness (Jain)",
}


def page(found: WhatIf, said: Mapping[str, Any]) -> str:
    """The page. said: what `what_if.compared` made of it, with `pool` and `policy` for the title."""
    title = f"{said['pool']} under {said['policy']}"
    runs = [{"seed": 0, **run} for run in said["runs"]]
    groups = [[key, *(_three(of[label]) for label in RUNS)] for key, of in said["groups"].items()]
    parts = [
        f"<h1>{escape(title)}</h1>",
        "<p>Recorded: what happened. Simulated: the same engine under the policies in force. Other: under another policy.</p>",
        f"<p>{escape(said['confidence'])}</p>",
        _totals(runs),
        plot("How long jobs wait", waits, found.runs, "Share of jobs that waited at most so long."),
        plot("GPUs held over time", held, found.runs, "GPUs that jobs held."),
        plot("GPUs waited for", wanted, found.runs, "GPUs that the jobs in the queue ask for."),
        "<h2>By class and project</h2><p>Waited on average / evictions / GPU-hours lost.</p>",
        table(HEAD, groups),
        *_shares(runs),
        "<h2>Improved most</h2><p>Less time of waiting, and of work done again; simulated → other policy.</p>",
        _jobs(said["improved"]),
        "<h2>Worsened most</h2><p>More time of waiting, and of work done again; simulated → other policy.</p>",
        _jobs(said["worsened"]),
        "<h2>Assumptions</h2><ul>", *(f"<li>{escape(each)}</li>" for each in said["assumptions"]), "</ul>",
    ]  # fmt: skip
    return document(title, parts)


def _totals(runs: Sequence[Mapping[str, object]]) -> str:
    """A line for each figure, as there are only three runs."""
    (_, *names), rows = compared(runs)
    lines = zip(*(row[1:] for row in rows), strict=True)
    return table(HEAD, [[NAMES.get(name, name), *line] for name, line in zip(names, lines, strict=True)])


def _shares(runs: Sequence[Mapping[str, object]]) -> list[str]:
    head, rows = by_project(runs)
    return ["<h2>Share of what each project was entitled to</h2>", table(head, rows)] if rows else []


def _jobs(jobs: Sequence[Mapping[str, Any]]) -> str:
    if not jobs:
        return "<p>Nobody.</p>"
    rows = [
        [job["job"], job["project"] or "-", job["class"], f"{job['gpus']:g}", change_text(job["time_lost_hours"]),
         " → ".join(hours_text(each) for each in job["waited_hours"]), " → ".join(str(each) for each in job["evictions"])]
        for job in jobs
    ]  # fmt: skip
    return table(("job", "project", "class", "GPUs", "time", "waited", "evictions"), rows)


def _three(of: Mapping[str, float]) -> str:
    return f"{hours_text(of['waited_mean'])} / {of['evictions']} / {of['gpu_hours_lost']:.2f}"
