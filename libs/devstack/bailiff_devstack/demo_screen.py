"""Screen of the demo: the GPUs with their jobs, the current act, the newest events.

On a terminal it is redrawn in place; otherwise each act and each event is printed once, as plain lines.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import NoReturn, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from bailiff.render.record_text.line import TONES, Line, styled
from bailiff.render.record_text.lines import lines
from bailiff_core.model.state import Job, Node, PoolState
from bailiff_core.records import Record
from bailiff_core.records.facts import EvictionStageReached

EVENTS_SHOWN = 12
GPUS_IN_A_ROW = 8
CELL_WIDTH = 10  # a job's name, and a gap
FRAME = 4  # of the panel and its padding, in columns; and in lines the panel, the rule, and the cursor's
PICTURE_WIDTH = 100
REDRAW_INTERVAL_S = 0.125
QUIET = {"ClockAdvanced", "StateDigest", "InputsAdvanced", "ProposalReceived", "EvictionStarted", "TaskProgressed"}
PHASE_STYLES = {"running": "green", "starting": "cyan", "evicting": "yellow", "reserved": "magenta"}


class Screen:
    """A context manager. steps: returns the last step of a job, by name."""

    def __init__(self, console: Console, picture: Path | None = None) -> None:
        self._console, self._picture = console, picture
        self._events: deque[Text] = deque(maxlen=EVENTS_SHOWN)
        self._act = ""
        self._state = PoolState()
        self._live = Live(console=console, auto_refresh=False, transient=False) if console.is_terminal else None
        self.steps: Callable[[str], int | None] = lambda _: None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.update(self._panel(*self._console.size))
            self._live.stop()

    async def redraw(self) -> NoReturn:
        """Redraw at intervals until cancelled."""
        while True:
            if self._live is not None:
                self._live.update(self._panel(*self._console.size), refresh=True)
            await asyncio.sleep(REDRAW_INTERVAL_S)

    def act(self, text: str) -> None:
        """Begin the next act."""
        self._act = text
        if self._live is None:
            self._console.print(f"\n── {text}")

    def event(self, record: Record, state: PoolState) -> None:
        """Show a record. state: with the record applied."""
        self._state = state
        if record.data is not None and record.data.NAME not in QUIET:
            for line in lines(record, state):
                text = styled(line, pool=False)
                text.no_wrap, text.overflow = True, "ellipsis"
                self._events.append(text)
                if self._live is None:
                    self._console.print(styled(line), overflow="ellipsis", no_wrap=True)
        committed = isinstance(record.data, EvictionStageReached) and record.data.stage == "checkpoint_committed"
        if self._picture is not None and committed:
            canvas = Console(record=True, width=PICTURE_WIDTH, file=StringIO())
            canvas.print(self._panel(PICTURE_WIDTH, None))
            picture = canvas.export_svg(title="make demo")
            self._picture.write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL))  # no external fonts
            self._picture = None

    def _panel(self, width: int, height: int | None) -> Panel:
        """The panel within this size; without a height it has all events. A low terminal shows fewer, then less of each GPU."""
        columns = max(1, min(GPUS_IN_A_ROW, (width - FRAME) // CELL_WIDTH))
        nodes, details = self._nodes(), True
        left = EVENTS_SHOWN if height is None else height - FRAME - _lines_of(nodes, columns, details)
        if left < 1:
            details = False
            left = max(0, (height or 0) - FRAME - _lines_of(nodes, columns, details))
        events = list(self._events)[-left:] if left else []
        body = Group(*(self._node(node, columns, details) for node in nodes), Rule(style="dim"), *events)
        return Panel(body, title=f"[bold]{self._act}[/]", title_align="left", padding=(0, 1))

    def _nodes(self) -> list[Node | None]:
        return [*self._state.nodes.values()] or [None]

    def _node(self, node: Node | None, columns: int, details: bool) -> Group:
        if node is None:
            return Group(Text("waiting for the node to join", style="dim"))
        drained = Text(" drained", style="yellow") if node.drain is not None else Text()
        model = node.devices[0].model if node.devices else "no GPU"
        table = Table.grid(padding=(0, 1), expand=True)
        for _ in node.devices[:columns]:
            table.add_column(ratio=1)
        for first in range(0, len(node.devices), columns):
            row = (self._cell(node.number, device.number) for device in node.devices[first : first + columns])
            table.add_row(*(cell if details else cell.split()[0] for cell in row))
        return Group(Text.assemble((node.name, "bold"), (f", {len(node.devices)} × {model}", "dim"), drained), table)

    def _cell(self, node: int, device: int) -> Text:
        holder, reserved_for = _on_device(self._state, node, device)
        cell = Text(no_wrap=True, overflow="ellipsis")
        if holder is None:
            cell.append("–\n", style="dim")
        else:
            cell.append(f"{holder.id}\n", style=f"bold {PHASE_STYLES.get(holder.phase, '')}")
        if reserved_for is not None:
            cell.append(f"→{reserved_for.id}", style="magenta")
        elif holder is not None:
            step = self.steps(holder.id)
            evicting = holder.phase == "evicting"
            cell.append(
                "evicting" if evicting else f"step {step}" if step is not None else "", style="yellow" if evicting else "dim"
            )
        return cell


def _lines_of(nodes: Sequence[Node | None], columns: int, details: bool) -> int:
    """Height of the nodes: a line each, and one or two for each row of GPUs."""
    rows = sum(-(-len(node.devices) // columns) for node in nodes if node is not None)
    return len(nodes) + rows * (2 if details else 1)


def full_table(found: list[Line]) -> Table:
    """The event lines with their whole text, wrapped to the terminal."""
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for line in found:
        text = line.statement
        gap = "  " if text.subject and text.detail else ""
        described = Text.assemble((text.subject, "bold"), gap, text.detail)
        table.add_row(line.clock, f"#{line.seq}", Text(text.what, TONES[text.tone]), described)
    return table


def _on_device(state: PoolState, node: int, device: int) -> tuple[Job | None, Job | None]:
    """The job on the device, and the job for which it is reserved."""
    holder = reserved_for = None
    for job in state.active_jobs():
        for task in job.tasks:
            if task.node == node and task.devices >> device & 1 and task.state != "released":
                if task.state == "reserved":
                    reserved_for = job
                else:
                    holder = job
    return holder, reserved_for
