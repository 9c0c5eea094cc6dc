"""The wall between a job and its node: what the job finds in its control directory, and what becomes of what it says."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from bailiff_node_agent.runtime import Exit, Launch, ProcessRuntime, Running, Steps, TaskKey, wall
from bailiff_node_agent.runtime.supervisor import said
from bailiff_node_agent.runtime.supervisor.ear import MOST_CONNECTIONS
from bailiff_node_agent.runtime.supervisor.host import boottime_us
from bailiff_node_agent.runtime.supervisor.said import LONGEST_JOURNAL, Journal
from bailiff_node_agent.runtime.supervisor.steps import FIRST_STEPS, STEPS, read_steps, write_step
from bailiff_node_agent.runtime.supervisor.stopping import LEAD_US, Deadlines, Processes

KEY = TaskKey("train-7", 1, "0")
SECOND = 1_000_000
COMMITTED = {"say": "checkpoint_committed", "step": 5, "bytes": 10, "microseconds": 7, "sha256": "a" * 64, "agreed": True}


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    agent = ProcessRuntime(tmp_path / "state")
    yield agent
    if agent.control_dir(KEY).exists():
        await agent.kill(KEY)
        await until((agent.control_dir(KEY) / "exit.json").exists)
    await agent.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is awaited happens in another process
            await asyncio.sleep(0.01)


async def starts(agent: ProcessRuntime, folder: Path, script: str = "import time; time.sleep(300)", **env: str) -> Path:
    """A job that runs this Python; its control directory."""
    launch = Launch(KEY, [sys.executable, "-c", script], env=env, working_dir=str(folder))
    assert isinstance(await agent.start(launch), Running)
    return agent.control_dir(KEY)


def connected(control: Path) -> socket.socket:
    speaker = socket.socket(socket.AF_UNIX)
    speaker.settimeout(20)
    speaker.connect(str(control / "socket"))
    return speaker


def says(control: Path, *lines: dict[str, Any] | bytes) -> list[dict[str, Any]]:
    """What the node answers to each line."""
    with connected(control) as speaker, speaker.makefile("rb") as answers:
        found = []
        for line in lines:
            speaker.sendall(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
            found.append(json.loads(answers.readline()))
        return found


async def exit_of(agent: ProcessRuntime) -> Exit:
    return await asyncio.wait_for(agent.wait_exit(), 20)


# --- what lies there


async def test_the_folder_is_there_before_the_task_and_its_owners_alone(agent: ProcessRuntime, tmp_path: Path) -> None:
    looks = "import os, sys; c = os.environ['BAILIFF_CONTROL_DIR']; print(sorted(os.listdir(c)), os.path.getsize(c + '/steps'))"
    control = await starts(agent, tmp_path, looks)
    await exit_of(agent)
    told = agent.log_path(KEY).read_text()
    assert "'socket'" in told
    assert told.endswith(" 64\n")
    assert control.stat().st_mode & 0o777 == 0o700
    for name in ("steps", "socket", "task.json"):
        assert (control / name).stat().st_mode & 0o077 == 0, name
    assert read_steps(str(control)) == dict(zip(STEPS, FIRST_STEPS, strict=True))


async def test_a_notice_is_in_the_file_and_in_shared_memory(agent: ProcessRuntime, tmp_path: Path) -> None:
    control = await starts(agent, tmp_path, WORLD_SIZE="1")
    soft, hard = boottime_us() + 120 * SECOND, boottime_us() + 150 * SECOND
    await agent.notice(KEY, {"reason": "preemption", "for_job": "serve-1"}, soft, hard)
    notice = json.loads((control / "notice.json").read_text())
    assert notice == {
        "v": 1, "reason": "preemption", "for_job": "serve-1", "soft_s": 119, "hard_s": 149,
        "soft_deadline_boottime_ns": soft * 1000, "hard_deadline_boottime_ns": hard * 1000,
    }  # fmt: skip
    words = read_steps(str(control))
    assert (words["noticed"], words["deadline"], words["agreed"]) == (1, soft * 1000, 0)  # alone: at the next step


async def test_a_rank_of_a_gang_is_told_the_step_when_it_is_known(agent: ProcessRuntime, tmp_path: Path) -> None:
    control = await starts(agent, tmp_path, WORLD_SIZE="2")
    await agent.notice(KEY, {"reason": "preemption"}, 1, 2)
    assert read_steps(str(control))["agreed"] == -1
    agent.propose(KEY, 17, agreed=False)
    write_step(str(control), "published", 14)
    write_step(str(control), "confirmed", 17)
    write_step(str(control), "pace", 2500)
    assert agent.steps(KEY) == Steps(published=14, confirmed=17, pace=2500)
    assert await asyncio.wait_for(agent.wait_word(), 20) == KEY
    agent.propose(KEY, 17, agreed=True)
    words = read_steps(str(control))
    assert (words["proposed"], words["agreed"]) == (17, 17)


async def test_a_long_path_is_no_hindrance(tmp_path: Path) -> None:
    deep = ProcessRuntime(tmp_path / ("d" * 100))
    speak = "import socket, os; s = socket.socket(socket.AF_UNIX); s.connect(os.environ['BAILIFF_SOCKET']); print('connected')"
    await starts(deep, tmp_path, speak)
    assert (await exit_of(deep)).code == 0
    assert deep.log_path(KEY).read_text() == "connected\n"
    await deep.close()


async def test_the_next_agent_waits_for_the_word_of_who_has_a_notice(agent: ProcessRuntime, tmp_path: Path) -> None:
    control = await starts(agent, tmp_path, WORLD_SIZE="2")
    await agent.notice(KEY, {"reason": "preemption"}, 1, 2)
    await agent.close()
    later = ProcessRuntime(tmp_path / "state")
    await later.adopt()
    write_step(str(control), "confirmed", 17)
    assert await asyncio.wait_for(later.wait_word(), 20) == KEY
    await later.close()


# --- what is said


async def test_what_is_said_is_on_disk_when_it_is_answered(agent: ProcessRuntime, tmp_path: Path) -> None:
    control = await starts(agent, tmp_path)
    answers = says(control, {"say": "hello", "v": 1, "rank": 0, "pid": 7}, COMMITTED, {"say": "yielding", "more": "unknown"})
    assert answers == [{"ok": True}] * 3
    kept = [json.loads(line) for line in (control / "said.jsonl").read_text().splitlines()]
    assert [(each["n"], each["say"]) for each in kept] == [(1, "hello"), (2, "checkpoint_committed"), (3, "yielding")]
    assert "more" not in kept[2]
    assert await asyncio.wait_for(agent.wait_word(), 20) == KEY
    assert [line.say for line in agent.said(KEY, after=1)] == ["checkpoint_committed", "yielding"]
    assert {**agent.said(KEY)[1].content} == COMMITTED


async def test_what_was_said_while_no_agent_lived_is_there_for_the_next(agent: ProcessRuntime, tmp_path: Path) -> None:
    control = await starts(agent, tmp_path)
    await agent.close()
    says(control, COMMITTED)
    later = ProcessRuntime(tmp_path / "state")
    await later.adopt()
    assert [line.say for line in later.said(KEY)] == ["checkpoint_committed"]
    await later.close()


async def test_the_last_words_of_a_job_that_waits_for_no_answer_count(agent: ProcessRuntime, tmp_path: Path) -> None:
    last = """import os, socket
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["BAILIFF_SOCKET"])
s.sendall(b'{"say": "yielding"}\\n')
os._exit(3)"""
    await starts(agent, tmp_path, last)
    assert (await exit_of(agent)).code == 3
    assert [line.say for line in agent.said(KEY)] == ["yielding"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"\n", "no JSON object"),
        (b"[1]\n", "no JSON object"),
        (b'{"say": ["hello"]}\n', "say: not one of hello, "),
        (b'{"say": "goodbye"}\n', "say: not one of hello, "),
        (b'{"say": "hello", "v": 2, "rank": 0, "pid": 1}\n', "version 1 alone"),
        (b'{"say": "hello", "v": 1, "pid": 1}\n', "rank of hello: must be a whole number from 0"),
        (b'{"say": "progress", "step": -1}\n', "step of progress: must be a whole number"),
        (b'{"say": "progress", "step": true}\n', "step of progress"),
        (b'{"say": "progress", "step": 1e3}\n', "step of progress"),
        (b'{"say": "progress", "step": 99999999999999999999}\n', "step of progress"),
        (b'{"say": "progress", "step": 1, "total": "2"}\n', "total of progress: must be such a number or null"),
        (json.dumps({**COMMITTED, "sha256": "A" * 64}).encode() + b"\n", "sha256 of checkpoint_committed: must be 64 hex digits"),
        (json.dumps({**COMMITTED, "agreed": 1}).encode() + b"\n", "agreed of checkpoint_committed: must be true or false"),
        (b'{"say": "acknowledged", "step": 4}\n', "there is no notice out"),
        (b"[" * 4000 + b"\n", "no JSON object"),
        (b"\xff\xfe{\n", "no JSON object"),
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
    assert agent.said(KEY) == []
    assert says(control, COMMITTED) == [{"ok": True}]


async def test_who_floods_waits_and_the_journal_stays_short(agent: ProcessRuntime, tmp_path: Path) -> None:
    control = await starts(agent, tmp_path)
    says(control, {"say": "hello", "v": 1, "rank": 0, "pid": 1}, COMMITTED)
    with connected(control) as flood:
        flood.setblocking(False)
        sent = 0
        line = b'{"say": "progress", "step": 1, "total": 100}\n'
        with contextlib.suppress(BlockingIOError):  # the node has stopped to read, and its kernel to take
            while sent < 100_000_000:
                sent += flood.send(line * 1000)
        assert sent < 100_000_000
        await until(lambda: "progress" in [line.say for line in agent.said(KEY)])
    assert (control / "said.jsonl").stat().st_size < 2 * LONGEST_JOURNAL
    assert {line.say for line in agent.said(KEY)} == {"hello", "checkpoint_committed", "progress"}


async def test_a_crowd_of_silent_guests_shuts_nobody_out(agent: ProcessRuntime, tmp_path: Path) -> None:
    control = await starts(agent, tmp_path)
    with contextlib.ExitStack() as guests:
        for _ in range(2 * MOST_CONNECTIONS):
            guests.enter_context(connected(control))
        assert says(control, COMMITTED) == [{"ok": True}]


def test_a_long_journal_keeps_the_newest_word_of_each_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(said, "LONGEST_JOURNAL", 2000)
    journal, ledger = Journal(str(tmp_path / "said.jsonl")), wall.Ledger(tmp_path)
    journal.add({"say": "hello", "v": 1, "rank": 0, "pid": 1})
    for step in range(100):
        journal.add({"say": "progress", "step": step, "total": None})
        if step == 50:
            assert [line.content.get("step") for line in ledger.after(0)] == [None, 50]
    assert (tmp_path / "said.jsonl").stat().st_size <= 2000
    assert [(line.number, line.say) for line in ledger.after(0)] == [(1, "hello"), (101, "progress")]
    assert [line.number for line in wall.Ledger(tmp_path).after(1)] == [101]


@pytest.mark.parametrize("garbage", ["lines", "a folder", "a link", "a pipe", "nothing"])
def test_whatever_the_job_puts_in_place_of_the_journal_or_the_steps_harms_nobody(tmp_path: Path, garbage: str) -> None:
    for name in ("said.jsonl", "steps"):
        path = tmp_path / name
        match garbage:
            case "lines":
                path.write_bytes(b'{"n": 1}\n{"n": true, "at_us": 1, "say": "yielding"}\n\xff\n[[[\n' + b'{"say": "yielding"}\n')
            case "a folder":
                path.mkdir()
            case "a link":
                path.symlink_to("/dev/zero")
            case "a pipe":
                os.mkfifo(path)
    assert wall.Ledger(tmp_path).after(0) == []
    assert wall.read_steps(tmp_path) in (Steps(), Steps(pace=0))
    with contextlib.suppress(OSError):
        wall.propose(tmp_path, 5, agreed=True)


# --- deadlines without an agent


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
    assert end.at_boottime_us >= now + SECOND
    assert (tmp_path / "asked").exists()
    await later.close()


async def test_it_lets_the_agent_go_first(agent: ProcessRuntime, tmp_path: Path) -> None:
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


async def test_a_notice_that_is_taken_back_is_gone_with_its_step_and_its_deadlines(agent: ProcessRuntime, tmp_path: Path) -> None:
    control = await starts(agent, tmp_path)
    await agent.deadlines(KEY, 10**15, 10**15)
    await agent.notice(KEY, {"reason": "preemption", "for_job": None}, 10**15, 10**15)
    agent.propose(KEY, 7, agreed=True)
    await agent.spare(KEY)
    assert not (control / "notice.json").exists()
    assert not (control / "deadlines.json").exists()
    words = read_steps(str(control))
    assert {name: words[name] for name in ("noticed", "agreed", "proposed", "deadline")} == {
        "noticed": 0, "agreed": -1, "proposed": -1, "deadline": 0,
    }  # fmt: skip
    await agent.spare(KEY)


def test_a_supervisor_forgets_deadlines_that_were_taken_back_and_takes_later_ones(tmp_path: Path) -> None:
    deadlines = Deadlines(str(tmp_path))
    later = boottime_us() + 1000 * SECOND
    wall.put_deadlines(tmp_path, later, later + SECOND)
    deadlines.enforce(Processes(0))
    assert deadlines.next_at() == later + LEAD_US
    wall.take_back(tmp_path, tmp_path)
    deadlines.enforce(Processes(0))
    assert deadlines.next_at() is None
    wall.put_deadlines(tmp_path, later + SECOND, later + 2 * SECOND)
    deadlines.enforce(Processes(0))
    assert deadlines.next_at() == later + SECOND + LEAD_US
