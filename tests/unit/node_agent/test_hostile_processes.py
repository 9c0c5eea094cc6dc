"""What a job can make of its processes and cgroups, which the agent looks for as root: it never ends or blocks the agent."""

import asyncio
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.kits.waiting import PATIENCE_S, exit_of, until

from bailiff_node_agent.attach import listeners
from bailiff_node_agent.attach.listeners import NobodyListens, connect_to_listener
from bailiff_node_agent.devices.system_programs import is_of_system, process_name
from bailiff_node_agent.runtime import Launch, Running, TaskKey, cgroups, memory_of, pids_of, process_tree
from bailiff_node_agent.runtime.cgroups import FOLDER, Cgroups, groups_below, pids_below
from bailiff_node_agent.runtime.kubernetes.pod_processes import PodProcesses
from bailiff_node_agent.runtime.process import ProcessRuntime, why_not_isolated
from bailiff_node_agent.runtime.supervisor import job as supervisor_job
from bailiff_node_agent.runtime.supervisor.lease import Lease
from bailiff_node_agent.runtime.supervisor.processes import read_process

pytestmark = pytest.mark.slow  # each test starts processes

KEY, OTHER = TaskKey("train-7", 1, "0"), TaskKey("train-8", 1, "0")
NAMES = [b"a) R 1 1 1 (", b"\xff\xfe\xfa", b"\n\n)\n", b"pause", b"", b"(((((", b"nvidia-cuda-mps", "ü".encode() * 7 + b"\xc3"]
RENAMES = """
import ctypes, sys
for line in sys.stdin:
    ctypes.CDLL(None).prctl(15, ctypes.c_char_p(bytes.fromhex(line)))
    print(flush=True)
"""


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    agent = ProcessRuntime(tmp_path / "state")
    yield agent
    for key in (KEY, OTHER):
        if agent.folders.task(key).exists():
            await agent.kill(key)
    await agent.close()


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[Cgroups]:
    found = Cgroups.on_this_host(f"test-{os.getpid()}-{tmp_path.name}")
    if found is None:
        pytest.skip("this host lets nobody make a cgroup v2 here (it takes root, or a delegated one, and Linux 5.14)")
    yield found
    found.kill(KEY)
    found.remove(KEY)
    assert not found.base.exists()


