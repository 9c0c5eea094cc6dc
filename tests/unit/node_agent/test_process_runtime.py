"""Jobs, agents and supervisors that end in every order, with real processes."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.kits.waiting import exit_of, until

from bailiff_node_agent.disk import DamagedFile
from bailiff_node_agent.disk.storage import write_durably
from bailiff_node_agent.runtime import Exit, Launch, Running, TaskKey
from bailiff_node_agent.runtime.process import ProcessRuntime
from bailiff_node_agent.runtime.supervisor.host import write_json
from bailiff_node_agent.runtime.supervisor.processes import read_process, scan
from bailiff_node_agent.runtime.supervisors import Supervisors

pytestmark = pytest.mark.slow  # each test starts processes

KEY = TaskKey("train-7", 1, "0")
WAITS = "while :; do sleep 0.02; done"


def processes_of(folder: Path) -> list[int]:
    """Processes that work in the folder or carry its name: jobs, supervisors and agents of this test."""
    found = []
    for process in scan():
        if process.pid != os.getpid():
            with contextlib.suppress(OSError):
                environment = Path(f"/proc/{process.pid}/environ").read_bytes()
                works_in = bytes(Path(f"/proc/{process.pid}/cwd").readlink())
                if bytes(folder) in environment + arguments_of(process.pid) + works_in:
                    found.append(process.pid)
    return found


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    agent = ProcessRuntime(tmp_path / "state")
    yield agent
    await agent.close()


@pytest.fixture(autouse=True)
async def nothing_is_left_behind(tmp_path: Path) -> AsyncIterator[None]:
    yield
    try:
        await until(lambda: not processes_of(tmp_path))
    finally:
        for pid in processes_of(tmp_path):
            os.kill(pid, signal.SIGKILL)


async def run(agent: ProcessRuntime, command: str | list[str], folder: Path, **env: str) -> Running:
    running = await agent.start(Launch(KEY, command, env=env, working_dir=str(folder)))
    assert isinstance(running, Running)
    return running


def supervisor_of(agent: ProcessRuntime, key: TaskKey = KEY) -> int:
    pid = json.loads((agent.folders.task(key) / "running.json").read_text())["supervisor_pid"]
    assert isinstance(pid, int)
    return pid


def pid_in(file: Path) -> Callable[[], int]:
    return lambda: int(file.read_text() or 0) if file.exists() else 0


def arguments_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def lives(pid: int) -> bool:
    return read_process(pid) is not None


# --- what a job gets


async def test_the_job_writes_to_its_log_and_ends_with_its_code(agent: ProcessRuntime, tmp_path: Path) -> None:
    await run(agent, "echo out; echo err >&2; exit 3", tmp_path)
    assert (await exit_of(agent)).code == 3
    assert agent.log_path(KEY) == agent.folders.task(KEY) / "log"
    assert agent.log_path(KEY).read_text() == "out\nerr\n"


async def test_a_log_in_a_folder_of_its_own_stays_when_the_task_is_forgotten(agent: ProcessRuntime, tmp_path: Path) -> None:
    await agent.start(Launch(KEY, "echo hello", log_dir=tmp_path))
    await exit_of(agent)
    log = agent.log_path(KEY)
    await agent.forget(KEY)
    assert log.read_text() == "hello\n"
    assert not agent.folders.task(KEY).exists()


async def test_a_list_is_run_without_a_shell_and_found_on_the_path(agent: ProcessRuntime, tmp_path: Path) -> None:
    await run(agent, ["echo", "$HOME", "two words"], tmp_path)
    assert (await exit_of(agent)).code == 0
    assert agent.log_path(KEY).read_text() == "$HOME two words\n"


async def test_the_environment_is_the_launchs_and_not_the_agents(
    agent: ProcessRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAILIFF_KAFKA_PASSWORD", "the agent's own")
    monkeypatch.setenv("HOME", str(tmp_path))
    await run(agent, ["env"], tmp_path, RANK="0", BAILIFF_TASK="forged")
    await exit_of(agent)
    lines = agent.log_path(KEY).read_text().splitlines()
    assert sorted(lines) == sorted(
        [
            f"PATH={os.environ['PATH']}",
            f"HOME={tmp_path}",
            "RANK=0",
            f"BAILIFF_TASK={KEY}",
            f"BAILIFF_CONTROL_DIR={agent.folders.task(KEY)}",
            f"BAILIFF_SOCKET={agent.folders.task(KEY)}/socket",
        ]
    )


async def test_a_secret_is_in_no_argument_list_and_in_no_file(agent: ProcessRuntime, tmp_path: Path) -> None:
    await run(agent, "exec sleep 300 # hunter2", tmp_path, PASSWORD="hunter2")
    assert b"hunter2" not in arguments_of(supervisor_of(agent))
    kept = [file for file in (tmp_path / "state").rglob("*") if file.is_file()]
    assert kept
    assert not [file for file in kept if b"hunter2" in file.read_bytes()]
    await agent.kill(KEY)


async def test_a_job_inherits_no_ignored_or_blocked_signal(agent: ProcessRuntime, tmp_path: Path) -> None:
    await run(agent, ["grep", "-E", "SigBlk|SigIgn", "/proc/self/status"], tmp_path)
    await exit_of(agent)
    masks = agent.log_path(KEY).read_text().split()[1::2]
    libc_keeps = 1 << 31 | 1 << 32  # signals 32 and 33 are the C library's own; no program can set them
    assert [int(mask, 16) & ~libc_keeps for mask in masks] == [0, 0]


async def test_a_job_inherits_no_open_file(agent: ProcessRuntime, tmp_path: Path) -> None:
    await run(agent, ["ls", "/proc/self/fd"], tmp_path)
    await exit_of(agent)
    assert agent.log_path(KEY).read_text().split() == ["0", "1", "2", "3"]  # 3 is the folder that ls reads


async def test_a_job_finds_its_notice(agent: ProcessRuntime, tmp_path: Path) -> None:
    script = 'while ! test -e "$BAILIFF_CONTROL_DIR/notice.json"; do sleep 0.02; done; exit 85'
    await run(agent, script, tmp_path)
    await agent.notice(KEY, {"reason": "preempted", "deadline_s": 120})
    assert (await exit_of(agent)).code == 85
    assert json.loads((agent.folders.task(KEY) / "notice.json").read_text())["reason"] == "preempted"


@pytest.mark.parametrize(
    ("launch", "code", "error"),
    [
        (Launch(KEY, ["no-such-program"]), 127, "command: No such file or directory"),
        (Launch(KEY, ["/etc/passwd"]), 126, "command: Permission denied"),
        (Launch(KEY, []), 126, "command: IndexError"),
        (Launch(KEY, "true", working_dir="/no/such/folder"), 127, "working directory: No such file or directory"),
        (Launch(KEY, "true", log_dir=Path("/no/such/folder")), 127, "log file: No such file or directory"),
    ],
)
async def test_a_failed_start_has_a_reason_without_private_text(
    agent: ProcessRuntime, launch: Launch, code: int, error: str
) -> None:
    await agent.start(launch)
    end = await exit_of(agent)
    assert (end.code, end.error, end.supervisor_lost) == (code, error, False)


async def test_the_log_of_a_failed_start_names_the_program(agent: ProcessRuntime) -> None:
    await agent.start(Launch(KEY, ["no-such-program", "--token", "hunter2"]))
    await exit_of(agent)
    said = "[bailiff] it was not started: command no-such-program: No such file or directory\n"
    assert agent.log_path(KEY).read_text() == said


@pytest.mark.parametrize("at", ["submitted", "own", "home"])
async def test_a_task_runs_in_its_folder_or_where_it_was_submitted_or_at_home(
    agent: ProcessRuntime, at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {name: tmp_path / name for name in ("submitted", "own", "home")}
    for folder in folders.values():
        folder.mkdir()
    monkeypatch.setenv("HOME", str(folders["home"]))
    submitted = folders["submitted"] if at != "home" else tmp_path / "gone"
    own = str(folders["own"]) if at == "own" else None
    where = {"BAILIFF_SUBMIT_DIR": str(submitted)}
    await agent.start(Launch(KEY, "echo here > mark", env=where, working_dir=own, log_dir=tmp_path))
    assert (await exit_of(agent)).code == 0
    assert [name for name, folder in folders.items() if (folder / "mark").exists()] == [at]
    said = (tmp_path / f"{KEY}.log").read_text()
    missing = f"[bailiff] it runs in {folders['home']}: {submitted}, where it was submitted: No such file or directory\n"
    assert said == (missing if at == "home" else "")


def test_agent_and_supervisor_may_write_a_file_at_the_same_time(tmp_path: Path) -> None:
    file = tmp_path / "terminating.json"
    with ThreadPoolExecutor(2) as pool:
        by_agent = pool.submit(lambda: [write_durably(file, b'{"by": 1}') for _ in range(30)])
        by_supervisor = pool.submit(lambda: [write_json(str(file), {"by": 2}) for _ in range(30)])
        by_agent.result(), by_supervisor.result()
    assert json.loads(file.read_text())["by"] in (1, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["terminating.json"]


# --- trees


DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        if "stubborn" in sys.argv:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open("daemon.new", "w").write(str(os.getpid()))
        os.rename("daemon.new", "daemon")
        time.sleep(300)
    os._exit(0)
os.wait()
while "wait" in sys.argv:
    time.sleep(300)
while not os.path.exists("daemon"):
    time.sleep(0.01)
"""


