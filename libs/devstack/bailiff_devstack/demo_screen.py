"""What the demo shows while it runs: the GPUs and who holds them, the act of the story, the newest event lines.

On a terminal it is redrawn in place; anywhere else each act and each event is printed once, as plain lines.
"""

import re
from collections import deque
from io import StringIO
from pathlib import Path
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from bailiff.eventline import lines, styled
from bailiff_core.model.pool import Job, Pool
from bailiff_core.records import Record
from bailiff_core.records.facts import EvictionStaged

EVENTS_SHOWN = 14
PICTURE_WIDTH = 132
QUIET = {"ClockAdvanced", "StateDigest", "InputsAdvanced", "ProposalReceived", "EvictionBegun"}
PHASE_STYLES = {"running": "green", "starting": "cyan", "evicting": "yellow", "reserved": "magenta"}


class Screen:
    """Shows the story. Use it as a context manager."""

    def __init__(self, console: Console, picture: Path | None = None) -> None:
        self._console, self._picture = console, picture
        self._events: deque[Text] = deque(maxlen=EVENTS_SHOWN)
        self._act = ""
        self._pool = Pool()
        self._live = Live(console=console, refresh_per_second=8, transient=False) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def act(self, text: str) -> None:
        """The story comes to its next act."""
        self._act = text
        if self._live is None:
            self._console.print(f"\n── {text}")
        self._draw()

    def event(self, record: Record, pool: Pool) -> None:
        """A record was read, and folded into `pool`."""
        self._pool = pool
        if record.data is not None and record.data.NAME not in QUIET:
            for line in lines(record, pool):
                self._events.append(styled(line))
                if self._live is None:
                    self._console.print(styled(line), overflow="ellipsis", no_wrap=True)
        self._draw()
        if self._picture is not None and isinstance(record.data, EvictionStaged):
            canvas = Console(record=True, width=PICTURE_WIDTH, file=StringIO())
            canvas.print(self._panel())
            picture = canvas.export_svg(title="make demo")
            self._picture.write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL))  # no outside fonts

    def _draw(self) -> None:
        if self._live is not None:
            self._live.update(self._panel())

    def _panel(self) -> Panel:
        for event in self._events:
            event.no_wrap, event.overflow = True, "ellipsis"
        body = Group(self._gpus(), Rule(style="dim"), *self._events)
        return Panel(body, title=f"[bold]{self._act}[/]", title_align="left", padding=(0, 1))

    def _gpus(self) -> Table:
        table = Table.grid(padding=(0, 1), expand=True)
        for node in self._pool.nodes.values():
            row = [Text(f"{node.name}\n{node.devices[0].model if node.devices else 'no GPU'}", style="bold")]
            row += [_cell(self._pool, node.number, device.number) for device in node.devices]
            table.add_row(*row)
        if not self._pool.nodes:
            table.add_row(Text("waiting for the node to join", style="dim"))
        return table


def _cell(pool: Pool, node: int, device: int) -> Text:
    holder, next_one = _on_device(pool, node, device)
    cell = Text(f"GPU {device}\n", style="dim", no_wrap=True, overflow="ellipsis")
    if holder is None and next_one is None:
        cell.append("idle", style="dim")
    if holder is not None:
        cell.append(holder.id, style=f"bold {PHASE_STYLES.get(holder.phase, '')}")
        cell.append("\nleaving" if holder.phase == "evicting" else "\n", style="yellow")
    if next_one is not None:
        cell.append(f"\n→ {next_one.id}", style="magenta")
    return cell


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
