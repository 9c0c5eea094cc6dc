"""The pseudo-terminal of a task: a real supervisor, a real job, clients of every kind."""

import asyncio
import contextlib
import os
import select
import signal
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kits.waiting import PATIENCE_S, until

from bailiff.attach.frames import INPUT, OUTPUT, SKIPPED, frame, next_frame, resize
from bailiff_node_agent.attach.attachments import _connect
from bailiff_node_agent.runtime import Exit, Launch, Running, TaskKey
from bailiff_node_agent.runtime.process import ProcessRuntime
from bailiff_node_agent.runtime.supervisor.terminal import READS_AT_ONCE, Terminal

KEY = TaskKey("shell-1", 1, "0")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Attach = Callable[[], Awaitable[Streams]]


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    made = ProcessRuntime(tmp_path / "state", hidden=(tmp_path / "state",))
    yield made
    with contextlib.suppress(Exception):
        await made.kill(KEY)
    await made.close()


async def start(runtime: ProcessRuntime, folder: Path, command: str) -> Attach:
    launch = Launch(KEY, command, working_dir=str(folder), log_dir=folder, tty=True)
    assert isinstance(await runtime.start(launch), Running)
    path = runtime.terminal_path(KEY)
    assert path is not None
    return lambda: _connect(path)


async def shown(reader: asyncio.StreamReader, text: bytes) -> bytes:
    seen = b""
    async with asyncio.timeout(60):
        while text not in seen:
            found = await next_frame(reader)
            assert found is not None, seen
            seen += found[1] if found[0] == OUTPUT else b""
    return seen


async def exited(runtime: ProcessRuntime) -> Exit:
    return await asyncio.wait_for(runtime.wait_exit(), PATIENCE_S)


def test_who_writes_to_the_terminal_without_end_does_not_keep_the_tasks_end_from_being_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process of the job's user may have opened it, and outlives the task."""
    terminal, read = Terminal(select.poll(), str(tmp_path), str(tmp_path / "log"), None), []

    def endless(*_: int) -> bytes:
        read.append(1)
        assert len(read) < 10 * READS_AT_ONCE
        return b"y"

    monkeypatch.setattr(os, "read", endless)
    terminal.drain()
    assert read


async def test_a_job_has_a_controlling_terminal_with_its_clients_size(runtime: ProcessRuntime, tmp_path: Path) -> None:
    attach = await start(
        runtime, tmp_path, "trap 'stty size; exit 3' INT; read line; echo got $line; stty size; sleep 100 & wait"
    )
    reader, writer = await attach()
    writer.write(resize(33, 77) + frame(INPUT, b"word\n"))
    await shown(reader, b"got word\r\n33 77\r\n")
    writer.write(frame(INPUT, b"\x03"))
    await shown(reader, b"33 77")
    assert (await exited(runtime)).code == 3
    assert await next_frame(reader) is None
    writer.close()
    assert b"got word" in (tmp_path / f"{KEY}.log").read_bytes()


async def test_who_comes_later_sees_what_was_printed_and_all_see_what_follows(runtime: ProcessRuntime, tmp_path: Path) -> None:
    attach = await start(runtime, tmp_path, "echo early; read line; echo late; read line")
    first, second = await attach(), await attach()
    for reader, _ in (first, second):
        await shown(reader, b"early")
    second[1].write(frame(INPUT, b"\n"))
    for reader, _ in (first, second):
        await shown(reader, b"late")
    for _, writer in (first, second):
        writer.close()


async def test_a_client_that_reads_nothing_does_not_hold_up_the_job(runtime: ProcessRuntime, tmp_path: Path) -> None:
    attach = await start(runtime, tmp_path, "read line; yes 0123456789 | head -c 5000000; echo done > finished; read line")
    reader, writer = await attach()
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(frame(INPUT, b"\n"))
    await until((tmp_path / "finished").exists)
    writer.transport.resume_reading()  # type: ignore[attr-defined]
    counts, received = [], 0
    while sum(counts) + received < 5_000_000:  # also without more output it learns of all that was left out
        found = await asyncio.wait_for(next_frame(reader), 60)
        assert found is not None
        if found[0] == SKIPPED:
            counts.append(struct.unpack(">Q", found[1])[0])
        else:
            received += len(found[1])
    assert sum(counts) > 1_000_000
    writer.write(frame(INPUT, b"x\n"))
    while await asyncio.wait_for(next_frame(reader), 60) is not None:
        pass
    assert (tmp_path / f"{KEY}.log").stat().st_size > 5_000_000  # the log has all of it
    writer.close()


@pytest.mark.slow
async def test_a_job_that_reads_nothing_bounds_what_waits_for_it(runtime: ProcessRuntime, tmp_path: Path) -> None:
    attach = await start(runtime, tmp_path, "stty raw -echo; echo ready; exec sleep 100")
    reader, writer = await attach()
    await shown(reader, b"ready")

    async def type_on() -> None:
        while True:
            writer.write(frame(INPUT, b"x" * 60_000))
            await writer.drain()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(type_on(), 1)
    writer.transport.abort()


@pytest.mark.parametrize("nonsense", [b"GET / HTTP/1.0\r\n\r\n", frame(b"?", b""), frame(b"R", b"1"), b"I\xff\xff\xff\xff"])
async def test_nonsense_ends_its_own_connection_only(runtime: ProcessRuntime, tmp_path: Path, nonsense: bytes) -> None:
    attach = await start(runtime, tmp_path, "read line; echo alive; read line")
    good, bad = await attach(), await attach()
    bad[1].write(nonsense)
    assert await asyncio.wait_for(next_frame(bad[0]), PATIENCE_S) is None
    good[1].write(frame(INPUT, b"\n"))
    await shown(good[0], b"alive")
    for _, writer in (good, bad):
        writer.close()


async def test_the_terminal_survives_the_agent(runtime: ProcessRuntime, tmp_path: Path) -> None:
    attach = await start(runtime, tmp_path, "read line; echo still here; exit 5")
    _, before = await attach()
    before.close()
    await runtime.close()
    later = ProcessRuntime(tmp_path / "state", hidden=(tmp_path / "state",))
    (state,) = await later.adopt()
    assert isinstance(state, Running)
    reader, writer = await attach()
    writer.write(frame(INPUT, b"\n"))
    await shown(reader, b"still here")
    writer.close()
    assert (await exited(later)).code == 5
    await later.close()


async def test_a_job_without_a_terminal_has_none(runtime: ProcessRuntime, tmp_path: Path) -> None:
    launch = Launch(KEY, "tty; exec sleep 100", working_dir=str(tmp_path), log_dir=tmp_path)
    assert isinstance(await runtime.start(replace(launch, tty=False)), Running)
    assert runtime.terminal_path(KEY) is None
    os.kill(runtime.pids(KEY)[0], signal.SIGKILL)
    await exited(runtime)
