"""`bailiff top`: what it shows in few lines and columns, and how it ends."""

import asyncio
import io
import os
import pty
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from tests.kits.waiting import PATIENCE_S
from tests.unit.client.kit import AnsweringBus, LogWriter, command_on, finished_story, preemption_story

from bailiff.cli.top import Looks, keys, watch_pool
from bailiff.client.client import Client
from bailiff.client.errors import ExitCode
from bailiff_core.model.state import Preemption


def lines(shown: RenderableType, width: int = 80) -> list[str]:
    console = Console(width=width, file=io.StringIO(), force_terminal=False, highlight=False)
    console.print(shown, crop=False)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def shown(log_writer: LogWriter, looks: Looks, height: int = 24, width: int = 80) -> list[str]:
    from bailiff.tables.top import screen

    return lines(screen(looks.view(log_writer.state, log_writer.now, height)), width)


@pytest.fixture
def preempting() -> LogWriter:
    return preemption_story(LogWriter())


def test_it_shows_the_pool_the_running_jobs_and_the_queue(preempting: LogWriter) -> None:
    text = "\n".join(shown(preempting, Looks()))
    running = list(preempting.state.active)
    assert f"pool-a#{preempting.state.seq}" in text
    assert all(name in text for name in running[:5])
    assert "of 2 nodes ready" in text
    assert text.endswith("q quits")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 12), (200, 60)])
def test_it_never_exceeds_the_terminal(width: int, height: int) -> None:
    log_writer = finished_story(LogWriter())
    for number in range(150):
        log_writer.submit(f"a-job-with-a-rather-long-name-that-goes-on-and-on-{number:04}", gpus=1)
    for seq in range(30):
        log_writer.state.preemptions[seq] = Preemption(seq, "p" * 60, ["v" * 60] * 9)
    found = shown(log_writer, Looks(), height, width)
    assert len(found) <= height
    assert max(map(len, found)) <= width
    assert any(line.startswith("PREEMPTIONS 5 of 30") for line in found) == (height > 12)
    assert any("of 147" in line for line in found) == (width >= 80), "it says that there are more"


def test_a_preemption_that_has_ended_is_still_shown_and_many_are_not_kept(preempting: LogWriter) -> None:
    looks, state = Looks(), preempting.state
    runs, ends = next(iter(state.active)), "gone"
    state.preemptions = {7: Preemption(7, runs, ["train-1"]), 9: Preemption(9, ends, ["train-2"])}
    assert [line for line in shown(preempting, looks) if line.startswith("#")] == [
        "#9 gone ← train-2  now",
        f"#7 {runs} ← train-1  now",
    ]
    preempting.now += 5_000_000
    assert "#9 gone ← train-2  for 5s" in shown(preempting, looks)
    state.preemptions = {}
    assert [line.rsplit("  ")[-1] for line in shown(preempting, looks) if line.startswith("#")] == ["over", "runs"]
    for seq in range(100, 200):
        state.preemptions = {seq: Preemption(seq, "x", ["y"])}
        looks.view(state, preempting.now, 24)
    assert len(looks.seen) <= 22


def test_in_a_pipe_it_prints_once(preempting: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = command_on(lambda: AnsweringBus(preempting), monkeypatch, str(tmp_path))("top")
    assert found.exit_code == ExitCode.DONE
    assert found.stdout.count("pool-a#") == 1


async def test_it_draws_what_changes_until_q_is_typed(preempting: LogWriter) -> None:
    quits, drawn = asyncio.Event(), list[str]()

    def draw(screen: RenderableType) -> None:
        drawn.append("\n".join(lines(screen)))
        if len(drawn) == 1:
            preempting.submit("another", gpus=1)
        else:
            quits.set()

    async with Client(AnsweringBus(preempting), source="/test") as client:
        await watch_pool(client, None, Looks(), draw, quits, lambda: 24, 0)
    assert ["another" in each for each in drawn] == [False, True]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """A terminal as standard input: what a person types into, and what the program reads."""
    person, program = pty.openpty()
    with os.fdopen(program, "rb", buffering=0, closefd=True) as opened:
        monkeypatch.setattr(sys, "stdin", opened)
        yield person, program
    os.close(person)


@pytest.mark.parametrize("typed", [b"q", b"Q", b"jkq"])
async def test_q_ends_it_and_the_terminal_is_as_before(terminal: tuple[int, int], typed: bytes) -> None:
    person, program = terminal
    before, quits = termios.tcgetattr(program), asyncio.Event()
    with keys(quits):
        assert termios.tcgetattr(program) != before
        os.write(person, b"x")
        os.write(person, typed)
        await asyncio.wait_for(quits.wait(), PATIENCE_S)
    assert termios.tcgetattr(program) == before


async def test_an_interrupt_leaves_the_terminal_as_before(terminal: tuple[int, int]) -> None:
    _, program = terminal
    before = termios.tcgetattr(program)
    with pytest.raises(asyncio.CancelledError), keys(asyncio.Event()):
        raise asyncio.CancelledError
    assert termios.tcgetattr(program) == before
