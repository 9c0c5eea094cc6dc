"""HTML report of runs: one self-contained page with tables and plots, for light and dark mode."""

import html
import io
from collections.abc import Callable, Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .metrics import HOUR, Array, Run, Series
from .tables import by_key, by_project, by_size, compared, points_table
from .tune import Point

COLOURS = ("#3b82f6", "#f59e0b", "#10b981", "#ef4444", "#8b5cf6", "#06b6d4", "#a3a316", "#ec4899")
INK = "#8a8f98"  # lines and text of a plot; replaced by a colour of the page for light and dark mode
INK_OF_PAGE = "var(--soft)"
SECOND, MINUTE, DAY = 1_000_000, HOUR // 60, 24 * HOUR
UNITS = ((DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes"), (SECOND, "seconds"))
TIMES = (
    (SECOND, "1 s"),
    (10 * SECOND, "10 s"),
    (MINUTE, "1 min"),
    (10 * MINUTE, "10 min"),
    (HOUR, "1 h"),
    (8 * HOUR, "8 h"),
    (2 * DAY, "2 d"),
    (10 * DAY, "10 d"),
    (100 * DAY, "100 d"),
)
NOT_IN_LEGEND = "_"  # matplotlib leaves labels with this prefix out
Draw = Callable[[Axes, Run, str, str], None]
STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --paper: #ffffff; --line: #d0d7de; --soft: #656d76 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --line: #30363d; --soft: #9198a1 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 1100px; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums; display: block; overflow-x: auto }
th, td { border-bottom: 1px solid var(--line); padding: .3em .5em; text-align: right; white-space: nowrap }
th { white-space: normal; vertical-align: bottom }
th:first-child, td:first-child { text-align: left }
h1 { font-size: 1.6em } h2 { font-size: 1.2em; margin-top: 2em }
p, figcaption { color: var(--soft) } figure { margin: 1em 0; overflow-x: auto }
svg { width: 100%; min-width: 620px; height: auto }
details pre { overflow-x: auto; border: 1px solid var(--line); padding: 1em; font-size: 12px }
"""


def page(title: str, notes: Sequence[str], runs: Sequence[Run], found: Sequence[Mapping[str, object]], manifest: str) -> str:
    """Returns the report page.

    Args:
        found: The metrics of `runs`, in their order.
        manifest: Its text.
    """
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        *(f"<p>{html.escape(note)}</p>" for note in notes),
        "<h2>Comparison</h2>",
        table(*compared(found)),
        "<h2>Wait time by class</h2>",
        table(*by_key(found, "waiting", "class ")),
        plot("Wait time", waits, runs, "Share of jobs by maximum time in the queue."),
        plot("Allocated GPUs", allocated, runs, "GPUs allocated to jobs, from the first to the last arrival."),
        plot("Pending GPUs", pending, runs, "GPUs requested by the jobs in the queue."),
        "<h2>Wait time by size</h2>",
        table(*by_size(found)),
    ]
    if any(run.jobs and len({job.project for job in run.jobs.values()}) > 1 for run in runs):
        parts += [
            "<h2>Projects</h2>",
            "<p>Each project's allocation as a share of its entitlement while it requested GPUs.</p>",
            table(*by_project(found)),
        ]
    parts.append(f"<details><summary>Manifest, to reproduce the runs</summary><pre>{html.escape(manifest)}</pre></details>")
    return document(title, parts)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns an HTML table; the first column is left-aligned."""
    cells = "".join(f"<th>{html.escape(each)}</th>" for each in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def document(title: str, parts: Sequence[str]) -> str:
    """Returns a complete page of these parts."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    return (
        f"<!doctype html><html lang=en><head>{head}<title>{html.escape(title)}</title><style>{STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def plot(title: str, draw: Draw, runs: Sequence[Run], caption: str) -> str:
    """Returns one plot of all runs, with its heading."""
    labels = list(dict.fromkeys(run.label for run in runs))
    several = len(runs) > len(labels)

    def draw_all(axes: Axes) -> None:
        labelled = set[str]()
        for run in runs:
            label = NOT_IN_LEGEND if run.label in labelled else run.label
            draw(axes, run, label, COLOURS[labels.index(run.label) % len(COLOURS)])
            labelled.add(run.label)

    return _figure(title, draw_all, f"{caption} One line per seed." if several else caption)


def _figure(title: str, draw: Callable[[Axes], None], caption: str) -> str:
    with mpl.rc_context({"svg.hashsalt": "bailiff", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10}):
        figure = Figure(figsize=(9, 3.4), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            axes.spines[side].set_color(INK)
        axes.tick_params(colors=INK)
        axes.xaxis.label.set_color(INK)
        axes.yaxis.label.set_color(INK)
        axes.grid(True, color=INK, alpha=0.2)
        axes.legend(frameon=False, labelcolor=INK, loc="lower right", bbox_to_anchor=(1, 1), ncols=4)  # hides no line
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    svg = text.getvalue().replace(INK, INK_OF_PAGE)
    drawn = svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{html.escape(title)}"', 1)
    return f"<h2>{html.escape(title)}</h2><figure>{drawn}<figcaption>{html.escape(caption)}</figcaption></figure>"


def waits(axes: Axes, run: Run, label: str, colour: str) -> None:
    """Draws the cumulative distribution of wait times."""
    took = np.sort([max(job.waited_by(run.end), SECOND) for job in run.jobs.values()])
    shares = np.arange(1, len(took) + 1) / max(1, len(took))
    keep = np.unique(np.linspace(0, len(took) - 1, min(len(took), 600)).astype(int))
    axes.step(took[keep], shares[keep], where="post", label=label, color=colour)
    axes.set_xscale("log")
    axes.set_xlabel("time in the queue (1 s at least)")
    axes.set_ylabel("share of jobs")
    axes.set_ylim(0, 1.02)
    least, most = axes.get_xlim()
    shown = [(time, text) for time, text in TIMES if least <= time <= most]
    axes.set_xticks([time for time, _ in shown], [text for _, text in shown])
    axes.minorticks_off()


def allocated(axes: Axes, run: Run, label: str, colour: str) -> None:
    """Draws allocated GPUs over time, with the capacity."""
    series = Series(run, bins=300)
    if not axes.lines:
        _over_time(axes, run, series.edges, series.capacity(), "capacity", INK, "--")
    _over_time(axes, run, series.edges, series.allocated(), label, colour)


def pending(axes: Axes, run: Run, label: str, colour: str) -> None:
    """Draws the GPUs requested by pending jobs over time."""
    series = Series(run, bins=300)
    _over_time(axes, run, series.edges, series.pending(), label, colour)


def _over_time(axes: Axes, run: Run, edges: Array, gpus: Array, label: str, colour: str, line: str = "-") -> None:
    unit, name = next(each for each in UNITS if edges[-1] - edges[0] >= 2 * each[0] or each is UNITS[-1])
    axes.plot((edges[:-1] - run.begin) / unit, gpus, line, label=label, color=colour, linewidth=1)
    axes.set_xlabel(name)
    axes.set_ylabel("GPUs")
    axes.set_ylim(bottom=0, auto=True)  # the next run may have a higher maximum


def frontier_page(title: str, notes: Sequence[str], points: Sequence[Point], manifest: str) -> str:
    """Returns the page of a search: its points and their frontier."""

    def draw(axes: Axes) -> None:
        fewest = min(point.not_ended for point in points)
        best = [point for point in points if point.frontier]
        rest = [point for point in points if not point.frontier and point.not_ended == fewest]
        short = [point for point in points if point.not_ended > fewest]
        axes.scatter([p.lost for p in rest], [p.waited for p in rest], color=INK, label="other settings")
        if short:
            axes.scatter([p.lost for p in short], [p.waited for p in short], color=INK, marker="x", label="more jobs never end")
        axes.plot([p.lost for p in best], [p.waited for p in best], color=COLOURS[0], marker="o", label="frontier")
        axes.set_xlabel("GPU-hours of work lost and restarts")
        axes.set_ylabel("mean wait time of high classes, hours")

    parts = [
        f"<h1>{html.escape(title)}</h1>",
        *(f"<p>{html.escape(note)}</p>" for note in notes),
        _figure(
            "Work lost against wait time of the high classes", draw, "Lower and further left is better; each point is a policy."
        ),
        table(*points_table(points)),
        f"<details><summary>Manifest, to reproduce the runs</summary><pre>{html.escape(manifest)}</pre></details>",
    ]
    return document(title, parts)
