"""The control directory between a job and its node: its content, and the job's messages."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.kits.waiting import PATIENCE_S, exit_of, until

from bailiff_node_agent.runtime import Exit, Launch, Running, Steps, TaskKey, control_dir
from bailiff_node_agent.runtime.process import ProcessRuntime
from bailiff_node_agent.runtime.supervisor import journal as supervisor_journal
from bailiff_node_agent.runtime.supervisor.host import boottime_us
from bailiff_node_agent.runtime.supervisor.journal import MAX_JOURNAL_BYTES, Journal
from bailiff_node_agent.runtime.supervisor.notice import withdraw_notice
from bailiff_node_agent.runtime.supervisor.socket_server import MAX_CONNECTIONS
from bailiff_node_agent.runtime.supervisor.steps import INITIAL_STEPS, STEP_WORDS, read_steps, write_step
from bailiff_node_agent.runtime.supervisor.stopping import AGENT_LEAD_US, Deadlines, Processes

KEY = TaskKey("train-7", 1, "0")
SECOND = 1_000_000
COMMITTED = {"type": "checkpoint_committed", "step": 5, "bytes": 10, "microseconds": 7, "sha256": "a" * 64, "agreed": True}


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    agent = ProcessRuntime(tmp_path / "state")
    yield agent
    if agent.folders.task(KEY).exists():
        await agent.kill(KEY)
        await until((agent.folders.task(KEY) / "exit.json").exists)
    await agent.close()


async def starts(agent: ProcessRuntime, folder: Path, script: str = "import time; time.sleep(300)", **env: str) -> Path:
    """A job that runs this Python; its control directory."""
    launch = Launch(KEY, [sys.executable, "-c", script], env=env, working_dir=str(folder))
    assert isinstance(await agent.start(launch), Running)
    return agent.folders.task(KEY)


def connected(control: Path) -> socket.socket:
    speaker = socket.socket(socket.AF_UNIX)
    speaker.settimeout(20)
    speaker.connect(str(control / "socket"))
    return speaker


def says(control: Path, *lines: dict[str, Any] | bytes) -> list[dict[str, Any]]:
    """What the node answers to each line."""
    with connected(control) as speaker, speaker.makefile("rb") as proposals:
        found = []
        for line in lines:
            speaker.sendall(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
            found.append(json.loads(proposals.readline()))
        return found


# --- what lies there


async def test_the_folder_exists_before_the_task_and_is_private_to_its_owner(agent: ProcessRuntime, tmp_path: Path) -> None:
    looks = "import os, sys; c = os.environ['BAILIFF_CONTROL_DIR']; print(sorted(os.listdir(c)), os.path.getsize(c + '/steps'))"
    control = await starts(agent, tmp_path, looks)
    await exit_of(agent)
    printed = agent.log_path(KEY).read_text()
    assert "'socket'" in printed
    assert printed.endswith(" 64\n")
    assert control.stat().st_mode & 0o777 == 0o700
    for name in ("steps", "socket", "task.json"):
        assert (control / name).stat().st_mode & 0o077 == 0, name
    assert read_steps(str(control)) == dict(zip(STEP_WORDS, INITIAL_STEPS, strict=True))


async def test_a_notice_is_in_the_file_and_in_shared_memory(agent: ProcessRuntime, tmp_path: Path) -> None:
    control = await starts(agent, tmp_path, WORLD_SIZE="1")
    soft, hard = boottime_us() + 120 * SECOND, boottime_us() + 150 * SECOND
    await agent.notice(KEY, {"reason": "preemption", "preemptor": "serve-1"}, soft, hard)
    notice = json.loads((control / "notice.json").read_text())
    assert notice == {
        "v": 1,
        "reason": "preemption",
        "preemptor": "serve-1",
        "soft_s": 119,
        "hard_s": 149,
        "soft_deadline_boottime_ns": soft * 1000,
        "hard_deadline_boottime_ns": hard * 1000,
    }
    words = read_steps(str(control))
    assert (words["noticed"], words["deadline"], words["agreed"]) == (1, soft * 1000, 0)  # alone: at the next step


async def test_a_rank_of_a_gang_gets_the_agreed_step_once_it_is_known(agent: ProcessRuntime, tmp_path: Path) -> None:
    control = await starts(agent, tmp_path, WORLD_SIZE="2")
    await agent.notice(KEY, {"reason": "preemption"}, 1, 2)
    assert read_steps(str(control))["agreed"] == -1
    agent.propose_step(KEY, 17, agreed=False)
    write_step(str(control), "published", 14)
    write_step(str(control), "confirmed", 17)
    write_step(str(control), "pace", 2500)
    assert agent.steps(KEY) == Steps(published=14, confirmed=17, pace=2500)
    assert await asyncio.wait_for(agent.wait_message(), PATIENCE_S) == KEY
    agent.propose_step(KEY, 17, agreed=True)
    words = read_steps(str(control))
    assert (words["proposed"], words["agreed"]) == (17, 17)


async def test_a_long_path_is_no_hindrance(tmp_path: Path) -> None:
    deep = ProcessRuntime(tmp_path / ("d" * 100))
    speak = "import socket, os; s = socket.socket(socket.AF_UNIX); s.connect(os.environ['BAILIFF_SOCKET']); print('connected')"
    await starts(deep, tmp_path, speak)
    assert (await exit_of(deep)).code == 0
    assert deep.log_path(KEY).read_text() == "connected\n"
    await deep.close()


async def test_the_next_agent_polls_tasks_with_a_notice_fast(agent: ProcessRuntime, tmp_path: Path) -> None:
    control = await starts(agent, tmp_path, WORLD_SIZE="2")
    await agent.notice(KEY, {"reason": "preemption"}, 1, 2)
    await agent.close()
    later = ProcessRuntime(tmp_path / "state")
    await later.adopt()
    write_step(str(control), "confirmed", 17)
    assert await asyncio.wait_for(later.wait_message(), PATIENCE_S) == KEY
    await later.close()


# --- messages


@pytest.mark.slow
async def test_a_message_is_on_disk_when_it_is_answered(agent: ProcessRuntime, tmp_path: Path) -> None:
    control = await starts(agent, tmp_path)
    proposals = says(control, {"type": "hello", "v": 1, "rank": 0, "pid": 7}, COMMITTED, {"type": "yielding", "more": "unknown"})
    assert proposals == [{"ok": True}] * 3
    kept = [json.loads(line) for line in (control / "messages.jsonl").read_text().splitlines()]
    assert [(each["n"], each["type"]) for each in kept] == [(1, "hello"), (2, "checkpoint_committed"), (3, "yielding")]
    assert "more" not in kept[2]
    assert await asyncio.wait_for(agent.wait_message(), PATIENCE_S) == KEY
    assert [line.type for line in agent.messages(KEY, after=1)] == ["checkpoint_committed", "yielding"]
    assert {**agent.messages(KEY)[1].content} == COMMITTED


async def test_messages_sent_while_the_agent_was_down_are_read_by_the_next(agent: ProcessRuntime, tmp_path: Path) -> None:
    control = await starts(agent, tmp_path)
    await agent.close()
    says(control, COMMITTED)
    later = ProcessRuntime(tmp_path / "state")
    await later.adopt()
    assert [line.type for line in later.messages(KEY)] == ["checkpoint_committed"]
    await later.close()


async def test_the_last_messages_before_the_exit_count(agent: ProcessRuntime, tmp_path: Path) -> None:
    last = """import os, socket
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["BAILIFF_SOCKET"])
s.sendall(b'{"type": "yielding"}\\n')
os._exit(3)"""
    await starts(agent, tmp_path, last)
    assert (await exit_of(agent)).code == 3
    assert [line.type for line in agent.messages(KEY)] == ["yielding"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"\n", "not a JSON object"),
        (b"[1]\n", "not a JSON object"),
        (b'{"type": ["hello"]}\n', "type: must be one of hello, "),
        (b'{"type": "goodbye"}\n', "type: must be one of hello, "),
        (b'{"type": "hello", "v": 2, "rank": 0, "pid": 1}\n', "version 1 only"),
        (b'{"type": "hello", "v": 1, "pid": 1}\n', "rank of hello: must be a whole number from 0"),
        (b'{"type": "progress", "step": -1}\n', "step of progress: must be a whole number"),
        (b'{"type": "progress", "step": true}\n', "step of progress"),
        (b'{"type": "progress", "step": 1e3}\n', "step of progress"),
        (b'{"type": "progress", "step": 99999999999999999999}\n', "step of progress"),
        (
            b'{"type": "progress", "step": 1, "total": "2"}\n',
            f"total of progress: must be a whole number from 0 to {2**53 - 1}, or null",
        ),
        (json.dumps({**COMMITTED, "sha256": "A" * 64}).encode() + b"\n", "sha256 of checkpoint_committed: must be 64 hex digits"),
        (json.dumps({**COMMITTED, "agreed": 1}).encode() + b"\n", "agreed of checkpoint_committed: must be true or false"),
        (b'{"type": "acknowledged", "step": 4}\n', "there is no eviction notice"),
        (b"[" * 4000 + b"\n", "not a JSON object"),
        (b"\xff\xfe{\n", "not a JSON object"),
        (b"x" * 5000 + b"\n", "longer than 4096 bytes"),
    ],
)
async def test_a_bad_line_is_answered_with_what_is_wrong_and_has_no_effect(
    agent: ProcessRuntime, tmp_path: Path, line: bytes, why: str
) -> None:
    control = await starts(agent, tmp_path)
    (answer,) = says(control, line)
    assert answer["ok"] is False
    assert why in answer["error"]
    assert agent.messages(KEY) == []
    assert says(control, COMMITTED) == [{"ok": True}]


async def test_a_flood_of_messages_is_throttled_and_the_journal_stays_short(agent: ProcessRuntime, tmp_path: Path) -> None:
    control = await starts(agent, tmp_path)
    says(control, {"type": "hello", "v": 1, "rank": 0, "pid": 1}, COMMITTED)
    with connected(control) as flood:
        flood.setblocking(False)
        sent = 0
        line = b'{"type": "progress", "step": 1, "total": 100}\n'
        with contextlib.suppress(BlockingIOError):  # the node has stopped to read, and its kernel to take
            while sent < 100_000_000:
                sent += flood.send(line * 1000)
        assert sent < 100_000_000
        await until(lambda: "progress" in [line.type for line in agent.messages(KEY)])
    assert (control / "messages.jsonl").stat().st_size < 2 * MAX_JOURNAL_BYTES
    assert {line.type for line in agent.messages(KEY)} == {"hello", "checkpoint_committed", "progress"}


async def test_many_silent_connections_lock_no_client_out(agent: ProcessRuntime, tmp_path: Path) -> None:
    control = await starts(agent, tmp_path)
    with contextlib.ExitStack() as guests:
        for _ in range(2 * MAX_CONNECTIONS):
            guests.enter_context(connected(control))
        assert says(control, COMMITTED) == [{"ok": True}]


def test_a_full_journal_keeps_the_newest_message_of_each_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_journal, "MAX_JOURNAL_BYTES", 2000)
    journal, ledger = Journal(str(tmp_path / "messages.jsonl")), control_dir.JournalReader(tmp_path)
    journal.add({"type": "hello", "v": 1, "rank": 0, "pid": 1})
    for step in range(100):
        journal.add({"type": "progress", "step": step, "total": None})
        if step == 50:
            assert [line.content.get("step") for line in ledger.after(0)] == [None, 50]
    assert (tmp_path / "messages.jsonl").stat().st_size <= 2000
    assert [(line.number, line.type) for line in ledger.after(0)] == [(1, "hello"), (101, "progress")]
    assert [line.number for line in control_dir.JournalReader(tmp_path).after(1)] == [101]


@pytest.mark.parametrize("garbage", ["lines", "a folder", "a link", "a pipe", "nothing"])
def test_anything_in_place_of_the_journal_or_the_steps_is_harmless(tmp_path: Path, garbage: str) -> None:
    for name in ("messages.jsonl", "steps"):
        path = tmp_path / name
        match garbage:
            case "lines":
                lines = b'{"n": 1}\n{"n": true, "at_us": 1, "type": "yielding"}\n\xff\n[[[\n'
                path.write_bytes(lines + b'{"type": "yielding"}\n')
            case "a folder":
                path.mkdir()
            case "a link":
                path.symlink_to("/dev/zero")
            case "a pipe":
                os.mkfifo(path)
    assert control_dir.JournalReader(tmp_path).after(0) == []
    assert control_dir.read_steps(tmp_path) in (Steps(), Steps(pace=0))
    with contextlib.suppress(OSError):
        control_dir.propose_step(tmp_path, 5, agreed=True)


# --- deadlines without an agent


@pytest.mark.slow
async def test_a_supervisor_keeps_the_deadlines_of_an_agent_that_died(agent: ProcessRuntime, tmp_path: Path) -> None:
    ignores = "import signal, time; signal.signal(15, lambda *_: open('asked', 'w').close()); open('ready', 'w'); time.sleep(300)"
    await starts(agent, tmp_path, ignores + "\nwhile True: time.sleep(300)")
    await until((tmp_path / "ready").exists)
    now = boottime_us()
    await agent.deadlines(KEY, now + SECOND // 2, now + SECOND)
    await agent.close()
    later = ProcessRuntime(tmp_path / "state")
    (found,) = await later.adopt()
    end = found if isinstance(found, Exit) else await exit_of(later)
    assert (end.code, end.deadline_stages, end.lease_stages) == (-signal.SIGKILL, ("term_sent", "kill_sent"), ())
    assert end.ended_at >= now + SECOND
    assert (tmp_path / "asked").exists()
    await later.close()


@pytest.mark.slow
async def test_the_supervisor_gives_the_agent_precedence(agent: ProcessRuntime, tmp_path: Path) -> None:
    counts = "import signal, time; signal.signal(15, lambda *_: open('asked', 'a').write('x')); open('ready', 'w')"
    await starts(agent, tmp_path, counts + "\nwhile True: time.sleep(300)")
    await until((tmp_path / "ready").exists)
    now = boottime_us()
    await agent.deadlines(KEY, now, now + 2 * SECOND)
    await agent.terminate(KEY, 2.0)
    end = await exit_of(agent)
    assert end.deadline_stages == ("kill_sent",)
    assert (tmp_path / "asked").read_text() == "x"


# --- what is taken back


async def test_a_withdrawn_notice_is_removed_with_its_step_and_its_deadlines(agent: ProcessRuntime, tmp_path: Path) -> None:
    control = await starts(agent, tmp_path)
    await agent.deadlines(KEY, 10**15, 10**15)
    await agent.notice(KEY, {"reason": "preemption", "preemptor": None}, 10**15, 10**15)
    agent.propose_step(KEY, 7, agreed=True)
    await agent.cancel_eviction(KEY)
    assert not (control / "notice.json").exists()
    assert not (control / "deadlines.json").exists()
    words = read_steps(str(control))
    assert {name: words[name] for name in ("noticed", "agreed", "proposed", "deadline")} == {
        "noticed": 0,
        "agreed": -1,
        "proposed": -1,
        "deadline": 0,
    }
    await agent.cancel_eviction(KEY)


def test_a_supervisor_ignores_withdrawn_deadlines_and_enforces_later_ones(tmp_path: Path) -> None:
    deadlines = Deadlines(str(tmp_path))
    later = boottime_us() + 1000 * SECOND
    control_dir.write_deadlines(tmp_path, later, later + SECOND)
    deadlines.enforce(Processes(0))
    assert deadlines.next_at() == later + AGENT_LEAD_US
    withdraw_notice(str(tmp_path), str(tmp_path))
    deadlines.enforce(Processes(0))
    assert deadlines.next_at() is None
    control_dir.write_deadlines(tmp_path, later + SECOND, later + 2 * SECOND)
    deadlines.enforce(Processes(0))
    assert deadlines.next_at() == later + SECOND + AGENT_LEAD_US