async def test_a_job_that_forks_twice_into_another_session_leaves_nothing(agent: ProcessRuntime, tmp_path: Path) -> None:
    running = await run(agent, [sys.executable, "-c", DAEMON, "wait", "stubborn"], tmp_path)
    daemon_pid = pid_in(tmp_path / "daemon")
    await until(daemon_pid)
    assert agent.pids(KEY) == tuple(sorted((int(running.instance), daemon_pid())))

    await agent.kill(KEY)
    assert not lives(daemon_pid())
    assert (await exit_of(agent)).code == -signal.SIGKILL


@pytest.mark.parametrize("manner", ["obedient", "stubborn"])
async def test_what_outlives_the_main_process_is_ended_and_counted(agent: ProcessRuntime, tmp_path: Path, manner: str) -> None:
    await run(agent, [sys.executable, "-c", DAEMON, manner], tmp_path)
    end = await exit_of(agent)
    assert (end.code, end.leftovers) == (0, 1)
    assert not lives(pid_in(tmp_path / "daemon")())


SAVES_SLOWLY = "(trap 'echo term >> terms; sleep 2.3; touch saved; exit 0' TERM; touch ready; {}); true"


async def test_a_shell_that_dies_of_term_does_not_cut_short_the_program_below_it(agent: ProcessRuntime, tmp_path: Path) -> None:
    await run(agent, SAVES_SLOWLY.format(WAITS), tmp_path)
    await until((tmp_path / "ready").exists)
    await agent.terminate(KEY, grace_s=10)
    end = await exit_of(agent)
    assert end.code == -signal.SIGTERM
    assert end.leftovers
    assert (tmp_path / "saved").exists()
    assert (tmp_path / "terms").read_text() == "term\n"


