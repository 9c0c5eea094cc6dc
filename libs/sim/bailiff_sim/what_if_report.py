"""`bailiff what-if` as one HTML page, plots inside, that needs nothing else."""

import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from .metrics import HOUR, Run, Series
from .what_if import WhatIf

NAMES = {"recorded": "recorded", "again": "simulated", "changed": "other policy"}
COLOURS = {"recorded": "#999999", "again": "#3b6ea8", "changed": "#d9822b"}
BINS = 300
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:62em;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left}svg{max-width:100%;height:auto}"
)


def page(found: WhatIf, said: Mapping[str, Any]) -> str:
    """The page. said: what `compared` made of it, with `pool` and `policy` for the title."""
    title = f"{said['pool']} under {said['policy']}"
    runs = {run["label"]: run for run in said["runs"]}
    totals = [
        ("hours waited, mean", *(_figure(runs[label]["waiting"].get("all", {}).get("mean", 0.0)) for label in NAMES)),
        ("hours waited, 95th percentile", *(_figure(runs[label]["waiting"].get("all", {}).get("p95", 0.0)) for label in NAMES)),
        ("attempts that ended early", *(str(runs[label]["evictions"]) for label in NAMES)),
        ("GPU-hours lost", *(_figure(runs[label]["gpu_hours"]["lost"]) for label in NAMES)),
        ("utilisation", *(f"{100 * runs[label]['utilisation']:.1f} %" for label in NAMES)),
        ("fairness (Jain)", *(_figure(runs[label]["fairness"]["jain"] or 0.0) for label in NAMES)),
    ]
    groups = [(key, *(_three(of[label]) for label in NAMES)) for key, of in said["groups"].items()]
    jobs = [
        (job["job"], job["project"], job["class"], f"{job['gpus']:g}", f"{job['hours']:+.2f}", _change(job["waited_hours"]),
         _change(job["evictions"]))
        for key in ("helped", "hurt") for job in said[key]
    ]  # fmt: skip
    parts = [
        f"<h1>{escape(title)}</h1>",
        _table(("", *NAMES.values()), totals),
        "<h2>GPUs in use</h2>", _over_time(found, "held"),
        "<h2>GPUs waited for</h2>", _over_time(found, "waiting"),
        "<h2>How long jobs waited</h2>", _waits(found.runs),
        "<h2>By class and project</h2><p>Hours waited on average / evictions / GPU-hours lost.</p>",
        _table(("", *NAMES.values()), groups),
        "<h2>Helped and hurt most</h2><p>Hours less or more of waiting, and of work done again; simulated → other policy.</p>",
        _table(("job", "project", "class", "GPUs", "hours", "waited", "evictions"), jobs),
        "<h2>How far to trust it</h2>",
        f"<p>{escape(_trust(said['same_policy']))}</p>",
        "<h2>Assumed</h2><ul>", *(f"<li>{escape(each)}</li>" for each in said["assumed"]), "</ul>",
    ]  # fmt: skip
    return f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style>{''.join(parts)}\n"


def _three(of: Mapping[str, float]) -> str:
    return f"{_figure(of['waited_mean'])} / {of['evictions']} / {_figure(of['gpu_hours_lost'])}"


def _trust(same: Mapping[str, Any]) -> str:
    return (
        f"Where nothing is changed, {same['waits_alike']} of {same['jobs']} jobs wait as long as they did (within 1 s), the "
        f"others differ by up to {same['largest_difference_of_a_wait_s']:.0f} s; {same['evictions_again']} evictions instead of "
        f"{same['evictions_recorded']}; {_figure(same['gpu_hours_lost_again'])} GPU-hours lost instead of "
        f"{_figure(same['gpu_hours_lost_recorded'])}."
    )


def _over_time(found: WhatIf, what: str) -> str:
    figure, axes = _axes("days", "GPUs")
    for run in found.runs:
        series = Series(run, BINS)
        days = (series.edges[:-1] - found.since) / (24 * HOUR)
        axes.plot(days, getattr(series, what)(), color=COLOURS[run.label], label=NAMES[run.label], linewidth=1)
    axes.legend(frameon=False)
    return _svg(figure)


def _waits(runs: Sequence[Run]) -> str:
    """Which share of jobs waited at most so long."""
    figure, axes = _axes("hours waited", "share of jobs")
    for run in runs:
        waits = np.sort(
            [(job.waited + (run.end - job.waits_since if job.waits_since is not None else 0)) / HOUR for job in run.jobs.values()]
        )
        shares = np.arange(1, len(waits) + 1) / max(1, len(waits))
        axes.step(waits, shares, where="post", color=COLOURS[run.label], label=NAMES[run.label], linewidth=1)
    axes.set_xscale("symlog", linthresh=0.01)
    axes.legend(frameon=False, loc="lower right")
    return _svg(figure)


def _axes(across: str, up: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(9, 2.8), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "bailiff", "svg.fonttype": "none"}):  # the same each time
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = "".join(f"<th>{escape(each)}</th>" for each in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(each)}</td>' for each in row)}</tr>" for row in rows)
    return f"<table><tr>{cells}</tr>{body}</table>"


def _change(pair: Sequence[float]) -> str:
    return " → ".join(_figure(each) if isinstance(each, float) else str(each) for each in pair)


def _figure(value: float) -> str:
    return f"{value:.2f}"
