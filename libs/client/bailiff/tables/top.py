"""The screen of `bailiff top`: pool, preemptions in progress, running and pending jobs, in as many lines as the terminal has."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bailiff.render.plain_text import plain
from bailiff.render.serializers.jobs import JobRow
from bailiff.render.serializers.pools import PoolRow
from bailiff_core.humanize import count_text, duration_text

from .cells import gpus_cell, seconds_cell, some
from .style import STATE_STYLES

BAR_WIDTH = 30
HEAD, FOOT, HEADINGS = 3, 1, 2
MOST_PREEMPTIONS, SMALLEST = 5, 12
PARTS = (("gpus_allocated", "█", "green"), ("gpus_reserved", "▒", "magenta"), ("gpus_free", "░", "dim"))


@dataclass(frozen=True, slots=True)
class Preempting:
    """A preemption that goes on, or has ended while it was watched.

    Attributes:
        victims: Those that have not left yet; all of them once it has ended.
        age_us: Since it was first seen.
        outcome: Empty while it goes on.
    """

    seq: int
    job: str
    victims: Sequence[str]
    age_us: int
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class TopView:
    """What is shown.

    Attributes:
        active: Jobs with resources, evicting ones first.
        pending: In queue order.
        actives, pendings, all_preemptions: How many there are.
    """

    pool: PoolRow
    preemptions: Sequence[Preempting]
    active: Sequence[JobRow]
    pending: Sequence[JobRow]
    actives: int
    pendings: int
    all_preemptions: int


def rows_for(height: int, preemptions: int) -> tuple[int, int, int]:
    """How many preemptions, active and pending jobs fit on a terminal of this height."""
    shown = max(0, min(preemptions, MOST_PREEMPTIONS, (height - SMALLEST) // 2))
    left = max(2, height - HEAD - FOOT - (shown + HEADINGS if shown else 0) - 2 * HEADINGS)
    return shown, left - left // 2, left // 2


def screen(view: TopView) -> RenderableType:
    """The screen; every line is cut at the terminal's width."""
    parts: list[RenderableType] = [*_head(view.pool)]
    if view.preemptions:
        heading = _title("PREEMPTIONS", len(view.preemptions), view.all_preemptions)
        parts += [Text(""), heading, *map(_preemption, view.preemptions)]
    for title, rows, count in (("ACTIVE", view.active, view.actives), ("PENDING", view.pending, view.pendings)):
        parts += [Text(""), _jobs(title, rows, count)]
    return Group(*parts, Text("q quits", "dim"))


def _head(row: PoolRow) -> list[RenderableType]:
    age = f", {duration_text(row['head_age_s'] * 1_000_000)} ago" if row["head_age_s"] > 0 else ""
    where = f"{plain(row['pool'])}#{row['head_seq']}{age}   {row['nodes_ready']} of {count_text(row['nodes'], 'node')} ready"
    counts = [f"{row['jobs_running']} running", f"{row['jobs_pending']} pending", f"{row['jobs_evicting']} evicting"]
    counts += [f"{row['jobs_paused']} paused"] if row["jobs_paused"] else []
    amounts = [f"{gpus_cell(row[name])} {name.removeprefix('gpus_')}" for name, _, _ in PARTS]  # type: ignore[literal-required]
    bar = Text("GPUs ")
    for name, mark, style in PARTS:
        part: float = row[name]  # type: ignore[literal-required]
        bar.append(mark * round(BAR_WIDTH * part / row["gpus"]) if row["gpus"] else "", style)
    bar.append(f" {', '.join(amounts)} of {gpus_cell(row['gpus'])}")
    return [_line(Text(where, "bold")), _line(bar), _line(Text(f"jobs {', '.join(counts)}"))]


def _preemption(each: Preempting) -> Text:
    text = f"#{each.seq} {plain(each.job)} ← {plain(some(each.victims, 3))}"
    how = each.outcome or f"for {duration_text(each.age_us)}" if each.age_us or each.outcome else "now"
    return _line(Text(f"{text}  {how}", "dim" if each.outcome else "yellow"))


def _jobs(title: str, rows: Sequence[JobRow], count: int) -> RenderableType:
    made = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0), expand=True)
    made.add_column(_title(title, len(rows), count), ratio=3, no_wrap=True)
    for name, most in (("CLASS", 12), ("GPUS", 7), ("STATE", 10), ("TIME", 7)):
        made.add_column(name, max_width=most, no_wrap=True, justify="right" if name == "GPUS" else "left")
    made.add_column("WHERE", ratio=2, no_wrap=True)
    for row in rows:
        seconds = row["pending_s"] if row["pending_s"] is not None else row["running_s"]
        where = some(row["nodes"] or row["reserved_nodes"], 2) if row["nodes"] or row["reserved_nodes"] else row["note"]
        state = Text(row["state"], STATE_STYLES.get(row["state"], ""))
        cells = (row["job"], row["priority_class"], row["gpus_text"], state, seconds_cell(seconds), where)
        made.add_row(*(each if isinstance(each, Text) else Text(plain(each)) for each in cells))
    return made


def _title(text: str, shown: int, count: int) -> Text:
    return Text(f"{text} {shown} of {count}" if shown < count else f"{text} {count}", "dim")


def _line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
