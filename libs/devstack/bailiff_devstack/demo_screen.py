"""What the demo shows while it runs: the GPUs and who holds them, the act of the story, the newest event lines.

On a terminal it is redrawn in place; anywhere else each act and each event is printed once, as plain lines.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import NoReturn, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from bailiff.eventline.line import TONES, WHAT_WIDTH, Line, styled
from bailiff.eventline.lines import lines
from bailiff_core.model.pool import Job, Node, Pool
from bailiff_core.records import Record
from bailiff_core.records.facts import EvictionStaged

EVENTS_SHOWN = 12
PICTURE_WIDTH = 100
REDRAWN_EVERY_S = 0.125
QUIET = {"ClockAdvanced", "StateDigest", "InputsAdvanced", "ProposalReceived", "EvictionBegun", "TaskProgressed"}
PHASE_STYLES = {"running": "green", "starting": "cyan", "evicting": "yellow", "reserved": "magenta"}


class Screen:
    """Shows the story. Use it as a context manager. steps: how far a job is, by its name."""

    def __init__(self, console: Console, picture: Path | None = None) -> None:
        self._console, self._picture = console, picture
        self._events: deque[Text] = deque(maxlen=EVENTS_SHOWN)
        self._act = ""
        self._pool = Pool()
        self._live = Live(console=console, auto_refresh=False, transient=False) if console.is_terminal else None
        self.steps: Callable[[str], int | None] = lambda _: None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.update(self._panel())
            self._live.stop()

    async def redraw(self) -> NoReturn:
        """So that steps are seen to be done, until cancelled."""
        while True:
            if self._live is not None:
                self._live.update(self._panel(), refresh=True)
            await asyncio.sleep(REDRAWN_EVERY_S)

    def act(self, text: str) -> None:
        """The story comes to its next act."""
        self._act = text
        if self._live is None:
            self._console.print(f"\n── {text}")

    def event(self, record: Record, pool: Pool) -> None:
        """A record was read, and folded into `pool`."""
        self._pool = pool
        if record.data is not None and record.data.NAME not in QUIET:
            for line in lines(record, pool):
                self._events.append(short(line))
                if self._live is None:
                    self._console.print(styled(line), overflow="ellipsis", no_wrap=True)
        committed = isinstance(record.data, EvictionStaged) and record.data.stage == "checkpoint_committed"
        if self._picture is not None and committed:
            canvas = Console(record=True, width=PICTURE_WIDTH, file=StringIO())
            canvas.print(self._panel())
            picture = canvas.export_svg(title="make demo")
            self._picture.write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL))  # no outside fonts
            self._picture = None

    def _panel(self) -> Panel:
        body = Group(*(self._node(node) for node in self._nodes()), Rule(style="dim"), *self._events)
        return Panel(body, title=f"[bold]{self._act}[/]", title_align="left", padding=(0, 1))

    def _nodes(self) -> list[Node | None]:
        return [*self._pool.nodes.values()] or [None]

    def _node(self, node: Node | None) -> Group:
        if node is None:
            return Group(Text("waiting for the node to join", style="dim"))
        drained = Text(" drained", style="yellow") if node.drain is not None else Text()
        model = node.devices[0].model if node.devices else "no GPU"
        table = Table.grid(padding=(0, 1), expand=True)
        for _ in node.devices:
            table.add_column(ratio=1)
        table.add_row(*(self._cell(node.number, device.number) for device in node.devices))
        return Group(Text.assemble((node.name, "bold"), (f", {len(node.devices)} × {model}", "dim"), drained), table)

    def _cell(self, node: int, device: int) -> Text:
        holder, next_one = _on_device(self._pool, node, device)
        cell = Text(no_wrap=True, overflow="ellipsis")
        if holder is None:
            cell.append("–\n", style="dim")
        else:
            cell.append(f"{holder.id}\n", style=f"bold {PHASE_STYLES.get(holder.phase, '')}")
        if next_one is not None:
            cell.append(f"→{next_one.id}", style="magenta")
        elif holder is not None:
            step = self.steps(holder.id)
            leaving = holder.phase == "evicting"
            cell.append("leaves" if leaving else f"step {step}" if step is not None else "", style="yellow" if leaving else "dim")
        return cell


def short(line: Line) -> Text:
    """The event line without the pool, of which there is one."""
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(line.clock, "dim")
    text.append(f" #{line.seq:<4} ", "cyan")
    text.append(f"{line.said.what:<{WHAT_WIDTH}} ", TONES[line.said.tone])
    text.append(line.said.who, "bold")
    if line.said.more:
        text.append(("  " if line.said.who else "") + line.said.more, "dim" if line.said.tone == "quiet" else "")
    return text


def whole(found: list[Line]) -> Table:
    """The event lines with all of their text, however narrow the terminal is."""
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for line in found:
        said = line.said
        told = Text.assemble((said.who, "bold"), ("  " if said.who and said.more else ""), said.more)
        table.add_row(line.clock, f"#{line.seq}", Text(said.what, TONES[said.tone]), told)
    return table


def _on_device(pool: Pool, node: int, device: int) -> tuple[Job | None, Job | None]:
    """Who holds the device, and for whom it is kept."""
    holder = next_one = None
    for job in pool.active_jobs():
        for task in job.tasks:
            if task.node == node and task.devices >> device & 1 and task.state != "released":
                if task.state == "reserved":
                    next_one = job
                else:
                    holder = job
    return holder, next_one
