"""`bailiff top`: a live view of a pool."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from .session import LOOK_EVERY, Session, command

if TYPE_CHECKING:
    import asyncio

    from rich.console import RenderableType

    from bailiff.client.client import Client
    from bailiff.tables.top import Preempting, TopView
    from bailiff_core.model.state import PoolState

PIPE_HEIGHT = 100  # lines that are printed into a pipe
KEPT = 20  # preemptions that have ended
QUIT = b"qQ"


@command("top", leave_out=("output",))
async def top(
    session: Session, every: Annotated[float, typer.Option(metavar="SECONDS", min=0.2, help="Refresh so often.")] = LOOK_EVERY
) -> None:
    """Watch a pool: GPUs, preemptions in progress, running jobs and the queue. q or Ctrl-C ends it; in a pipe it prints once.

    Lines that do not fit are left out, and say so. Preemptions that end meanwhile stay for a while.
    """
    import asyncio

    quits, looks = asyncio.Event(), Looks()
    height = session.out.height if session.out.is_terminal else PIPE_HEIGHT
    async with session.client() as client:
        if not session.out.is_terminal:
            session.out.print(await looks.screen(client, session.pool, height), crop=False)
            return
        with keys(quits), session.screen() as draw:
            await watch_pool(client, session.pool, looks, draw, quits, lambda: session.out.height, every)


async def watch_pool(
    client: Client,
    pool: str | None,
    looks: Looks,
    draw: Callable[[RenderableType], None],
    quits: asyncio.Event,
    height: Callable[[], int],
    every: float,
) -> None:
    """Draws the pool again and again until `quits` is set."""
    import asyncio

    while not quits.is_set():
        draw(await looks.screen(client, pool, height()))
        with suppress(TimeoutError):
            await asyncio.wait_for(quits.wait(), every)


@dataclass(slots=True)
class Looks:
    """What one look remembers for the next: the preemptions seen.

    Attributes:
        seen: By the record of the decision: since when, and what was last seen.
    """

    seen: dict[int, tuple[int, Preempting]] = field(default_factory=dict)

    async def screen(self, client: Client, pool: str | None, height: int) -> RenderableType:
        """The screen as of the log's end."""
        from bailiff.tables.top import screen

        state = (await client.projection(pool)).state
        return screen(self.view(state, client.now(), height))

    def view(self, state: PoolState, now: int, height: int) -> TopView:
        """What fits on a screen of this height; only those jobs are decoded."""
        from bailiff.render.serializers.jobs import job_rows, pending
        from bailiff.render.serializers.pools import pool_row
        from bailiff.tables.top import TopView, rows_for

        preemptions, waits = self._preemptions(state, now), pending(state)
        most, most_active, most_pending = rows_for(height, len(preemptions))
        active = sorted(state.active, key=lambda name: name not in state.evicting)
        return TopView(
            pool_row(state, now),
            preemptions[:most],
            job_rows(state, now, active[:most_active]),
            job_rows(state, now, waits[:most_pending]),
            len(active),
            len(waits),
            len(preemptions),
        )

    def _preemptions(self, state: PoolState, now: int) -> list[Preempting]:
        """Those that go on, the newest first, then those that have ended."""
        from bailiff.tables.top import Preempting

        for seq, known in state.preemptions.items():
            since = self.seen.get(seq, (now, None))[0]
            left = [name for name in known.victims if name in state.evicting] or known.victims
            self.seen[seq] = since, Preempting(seq, known.job, left, max(0, now - since))
        for seq, (since, each) in self.seen.items():
            if seq not in state.preemptions and not each.outcome:
                runs = each.job in state.active and each.job not in state.reserved
                self.seen[seq] = since, Preempting(seq, each.job, each.victims, each.age_us, "runs" if runs else "over")
        over = [seq for seq in sorted(self.seen) if seq not in state.preemptions]
        for seq in over[: max(0, len(over) - KEPT)]:
            del self.seen[seq]
        return [self.seen[seq][1] for seq in sorted(self.seen, key=lambda seq: (seq not in state.preemptions, -seq))]


@contextmanager
def keys(quits: asyncio.Event) -> Iterator[None]:
    """Sets `quits` when somebody types q, without a line end. The terminal is as before at the end of the block."""
    import asyncio
    import os
    import termios
    import tty

    terminal = sys.stdin.fileno() if sys.stdin.isatty() else None
    if terminal is None:
        yield
        return
    before, loop = termios.tcgetattr(terminal), asyncio.get_running_loop()

    def typed() -> None:
        typed_bytes = os.read(terminal, 1024)
        if not typed_bytes or any(key in QUIT for key in typed_bytes):
            quits.set()

    tty.setcbreak(terminal)
    loop.add_reader(terminal, typed)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