async def test_no_zombie_stays_of_what_the_job_orphans(agent: ProcessRuntime, tmp_path: Path) -> None:
    await run(agent, f"(true & echo $! > orphan); touch ready; {WAITS}", tmp_path)
    await until((tmp_path / "ready").exists)
    orphan = pid_in(tmp_path / "orphan")()
    await until(lambda: not Path(f"/proc/{orphan}").exists())
    await agent.kill(KEY)
    await exit_of(agent)


# --- the agent dies


AGENT = """
import asyncio, sys
from pathlib import Path
from bailiff_node_agent.runtime import Launch, TaskKey
from bailiff_node_agent.runtime.process import ProcessRuntime

async def main():
    agent = ProcessRuntime(Path(sys.argv[1]))
    print((await agent.start(Launch(TaskKey("train-7", 1, "0"), sys.argv[2], working_dir=sys.argv[3]))).instance, flush=True)
    await agent.wait_exit()
    await asyncio.sleep(300)

asyncio.run(main())
"""


def agent_that_dies(tmp_path: Path, job: str) -> int:
    """Starts the job from an agent of its own, kills all of that one's process group, returns the job's pid."""
    command = [sys.executable, "-c", AGENT, str(tmp_path / "state"), job, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as first:
        assert first.stdout
        pid = int(first.stdout.readline())
        os.killpg(first.pid, signal.SIGKILL)
    return pid


async def test_a_job_outlives_its_agent_and_the_next_one_gets_its_exit(agent: ProcessRuntime, tmp_path: Path) -> None:
    pid = agent_that_dies(tmp_path, "while ! test -e go; do sleep 0.02; done; exit 7")
    [running] = await agent.adopt()
    assert isinstance(running, Running)
    assert (running.key, int(running.instance)) == (KEY, pid)
    assert lives(pid)

    (tmp_path / "go").touch()
    assert (await exit_of(agent)).code == 7


async def test_a_job_that_ends_while_there_is_no_agent_keeps_its_code(agent: ProcessRuntime, tmp_path: Path) -> None:
    agent_that_dies(tmp_path, "while ! test -e go; do sleep 0.02; done; exit 7")
    (tmp_path / "go").touch()
    await until((agent.folders.task(KEY) / "exit.json").exists)
    [end] = await agent.adopt()
    assert isinstance(end, Exit)
    assert (end.code, end.supervisor_lost) == (7, False)


async def test_an_agent_that_died_before_the_supervisor_began_has_lost_the_task(
    agent: ProcessRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Supervisors, "start", lambda *_: None)
    end = await agent.start(Launch(KEY, "touch ran", working_dir=str(tmp_path)))
    assert isinstance(end, Exit)
    assert end.supervisor_lost

    monkeypatch.undo()
    assert await agent.start(Launch(KEY, "touch ran", working_dir=str(tmp_path))) == end
    assert not (tmp_path / "ran").exists()


async def test_what_an_agent_left_half_made_or_half_removed_is_cleared_away(agent: ProcessRuntime, tmp_path: Path) -> None:
    (tmp_path / "state" / "unfinished" / "a-1-0-12345678").mkdir()
    assert await agent.adopt() == []
    assert agent.clearing is not None
    await agent.clearing
    assert [*(tmp_path / "state" / "unfinished").iterdir()] == []


@pytest.mark.parametrize("name", ["task.json", "lock"])
async def test_a_folder_without_its_record_or_lock_is_of_a_task_that_was_removed(
    agent: ProcessRuntime, tmp_path: Path, name: str
) -> None:
    running = await run(agent, "exec sleep 300", tmp_path)
    (agent.folders.task(KEY) / name).unlink()
    again = ProcessRuntime(tmp_path / "state")
    assert await again.adopt() == []
    assert not lives(int(running.instance)), "its job runs elsewhere"
    assert again.folders.tasks() == []


async def test_a_connection_that_cannot_be_unlocked_is_reported_as_left(
    agent: ProcessRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    await agent.start(Launch(KEY, "true"))
    await exit_of(agent)
    task = agent.folders.known(KEY)
    write_json(task / "save.json", {"connections": [["127.0.0.1", 1, "127.0.0.1", 2]]})

    def refused(_: object) -> None:
        raise OSError("not permitted")

    monkeypatch.setattr("bailiff_node_agent.runtime.process.unlock", refused)
    await agent.forget(KEY)
    assert dict(agent.left) == {task: "its connections may stay locked, see `nft list ruleset`: not permitted"}


async def test_forgetting_a_task_before_its_supervisor_has_exited_is_harmless(agent: ProcessRuntime, tmp_path: Path) -> None:
    await run(agent, "true", tmp_path)
    while not (agent.folders.task(KEY) / "exit.json").exists():
        pass  # without an iteration of the event loop, so that the agent does not know of the exit yet
    await agent.forget(KEY)
    other = TaskKey("other", 0, "0")
    await agent.start(Launch(other, "exit 3"))
    assert (await exit_of(agent)).key == other


async def test_a_job_with_a_dot_in_front_of_its_name_is_a_job(agent: ProcessRuntime, tmp_path: Path) -> None:
    hidden = TaskKey(".hidden", 0, "..")
    await agent.start(Launch(hidden, "exit 3"))
    end = await exit_of(agent)
    assert await ProcessRuntime(tmp_path / "state").adopt() == [end]
    await agent.forget(hidden)
    assert not agent.folders.task(hidden).exists()
    assert [*(tmp_path / "state" / "unfinished").iterdir()] == []


# --- the supervisor, or the process that forks supervisors, dies


async def test_tasks_run_on_and_others_start_although_the_process_that_forks_supervisors_was_killed(
    agent: ProcessRuntime, tmp_path: Path
) -> None:
    first = await run(agent, "exec sleep 300", tmp_path)
    supervisor = read_process(supervisor_of(agent))
    assert supervisor is not None
    os.kill(supervisor.parent, signal.SIGKILL)
    await until(lambda: not lives(supervisor.parent))
    other = TaskKey("train-8", 1, "0")
    await agent.start(Launch(other, "exit 3"))
    end = await exit_of(agent)
    assert (end.key, end.code, end.supervisor_lost) == (other, 3, False)
    assert lives(int(first.instance))
    await agent.kill(KEY)
    assert (await exit_of(agent)).key == KEY


ESCAPES = f"setsid sleep 300 & env -i sleep 300 & touch ready; {WAITS}"


async def test_a_task_whose_supervisor_is_killed_is_killed_and_reported_as_lost(agent: ProcessRuntime, tmp_path: Path) -> None:
    await run(agent, ESCAPES, tmp_path)
    await until(lambda: len(agent.pids(KEY)) >= 3 and (tmp_path / "ready").exists())
    tree = agent.pids(KEY)

    os.kill(supervisor_of(agent), signal.SIGKILL)
    end = await exit_of(agent)
    assert (end.key, end.code, end.supervisor_lost) == (KEY, -signal.SIGKILL, True)
    assert not [pid for pid in tree if lives(pid)]
    assert await ProcessRuntime(tmp_path / "state").adopt() == [end]


async def test_a_job_that_has_shed_its_environment_is_found_by_its_session(agent: ProcessRuntime, tmp_path: Path) -> None:
    await run(agent, ["env", "-i", "/bin/sh", "-c", f"sleep 300 & touch ready; {WAITS}"], tmp_path)
    await until((tmp_path / "ready").exists)
    tree = agent.pids(KEY)
    os.kill(supervisor_of(agent), signal.SIGKILL)
    assert (await exit_of(agent)).supervisor_lost
    assert not [pid for pid in tree if lives(pid)]


async def test_a_supervisor_killed_while_there_is_no_agent_is_found_out_by_the_next(
    agent: ProcessRuntime, tmp_path: Path
) -> None:
    pid = agent_that_dies(tmp_path, WAITS)
    lost = supervisor_of(agent)
    os.kill(lost, signal.SIGKILL)
    await until(lambda: not lives(lost))
    [end] = await agent.adopt()
    assert isinstance(end, Exit)
    assert end.supervisor_lost
    assert not lives(pid)


async def test_a_lost_supervisor_affects_no_other_job(agent: ProcessRuntime, tmp_path: Path) -> None:
    neighbour = ProcessRuntime(tmp_path / "neighbour")
    theirs = await run(neighbour, "exec sleep 300", tmp_path)
    await run(agent, "exec sleep 300", tmp_path)
    os.kill(supervisor_of(agent), signal.SIGKILL)
    assert (await exit_of(agent)).supervisor_lost

    assert neighbour.pids(KEY) == (int(theirs.instance),)
    await neighbour.kill(KEY)
    assert not (await exit_of(neighbour)).supervisor_lost


async def test_a_supervisor_ignores_term(agent: ProcessRuntime, tmp_path: Path) -> None:
    await run(agent, "while ! test -e go; do sleep 0.02; done; exit 7", tmp_path)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(supervisor_of(agent), signum)
    (tmp_path / "go").touch()
    assert (await exit_of(agent)).code == 7


async def test_an_exit_that_cannot_be_written_yet_is_not_lost(agent: ProcessRuntime, tmp_path: Path) -> None:
    await run(agent, "while ! test -e go; do sleep 0.02; done; exit 7", tmp_path)
    in_the_way = agent.folders.task(KEY) / "exit.json.new"
    in_the_way.mkdir()
    (tmp_path / "go").touch()
    await until(lambda: not agent.pids(KEY))
    in_the_way.rmdir()
    assert (await exit_of(agent)).code == 7


# --- the disk


async def test_after_a_reboot_tasks_are_lost_and_no_process_with_a_reused_pid_is_killed(
    agent: ProcessRuntime, tmp_path: Path
) -> None:
    running = await run(agent, "exec sleep 300", tmp_path)
    file = agent.folders.task(KEY) / "running.json"
    before = json.loads(file.read_text())
    await agent.kill(KEY)
    await exit_of(agent)
    (agent.folders.task(KEY) / "exit.json").unlink()
    stranger = await asyncio.create_subprocess_exec("sleep", "300", start_new_session=True)
    its = read_process(stranger.pid)
    assert its
    file.write_text(json.dumps({**before, "pid": its.pid, "started": its.started, "boot_id": "another boot"}))
    [end] = await ProcessRuntime(tmp_path / "state").adopt()
    assert isinstance(end, Exit)
    assert end.supervisor_lost
    assert end.ended_at > running.started_at
    assert lives(stranger.pid)
    stranger.kill()
    await stranger.wait()


@pytest.mark.parametrize("name", ["task.json", "exit.json"])
@pytest.mark.parametrize("content", ["", "{", "[]"])
async def test_a_damaged_file_is_an_error_and_not_a_task_that_never_was(
    agent: ProcessRuntime, tmp_path: Path, name: str, content: str
) -> None:
    await run(agent, "true", tmp_path)
    await exit_of(agent)
    (agent.folders.task(KEY) / name).write_text(content)
    with pytest.raises(DamagedFile, match=name):
        await ProcessRuntime(tmp_path / "state").adopt()


async def test_an_end_that_cannot_be_read_is_an_error_and_not_an_endless_wait(agent: ProcessRuntime, tmp_path: Path) -> None:
    running = await run(agent, "exec sleep 300", tmp_path)
    (agent.folders.task(KEY) / "exit.json").write_text("{")
    os.kill(supervisor_of(agent), signal.SIGKILL)
    with pytest.raises(DamagedFile, match=r"exit\.json"):
        await exit_of(agent)
    os.kill(int(running.instance), signal.SIGKILL)


def test_no_two_keys_share_a_folder_and_none_leaves_it() -> None:
    keys = [
        TaskKey("a-1", 2, "x"),
        TaskKey("a", 1, "2-x"),
        TaskKey("a", 1, "2%2Dx"),
        TaskKey("../../etc", 0, ".."),
        TaskKey("/", 0, "/"),
        TaskKey("ä ö", 0, "\n"),
    ]
    names = [str(key) for key in keys]
    assert len(set(names)) == len(keys)
    assert not [name for name in names if "/" in name or "\n" in name or name in (".", "..")]


@pytest.mark.parametrize(("job", "attempt", "task"), [("", 0, "0"), ("a", -1, "0"), ("a", 0, ""), ("a" * 300, 0, "0")])
def test_a_key_that_names_nothing_is_refused(job: str, attempt: int, task: str) -> None:
    with pytest.raises(ValueError, match=r"task key|too long"):
        TaskKey(job, attempt, task)
