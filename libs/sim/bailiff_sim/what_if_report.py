"""HTML report of `bailiff what-if`, one self-contained page."""

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

from .report import allocated, document, pending, plot, table, waits
from .tables import by_project, change_text, compared, hours_text
from .what_if import WhatIf

RUNS = ("recorded", "simulated", "other")
HEAD = ("", "recorded", "simulated", "other policy")
NAMES = {
    "wait mean": "wait time, mean",
    "wait p95": "wait time, p95",
    "JCT mean": "from submission to end, mean",
    "slowdown p95": "slowdown, p95",
    "evictions": "attempts that ended early",
    "GPU-h lost": "GPU-hours lost",
    "used": "utilisation",
    "large gangs p95": "wait time of large gangs, p95",
    "Jain": "fairness (Jain)",
}


def page(found: WhatIf, comparison: Mapping[str, Any]) -> str:
    """Returns the page. comparison: of `what_if.compared`, with `pool` and `policy` for the title."""
    title = f"{comparison['pool']} under {comparison['policy']}"
    runs = [{"seed": 0, **run} for run in comparison["runs"]]
    groups = [[key, *(_three(of[label]) for label in RUNS)] for key, of in comparison["groups"].items()]
    parts = [
        f"<h1>{escape(title)}</h1>",
        "<p>Recorded: what happened. Simulated: the same engine under the policies in force. Other: under another policy.</p>",
        *(f"<p><strong>{escape(line)}</strong></p>" for line in comparison["headline"]),
        f"<p>{escape(comparison['confidence'])}</p>",
        _totals(runs),
        plot("Wait time", waits, found.runs, "Share of jobs by maximum time in the queue."),
        plot("Allocated GPUs", allocated, found.runs, "GPUs allocated to jobs."),
        plot("Pending GPUs", pending, found.runs, "GPUs requested by the jobs in the queue."),
        "<h2>By class and project</h2><p>Mean wait time / evictions / GPU-hours lost.</p>",
        table(HEAD, groups),
        *_shares(runs),
        "<h2>Improved most</h2><p>Less wait time and repeated work; simulated → other policy.</p>",
        _jobs(comparison["improved"]),
        "<h2>Worsened most</h2><p>More wait time and repeated work; simulated → other policy.</p>",
        *_rejected(comparison["rejected"]),
        *(
            []
            if comparison["rejected"] and not comparison["worsened"]
            else [_jobs(comparison["worsened"], comparison["never_started"])]
        ),
        "<h2>Assumptions</h2><ul>",
        *(f"<li>{escape(each)}</li>" for each in comparison["assumptions"]),
        "</ul>",
    ]
    return document(title, parts)


def _totals(runs: Sequence[Mapping[str, object]]) -> str:
    """One row per metric and one column per run."""
    (_, *names), rows = compared(runs)
    lines = zip(*(row[1:] for row in rows), strict=True)
    return table(HEAD, [[NAMES.get(name, name), *line] for name, line in zip(names, lines, strict=True)])


def _shares(runs: Sequence[Mapping[str, object]]) -> list[str]:
    head, rows = by_project(runs)
    return ["<h2>Share of each project's entitlement</h2>", table(head, rows)] if rows else []


def _rejected(rejected: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rejected:
        return []
    names = ", ".join(each["job"] for each in rejected[:10]) + (" …" if len(rejected) > 10 else "")
    return [f"<p>{len(rejected)} rejected: {escape(names)}</p>"]


def _jobs(jobs: Sequence[Mapping[str, Any]], never_started: Collection[str] = ()) -> str:
    if not jobs:
        return "<p>No jobs.</p>"
    rows = [
        [
            job["job"],
            job["project"] or "-",
            job["class"],
            f"{job['gpus']:g}",
            change_text(job["time_lost_hours"]),
            f"{hours_text(job['waited_hours'][0])} → {_waited(job, never_started)}",
            " → ".join(str(each) for each in job["evictions"]),
        ]
        for job in jobs
    ]
    return table(("job", "project", "class", "GPUs", "time lost", "wait time", "evictions"), rows)


def _waited(job: Mapping[str, Any], never_started: Collection[str]) -> str:
    return "not started" if job["job"] in never_started else hours_text(job["waited_hours"][1])


def _three(of: Mapping[str, float]) -> str:
    return f"{hours_text(of['waited_mean'])} / {of['evictions']} / {of['gpu_hours_lost']:.2f}"