@pytest.fixture
def renamed() -> Iterator[subprocess.Popen[str]]:
    """A process that takes each name that it reads, in hexadecimal digits."""
    with subprocess.Popen([sys.executable, "-c", RENAMES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def rename(process: "subprocess.Popen[str]", name: bytes) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(name.hex() + "\n")
    process.stdin.flush()
    process.stdout.readline()


async def start(agent: ProcessRuntime, command: str | list[str], folder: Path, key: TaskKey = KEY, **env: str) -> Running:
    running = await agent.start(Launch(key, command, env=env, working_dir=str(folder)))
    assert isinstance(running, Running)
    return running


def supervisor_of(agent: ProcessRuntime, key: TaskKey = KEY) -> int:
    return int(json.loads((agent.folders.task(key) / "running.json").read_text())["supervisor_pid"])


# --- names


def test_a_process_is_the_same_whatever_it_calls_itself(renamed: "subprocess.Popen[str]") -> None:
    before, rand = read_process(renamed.pid), random.Random(7)
    assert before is not None
    for name in [*NAMES, *(rand.randbytes(rand.randrange(16)).replace(b"\0", b"\1") for _ in range(100))]:
        rename(renamed, name)
        assert read_process(renamed.pid) == before, name
        assert len(process_name(renamed.pid)) <= 15
        is_of_system(renamed.pid)


def test_no_name_hides_a_process_of_a_pod_or_ends_the_agent(groups: Cgroups, renamed: "subprocess.Popen[str]") -> None:
    """The pod's first process, `pause`, is the kubelet's; what the job starts later is the job's."""
    uid = "0a1b2c3d-1111-2222-3333-444455556666"
    pod = groups.base / "kubepods" / f"pod{uid}"
    for name in ("sandbox", "job"):
        (pod / name).mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", RENAMES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as late:
        try:
            rename(renamed, b"pause")
            (pod / "sandbox" / "cgroup.procs").write_text(str(renamed.pid))
            processes = PodProcesses(groups.base)
            processes._root = groups.base
            assert processes.pids(uid) == ()
            (pod / "job" / "cgroup.procs").write_text(str(late.pid))
            for name in NAMES:
                rename(late, name)
                assert processes.pids(uid) == (late.pid,), name
            renamed.kill()
            renamed.wait()
            rename(late, b"pause")
            assert processes.pids(uid) == (late.pid,)
            rename(late, b"\xff\xfe")  # the first that another agent sees
            assert PodProcesses(groups.base)._pause_of(uid, [read_process(late.pid)]) is None
        finally:
            for process in (renamed, late):
                process.kill()
                process.wait()
            for folder in (pod / "sandbox", pod / "job", pod, pod.parent):
                folder.rmdir()


def test_a_pod_cannot_take_the_cgroup_of_another(groups: Cgroups) -> None:
    mine, theirs = "0a1b2c3d-1111-2222-3333-444455556666", "ffffffff-1111-2222-3333-444455556666"
    false = groups.base / "kubepods" / f"pod{mine}" / f"pod{theirs}"
    false.mkdir(parents=True)
    try:
        processes = PodProcesses(groups.base)
        processes._root = groups.base
        assert processes._group(mine) == false.parent
        assert processes._group(theirs) is None
    finally:
        for folder in (false, false.parent, false.parent.parent):
            folder.rmdir()


# --- cgroups


def nest(folder: Path, depth: int, name: str) -> int:
    """Make so many cgroups one in the other; the innermost, open."""
    here = os.open(folder, FOLDER)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        there = os.open(name, FOLDER, dir_fd=here)
        os.close(here)
        here = there
    return here


def test_cgroups_nested_deeper_than_a_recursion_and_a_path_are_found_and_removed(groups: Cgroups) -> None:
    """Without the kernel's limit, as where somebody could lift it."""
    folder = groups.base / str(KEY)
    folder.mkdir(parents=True)
    innermost = nest(folder, 1200, "x" * 200)
    for number in range(300):
        (folder / f"wide-{number}\udcff").mkdir()
    with subprocess.Popen(["sleep", "60"]) as process:
        with os.fdopen(os.open("cgroup.procs", os.O_WRONLY, dir_fd=innermost), "w") as file:
            file.write(str(process.pid))
        os.close(innermost)
        assert groups.pids(KEY) == (process.pid,)
        groups.kill(KEY)
        assert process.wait() == -signal.SIGKILL
    assert groups.pids(KEY) == ()
    groups.remove(KEY)
    assert not folder.exists()


def test_the_kernel_limits_what_a_task_makes_below_its_cgroup(groups: Cgroups) -> None:
    folder = groups.make(KEY, 0, 0)
    assert folder is not None
    with pytest.raises(OSError, match="unavailable"):
        nest(folder, 100, "deep")
    with pytest.raises(OSError, match="unavailable"):
        [(folder / str(number)).mkdir() for number in range(2000)]
    assert len([*groups_below(folder)]) == 1001


def test_processes_of_a_task_are_limited(tmp_path: Path) -> None:
    """In a folder that stands for a cgroup of a host that hands the controller down."""
    folder = Cgroups(tmp_path).make(KEY, 0, 0)
    assert folder is not None
    limit, together = int((folder / "pids.max").read_text()), int((tmp_path / "pids.max").read_text())
    assert 0 < limit <= 32_768
    assert limit < together < int(Path("/proc/sys/kernel/pid_max").read_text())


def test_a_cgroup_that_is_removed_while_they_are_walked_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In folders that stand for cgroups."""
    (tmp_path / "stays" / "inner").mkdir(parents=True)
    listed = cgroups._groups_in
    monkeypatch.setattr(cgroups, "_groups_in", lambda folder: ["gone", *listed(folder), "gone, too"])
    assert [name for _, name in groups_below(tmp_path)] == ["inner", "stays", "."]
    assert pids_below(tmp_path) == ()
    assert pids_below(tmp_path / "gone") == ()


@pytest.mark.skipif(why_not_isolated() is not None, reason="this machine permits no isolation")
async def test_an_isolated_task_leaves_no_cgroup_and_makes_none(groups: Cgroups, tmp_path: Path) -> None:
    (tmp_path / "secret").touch()
    agent = ProcessRuntime(tmp_path / "state", cgroups=groups, hidden=(tmp_path / "secret",))
    own = groups.base / str(KEY)
    tries = f"mkdir {own}/inner; echo $$ > {groups.base}/cgroup.procs; echo max > {own}/cgroup.max.depth"
    try:
        await start(agent, f"{tries}; cat /proc/self/cgroup; ls -d {own}/inner", tmp_path)
        end = await exit_of(agent)
        log = agent.log_path(KEY)
        assert log is not None
        text = log.read_text()
        assert end.code != 0
        assert f"/{groups.base.name}/{KEY}\n" in text
        assert text.count("Read-only file system") >= 3
    finally:
        await agent.close()


# --- who pretends to be another's


async def test_a_living_task_that_claims_to_be_a_lost_one_is_not_waited_for(agent: ProcessRuntime, tmp_path: Path) -> None:
    """It starts processes with the other's marks again and again, faster than they could be killed."""
    await start(agent, "exec sleep 300", tmp_path)
    marks = f"BAILIFF_TASK={KEY} BAILIFF_CONTROL_DIR={agent.folders.control(KEY)}"
    await start(agent, f"while :; do env {marks} sleep 0.05 & echo > began; sleep 0.01; done", tmp_path, OTHER)
    await until((tmp_path / "began").exists)
    os.kill(supervisor_of(agent), signal.SIGKILL)
    end = await exit_of(agent)
    assert (end.key, end.supervisor_lost) == (KEY, True)
    assert agent.pids(KEY) == ()
    assert read_process(supervisor_of(agent, OTHER)) is not None


async def test_a_task_that_claims_to_have_no_folder_keeps_no_agent_from_starting(agent: ProcessRuntime, tmp_path: Path) -> None:
    gone = f"BAILIFF_CONTROL_DIR={agent.folders.parents[0]}/gone"
    running = await start(agent, f"while :; do env {gone} sleep 0.05 & echo > began; sleep 0.01; done", tmp_path)
    await until((tmp_path / "began").exists)
    following = ProcessRuntime(tmp_path / "state")
    assert [await following._strays() for _ in range(20)] == [[]] * 20
    assert await asyncio.wait_for(following.adopt(), PATIENCE_S) == [running]
    assert read_process(int(running.instance)) is not None
    await following.close()


async def test_a_task_of_two_megabytes_of_arguments_is_found_and_killed(agent: ProcessRuntime, tmp_path: Path) -> None:
    fills = "import os; os.execve('/bin/sleep', ['sleep', '300', *['0' * 100_000] * 19], {'X' * 90_000: 'y'})"
    running = await start(agent, [sys.executable, "-c", fills], tmp_path)
    await until(lambda: b"sleep" in Path(f"/proc/{running.instance}/cmdline").read_bytes()[:6])
    os.kill(supervisor_of(agent), signal.SIGKILL)
    assert (await exit_of(agent)).supervisor_lost
    assert read_process(int(running.instance)) is None


async def test_a_supervisor_that_its_task_has_stopped_still_records_the_exit(agent: ProcessRuntime, tmp_path: Path) -> None:
    """As a task of the agent's user can, where it is not isolated."""
    await start(agent, "kill -STOP $PPID; exec sleep 300", tmp_path)
    stopped = Path(f"/proc/{supervisor_of(agent)}/stat")
    await until(lambda: stopped.read_text().rpartition(")")[2].split()[0] == "T")
    await agent.kill(KEY)
    assert (await exit_of(agent)).code == -signal.SIGKILL


async def test_the_agent_starts_while_what_a_lost_supervisor_left_does_not_end(
    agent: ProcessRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process that waits for a file system that never answers: KILL is ignored here instead."""
    running = await start(agent, "exec sleep 300", tmp_path)
    os.kill(supervisor_of(agent), signal.SIGKILL)
    await exit_of(agent)
    (agent.folders.task(KEY) / "exit.json").unlink()
    unkillable = read_process(os.getpid())
    monkeypatch.setattr("bailiff_node_agent.runtime.process.task_processes", lambda *_: [unkillable])
    monkeypatch.setattr("bailiff_node_agent.runtime.process.send", lambda *_: None)
    monkeypatch.setattr("bailiff_node_agent.runtime.supervised.LEFT_END_WITHIN_S", 0.2)
    following = ProcessRuntime(tmp_path / "state")
    assert await asyncio.wait_for(following.adopt(), PATIENCE_S) == [running]
    monkeypatch.setattr("bailiff_node_agent.runtime.process.task_processes", lambda *_: [])
    assert (await exit_of(following)).supervisor_lost
    await following.close()


# --- the agent answers meanwhile


async def test_processes_are_never_looked_for_on_the_event_loop(
    agent: ProcessRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[threading.Thread] = []
    scan = process_tree.scan
    monkeypatch.setattr(process_tree, "scan", lambda: looked.append(threading.current_thread()) or scan())
    await start(agent, "trap '' TERM; while :; do sleep 0.02; done", tmp_path)
    await agent.terminate(KEY)
    assert await pids_of(agent, KEY)
    assert await memory_of(agent, KEY) > 0
    await agent.kill(KEY)
    await exit_of(agent)
    await agent.adopt()
    assert len(looked) >= 5
    assert threading.main_thread() not in looked


def test_nothing_of_a_job_runs_before_its_pid_is_recorded(tmp_path: Path) -> None:
    """It could stop its supervisor, and nobody would know of it."""
    launch = {
        "command": ["/bin/touch", str(tmp_path / "ran")],
        "env": {},
        "working_dir": str(tmp_path),
        "log": str(tmp_path / "log"),
        "hidden": [],
    }
    ran_before: list[bool] = []

    def record(_: int) -> None:
        time.sleep(0.3)
        ran_before.append((tmp_path / "ran").exists())

    pid, why_not = supervisor_job.start_job(launch, Lease(str(tmp_path / "lease"), str(tmp_path)), record)
    os.waitpid(pid, 0)
    os.close(why_not)
    assert (ran_before, (tmp_path / "ran").exists()) == ([False], True)


def test_deadlines_hold_while_a_program_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it is on a file system that never answers. The agent waits for it for a moment only."""
    monkeypatch.setattr(supervisor_job, "EXEC_WITHIN_US", 0)
    why_not, writer = os.pipe()
    waiting, ready = os.pipe()
    enforced: list[bool] = []

    class Watchdog:
        def enforce(self, _: object) -> None:
            enforced.append(bool(select.select([waiting], [], [], 0)[0]))  # whether the agent waits no longer
            if len(enforced) == 3:
                os.close(writer)  # the deadline has killed what did not start

        def wait(self, _: float) -> None:
            pass

    assert supervisor_job.wait_for_exec(1, why_not, Watchdog(), ready) is None  # type: ignore[arg-type]
    assert enforced == [False, True, True]
    os.close(waiting)


async def test_open_files_without_end_are_not_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    pairs = [socket.socketpair() for _ in range(50)]
    _, writer = await connect_to_listener(port, lambda: [os.getpid()])
    writer.close()
    monkeypatch.setattr(listeners, "MAX_OPEN_FILES", 3)
    with pytest.raises(NobodyListens):
        await connect_to_listener(port, lambda: [os.getpid()])
    server.close()
    for pair in pairs:
        for end in pair:
            end.close()
