"""Tasks in containers: environment, exits, adoption, and an engine that stops and returns."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.kits.docker_engine import IMAGE, EngineProxy, about, containers_of, docker, need_engine
from tests.kits.shell import Shell
from tests.kits.waiting import PATIENCE_S, until

from bailiff.attach.frames import INPUT, frame, resize
from bailiff_devstack.jobs import end_jobs
from bailiff_node_agent.attach.attachments import _connect
from bailiff_node_agent.runtime import Exit, Launch, Running, TaskKey, User
from bailiff_node_agent.runtime.docker import DockerRuntime
from bailiff_node_agent.runtime.docker_engine import pids_of
from bailiff_node_agent.runtime.supervisor.host import boottime_us

KEY = TaskKey("train-7", 1, "0")
PYTHON = "python:3.12-slim-bookworm"
JOB_LIBRARY = Path(__file__).parents[2] / "libs/job"
COUNT = "for n in $(seq {}); do echo line $n; sleep 0.01; done"


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine()


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[DockerRuntime]:
    agent = DockerRuntime(tmp_path, labels={"pool": "pool-a", "node": "n1", "incarnation": "i1"})
    yield agent
    await agent.close()
    await clean(tmp_path)


@pytest.fixture
def engine_proxy(tmp_path: Path) -> Iterator[EngineProxy]:
    engine_proxy = EngineProxy(tmp_path / "engine.sock")
    yield engine_proxy
    with contextlib.suppress(OSError):
        engine_proxy.close()


async def clean(folder: Path) -> None:
    last = DockerRuntime(folder)
    for state in await last.adopt():
        if isinstance(state, Running):
            await last.kill(state.key)
            await asyncio.wait_for(last.wait_exit(), PATIENCE_S)
        await last.forget(state.key)
    await last.close()
    assert containers_of(folder / "tasks") == []


def launch(command: str | list[str], folder: Path, key: TaskKey = KEY, **more: Any) -> Launch:
    return Launch(key, command, working_dir=str(folder), image=IMAGE, folders=(folder,), **more)


async def ended(agent: DockerRuntime) -> Exit:
    return await asyncio.wait_for(agent.wait_exit(), 60)


def running(agent: DockerRuntime, key: TaskKey = KEY) -> dict[str, Any]:
    return dict(json.loads((agent.folders.task(key) / "running.json").read_text()))


def container_of(agent: DockerRuntime, key: TaskKey = KEY) -> str:
    return str(json.loads((agent.folders.task(key) / "container.json").read_text())["id"])


def command_of(pid: int) -> str:
    """Empty once it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


async def test_what_a_container_gets(agent: DockerRuntime, tmp_path: Path) -> None:
    """Its labels, its limits, its grace, its environment and folders, and nothing of the node's others."""
    other = tmp_path / "other"
    other.mkdir()
    inside = tmp_path / "inside"
    inside.mkdir()
    wanted = launch(
        "echo $SECRET; pwd; ls; test -e ../other || echo alone; cat /proc/self/status | grep NoNewPrivs; exec sleep 300",
        inside,
        env={"SECRET": "hunter2", "BAILIFF_SCRATCH_DIR": str(inside)},
        cpu_milli=500,
        memory_bytes=64 << 20,
        grace_s=150,
    )
    await agent.start(wanted)
    await until(lambda: "NoNewPrivs" in agent.log_path(KEY).read_text())
    assert agent.log_path(KEY).read_text().split("\n") == ["hunter2", str(inside), "alone", "NoNewPrivs:\t1", ""]

    found: Any = about(container_of(agent))
    labels = {name.removeprefix("org.bailiff."): value for name, value in found["Config"]["Labels"].items()}
    expected = {"pool": "pool-a", "node": "n1", "incarnation": "i1", "job": "train-7", "attempt": "1", "task": "0"}
    assert expected.items() <= labels.items()
    assert found["Config"]["StopTimeout"] == 150
    limits = found["HostConfig"]
    assert (limits["NanoCpus"], limits["Memory"], limits["ShmSize"]) == (500_000_000, 64 << 20, 64 << 20)
    assert "hunter2" not in command_of(running(agent)["supervisor_pid"])


async def test_a_job_runs_as_its_user_and_talks_to_its_node(agent: DockerRuntime, tmp_path: Path) -> None:
    if os.getuid():
        pytest.skip("only root can start a task as another user")
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    script = "import os; from bailiff_job import attach; attach('kept').progress(7, 9); print(os.getuid(), os.environ['HOME'])"
    env = {"PYTHONPATH": str(JOB_LIBRARY), "BAILIFF_SCRATCH_DIR": str(home), "BAILIFF_JOB_ID": "train-7", "BAILIFF_ATTEMPT": "1"}
    user = User("nobody", 65534, 65534, (65534,))
    wanted = launch(["python3", "-c", script], home, env=env, user=user)
    await agent.start(replace(wanted, image=PYTHON, folders=(home, JOB_LIBRARY)))
    assert ((await ended(agent)).code, agent.log_path(KEY).read_text()) == (0, f"65534 {home}\n")
    assert [line.type for line in agent.messages(KEY)] == ["hello", "progress"]
    assert agent.steps(KEY).published == 7


async def test_a_notice_arrives_in_the_container_with_the_same_deadline(agent: DockerRuntime, tmp_path: Path) -> None:
    """The library in the container: notice, save at the next step, leave with 85."""
    kept = tmp_path / "checkpoints"
    script = """
import time
from bailiff_job import attach
job = attach()
for step in range(job.restore(lambda folder: None), 100000):
    time.sleep(0.005)
    job.progress(step, 100000)
    if job.should_checkpoint(step):
        left = (job.notice.soft_deadline_ns - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) / 1e9
        print(job.notice.reason, 90 < left <= 100, flush=True)
        job.checkpoint(step, lambda folder: (folder / "w").write_text(str(step)))
    if job.preempted:
        job.exit()
"""
    env = {
        "PYTHONPATH": str(JOB_LIBRARY),
        "BAILIFF_JOB_ID": "train-7",
        "BAILIFF_ATTEMPT": "1",
        "BAILIFF_CHECKPOINT_DIR": str(kept),
    }
    wanted = launch(["python3", "-c", script], tmp_path, env=env)
    await agent.start(replace(wanted, image=PYTHON, folders=(tmp_path, JOB_LIBRARY)))
    await until(lambda: (agent.steps(KEY).published or 0) > 3)
    now = boottime_us()
    await agent.notice(KEY, {"reason": "preempted", "preemptor": "serve-1"}, now + 100_000_000, now + 130_000_000)
    assert ((await ended(agent)).code, agent.log_path(KEY).read_text()) == (85, "preempted True\n")
    assert [line.type for line in agent.messages(KEY)][-3:] == ["checkpoint_started", "checkpoint_committed", "yielding"]
    assert len([*kept.glob("attempt-0001/step-*/manifest.json")]) == 1


async def test_a_shell_that_gets_term_waits_for_its_child(agent: DockerRuntime, tmp_path: Path) -> None:
    """Otherwise its child would be killed in the middle of its save, as a container ends with its first process."""
    (tmp_path / "child").write_text("trap 'sleep 0.5; echo saved; exit 85' TERM; touch ready; sleep 300")
    await agent.start(launch("cd .\nsh child\necho not reached", tmp_path))
    await until((tmp_path / "ready").exists)
    await agent.terminate(KEY, 30)
    assert ((await ended(agent)).code, agent.log_path(KEY).read_text()) == (85, "Terminated\nsaved\n")


async def test_an_exited_task_leaves_no_process_and_no_container(agent: DockerRuntime, tmp_path: Path) -> None:
    """Also daemonized children; the container is removed before its exit is reported."""
    await agent.start(launch("(setsid sleep 300 &) ; sleep 300; exit $?", tmp_path))
    await until(lambda: len(agent.pids(KEY)) >= 4)  # with the container's init; a shell between two commands would exit with 0
    container = container_of(agent)
    await agent.terminate(KEY)
    end = await ended(agent)
    assert (end.code, agent.pids(KEY), pids_of(container)) == (128 + signal.SIGTERM, (), ())
    assert docker("inspect", container).returncode != 0


async def test_an_image_that_cannot_be_pulled_is_no_start_and_says_why(agent: DockerRuntime, tmp_path: Path) -> None:
    missing = "127.0.0.1:1/nobody/has-this:1"
    started = await agent.start(replace(launch("true", tmp_path), image=missing))
    assert isinstance(started, Running)
    assert not started.begun
    assert not await agent.begun(KEY)
    end = await ended(agent)
    assert (end.code, end.begun) == (126, False)
    assert end.error is not None
    assert end.error.startswith(f"image {missing} is not on this node and cannot be pulled: ")


async def test_while_its_image_is_pulled_a_task_has_not_begun_and_can_be_evicted(agent: DockerRuntime, tmp_path: Path) -> None:
    """Its registry never answers."""
    with socket.create_server(("127.0.0.1", 0)) as registry:
        image = f"127.0.0.1:{registry.getsockname()[1]}/slow:1"
        started = await agent.start(replace(launch("true", tmp_path), image=image))
        assert isinstance(started, Running)
        assert not started.begun
        await agent.close()
        following = DockerRuntime(tmp_path)
        [state] = await following.adopt()
        assert isinstance(state, Running)
        assert not state.begun
        await following.terminate(KEY)
        registry.accept()[0].close()
        assert not (await ended(following)).begun
        await following.close()


async def test_a_task_begins_once_its_image_is_there(tmp_path: Path, engine_proxy: EngineProxy) -> None:
    """As an image that is pulled, an engine that is away makes its start slow."""
    engine_proxy.close()
    agent = DockerRuntime(tmp_path, engine=engine_proxy.url)
    await agent.adopt()
    started = await agent.start(launch("exec sleep 300", tmp_path))
    assert isinstance(started, Running)
    assert not started.begun
    engine_proxy.open()
    assert await asyncio.wait_for(agent.begun(KEY), PATIENCE_S)
    assert int(running(agent)["pid"]) in agent.pids(KEY)
    await agent.kill(KEY)
    assert (await ended(agent)).begun
    await agent.close()
    await clean(tmp_path)


async def test_a_command_that_the_image_does_not_have(agent: DockerRuntime, tmp_path: Path) -> None:
    """The job's own failure."""
    await agent.start(launch(["no-such-program"], tmp_path))
    end = await ended(agent)
    assert (end.code, end.begun) == (127, True)


async def test_out_of_memory_is_reported(agent: DockerRuntime, tmp_path: Path) -> None:
    await agent.start(launch("head -c 100m /dev/zero | tail; exit $?", tmp_path, memory_bytes=16 << 20))
    end = await ended(agent)
    assert (end.code, end.error) == (137, "out of memory: it used more than its memory limit")


async def test_a_container_without_its_supervisor_is_killed_and_reported_as_lost(agent: DockerRuntime, tmp_path: Path) -> None:
    await agent.start(launch("exec sleep 300", tmp_path))
    container = container_of(agent)
    os.kill(running(agent)["supervisor_pid"], signal.SIGKILL)
    end = await ended(agent)
    assert (end.supervisor_lost, agent.pids(KEY), pids_of(container)) == (True, (), ())
    assert containers_of(tmp_path / "tasks") == []


async def test_an_orphaned_container_is_killed_by_the_next_agent(agent: DockerRuntime, tmp_path: Path) -> None:
    """Its folder is gone, so that no agent knows of it; one of another folder is let be."""
    elsewhere = DockerRuntime(tmp_path / "elsewhere")
    await agent.start(launch("exec sleep 300", tmp_path))
    await elsewhere.start(launch("exec sleep 300", tmp_path))
    os.kill(running(agent)["supervisor_pid"], signal.SIGKILL)
    await agent.close()
    shutil.rmtree(agent.folders.task(KEY))
    [orphan] = containers_of(tmp_path / "tasks")

    following = DockerRuntime(tmp_path)
    assert await following.adopt() == []
    assert containers_of(tmp_path / "tasks") == []
    assert pids_of(orphan) == ()
    assert len(elsewhere.pids(KEY)) >= 1
    await following.close()
    await elsewhere.close()
    await clean(tmp_path / "elsewhere")


async def test_deadlines_are_kept_when_the_agent_is_dead(agent: DockerRuntime, tmp_path: Path) -> None:
    await agent.start(launch("trap '' TERM; touch ready; while :; do sleep 0.02; done", tmp_path))
    await until((tmp_path / "ready").exists)
    now = boottime_us()
    await agent.deadlines(KEY, now, now + 1_000_000)
    await agent.close()
    await until((agent.folders.task(KEY) / "exit.json").exists)

    following = DockerRuntime(tmp_path)
    [end] = await following.adopt()
    assert isinstance(end, Exit)
    assert (end.code, end.deadline_stages) == (128 + signal.SIGKILL, ("term_sent", "kill_sent"))
    await following.close()


async def test_an_expired_lease_ends_the_container(agent: DockerRuntime, tmp_path: Path) -> None:
    agent.renew(boottime_us() + 3_000_000, 10_000_000)
    await agent.start(launch("exec sleep 300", tmp_path))
    end = await ended(agent)
    assert (end.code, end.lease_stages) == (128 + signal.SIGTERM, ("noticed", "term_sent"))


async def test_every_line_arrives_once_although_the_engine_restarts(tmp_path: Path, engine_proxy: EngineProxy) -> None:
    """The job continues; its output and exit are reported once the engine is back, without loss or duplicates."""
    agent = DockerRuntime(tmp_path, engine=engine_proxy.url)
    assert await agent.adopt() == []
    await agent.start(launch(f"{COUNT.format(200)}; exit 7", tmp_path))
    for _ in range(2):
        lines = agent.log_path(KEY).read_text().count("\n")
        await until(lambda: agent.log_path(KEY).read_text().count("\n") > lines + 20)  # noqa: B023
        engine_proxy.close()
        assert len(agent.pids(KEY)) >= 1
        engine_proxy.open()
    end = await ended(agent)
    assert (end.code, end.supervisor_lost) == (7, False)
    assert agent.log_path(KEY).read_text() == "".join(f"line {n}\n" for n in range(1, 201))
    await agent.close()
    await clean(tmp_path)


async def test_what_prints_much_loses_nothing(agent: DockerRuntime, tmp_path: Path) -> None:
    """Faster than the log is read, and lines longer than the engine keeps in one piece."""
    await agent.start(launch("seq 1 200000; head -c 100000 /dev/zero | tr '\\0' x; echo", tmp_path))
    assert (await ended(agent)).code == 0
    printed = agent.log_path(KEY).read_text()
    assert printed == "".join(f"{n}\n" for n in range(1, 200001)) + "x" * 100000 + "\n"


async def test_an_unavailable_engine_delays_no_deadline(tmp_path: Path, engine_proxy: EngineProxy) -> None:
    """Told in the agent's log; TERM and KILL go to the processes themselves, and the container is removed later."""
    if os.getuid():
        pytest.skip("only root can end a container's processes without the engine")
    agent = DockerRuntime(tmp_path, engine=engine_proxy.url)
    await agent.start(launch("trap 'echo told' TERM; touch ready; while :; do sleep 0.02; done", tmp_path))
    await until((tmp_path / "ready").exists)
    container = container_of(agent)
    engine_proxy.close()
    await agent.terminate(KEY, 60)
    await agent.kill(KEY)
    assert pids_of(container) == ()
    assert docker("inspect", container).returncode == 0
    engine_proxy.open()
    assert (await ended(agent)).code == 128 + signal.SIGKILL
    assert docker("inspect", container).returncode != 0
    await agent.close()
    await clean(tmp_path)


async def test_the_agent_waits_for_an_engine_that_is_unavailable_at_its_start(
    tmp_path: Path, engine_proxy: EngineProxy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands for other tasks do not wait for it, and the agent says in its log that it went and came."""
    monkeypatch.setattr("bailiff_node_agent.runtime.docker.ENGINE_POLL_S", 0.1)
    agent = DockerRuntime(tmp_path, engine=engine_proxy.url)
    engine_proxy.close()
    assert await agent.adopt() == []
    assert isinstance(await agent.start(launch("exit 3", tmp_path)), Running)
    assert not containers_of(tmp_path / "tasks")
    engine_proxy.open()
    assert (await ended(agent)).code == 3
    printed = ""

    def messages(what: str) -> bool:
        nonlocal printed
        printed += "".join(capsys.readouterr())
        return what in printed

    await until(lambda: messages("Docker engine available again"))
    assert printed.index("no container can be started") < printed.index("Docker engine available again")
    await agent.close()
    await clean(tmp_path)


async def test_a_container_evicted_before_its_start_never_starts(tmp_path: Path, engine_proxy: EngineProxy) -> None:
    agent = DockerRuntime(tmp_path, engine=engine_proxy.url)
    engine_proxy.close()
    await agent.start(launch("touch began", tmp_path))
    await agent.terminate(KEY)
    assert (await ended(agent)).code == -signal.SIGTERM
    engine_proxy.open()
    assert not (tmp_path / "began").exists()
    await agent.close()
    await clean(tmp_path)


# --- a shell beside the task


async def test_a_shell_is_in_the_container_as_its_user_and_nothing_of_it_outlives_the_connection(
    agent: DockerRuntime, tmp_path: Path
) -> None:
    nobody = User("nobody", 65534, 65534)
    tmp_path.chmod(0o777)  # noqa: ASYNC240 - of a local disk
    await agent.start(launch("echo up; sleep 3000", tmp_path, env={"LR": "0.1"}, user=nobody))
    assert agent.has_shell(KEY)
    shell = Shell(*await agent.open_shell(KEY))
    assert await shell.asks("echo $LR in $BAILIFF_TASK as $(id -u), $PWD") == f"0.1 in {KEY} as 65534, {tmp_path}"
    assert await shell.asks("cat /proc/1/cmdline | tr '\\0' ' ' | cut -c-20; tty") != ""
    shell.writer.write(resize(40, 120))
    await until_true(shell, "stty size", "40 120")
    other = Shell(*await agent.open_shell(KEY))
    await other.asks("(trap '' HUP TERM; sleep 4000) & sleep 0.1")
    before = pids_of(container_of(agent))
    assert any("4000" in command_of(pid) for pid in before)
    other.writer.close()
    await until(lambda: not any("4000" in command_of(pid) for pid in pids_of(container_of(agent))))
    assert await shell.asks("echo still here") == "still here"
    await agent.kill(KEY)
    await shell.ended()
    await ended(agent)


async def test_a_shell_that_exits_leaves_its_task_alone_and_without_an_engine_there_is_none(
    tmp_path: Path, engine_proxy: EngineProxy
) -> None:
    agent = DockerRuntime(tmp_path, engine=engine_proxy.url)
    await agent.start(launch("sleep 3000", tmp_path))
    shell = Shell(*await agent.open_shell(KEY))
    await shell.asks("id")
    shell.writer.write(frame(INPUT, b"exit\r"))
    await shell.ended()
    assert agent.pids(KEY)
    engine_proxy.close()
    await Shell(*await agent.open_shell(KEY)).ended()
    engine_proxy.open()
    assert agent.pids(KEY)
    await agent.close()
    await clean(tmp_path)


async def test_the_end_of_a_system_ends_its_containers(tmp_path: Path) -> None:
    """`make down`: no agent comes back to end them."""
    node = tmp_path / "node-agent" / "pool-a" / "n1" / "docker"
    agent = DockerRuntime(node)
    await agent.start(launch("sleep 3000", tmp_path))
    await agent.close()
    assert await asyncio.to_thread(end_jobs, tmp_path) == 1
    assert containers_of(node / "tasks") == []


# --- its own terminal


async def attached(agent: DockerRuntime) -> Shell:
    """A person at the terminal of the task's shell."""
    path = agent.terminal_path(KEY)
    assert path is not None
    return Shell(*await _connect(path))


async def test_a_container_has_a_terminal_that_several_share_and_that_survives_the_agent(
    agent: DockerRuntime, tmp_path: Path
) -> None:
    await agent.start(launch(["/bin/sh", "-i"], tmp_path, tty=True, env={"LR": "0.1"}))
    ada = await attached(agent)
    assert await ada.asks("echo $LR $TERM; test -t 0 && test -t 1 && echo both") == "0.1 xterm\r\nboth"
    ada.writer.write(resize(40, 120))
    await until_true(ada, "stty size", "40 120")
    rita = await attached(agent)
    rita.writer.write(frame(INPUT, b"echo $((6*7))\r"))
    while "42" not in ada.screen:
        await ada.sees()
    assert "0.1 xterm" in await rita.sees()  # what was shown before
    ada.writer.close()
    following = DockerRuntime(tmp_path)
    await following.adopt()
    again = await attached(following)
    again.writer.write(frame(INPUT, b"echo still $((7*7))\r"))
    while "still 49" not in again.screen:
        await again.sees()
    await following.close()
    again.writer.write(frame(INPUT, b"exit 7\r"))
    await again.ended()
    await rita.ended()
    assert (await ended(agent)).code == 7
    assert "42" in agent.log_path(KEY).read_text()


@pytest.mark.parametrize("opens", ["terminal", "shell"])
async def test_every_key_reaches_the_program_at_once(agent: DockerRuntime, tmp_path: Path, opens: str) -> None:
    """Also those with which the engine's own clients detach: Ctrl-P is the last command of a shell, and up in an editor."""
    await agent.start(launch(["/bin/sh", "-i"], tmp_path, tty=True))
    person = await attached(agent) if opens == "terminal" else Shell(*await agent.open_shell(KEY))
    prints = "dd bs=1 count={} 2>/dev/null | od -An -tx1 -v -w300"
    reads = f"stty raw -echo; echo ready; {prints.format(1)}; {prints}"
    others = bytes(byte for byte in range(256) if byte != 0x10)
    person.writer.write(frame(INPUT, f"{reads.format(len(others) + 2)}\r".encode()))
    while "ready\r\n" not in person.screen and "ready\n" not in person.screen:
        await person.sees()
    person.writer.write(frame(INPUT, b"\x10"))
    while " 10" not in person.screen:
        await person.sees()
    person.writer.write(frame(INPUT, b"\x10\x11" + others))
    while (b"\x10\x11" + others).hex(" ") not in person.screen:
        await person.sees()
    await agent.kill(KEY)
    await person.ended()
    await ended(agent)


async def test_the_first_and_the_last_output_of_a_short_terminal_are_in_its_log(agent: DockerRuntime, tmp_path: Path) -> None:
    await agent.start(launch("echo first; seq 20000; echo last", tmp_path, tty=True))
    assert (await ended(agent)).code == 0
    assert agent.log_path(KEY).read_text().split() == ["first", *map(str, range(1, 20001)), "last"]


async def test_a_terminal_comes_back_with_the_engine(tmp_path: Path, engine_proxy: EngineProxy) -> None:
    agent = DockerRuntime(tmp_path, engine=engine_proxy.url)
    await agent.start(launch(["/bin/sh", "-i"], tmp_path, tty=True))
    ada = await attached(agent)
    await ada.asks("echo one")
    engine_proxy.close()
    engine_proxy.open()
    ada.writer.write(frame(INPUT, b"echo two $((2+2))\r"))
    while "two 4" not in ada.screen:
        await ada.sees()
    ada.writer.write(frame(INPUT, b"\x04"))
    await ada.ended()
    assert (await ended(agent)).code == 0
    await agent.close()
    await clean(tmp_path)


async def test_a_job_that_reads_no_input_is_evicted_and_its_output_goes_on(agent: DockerRuntime, tmp_path: Path) -> None:
    await agent.start(launch("stty raw -echo; echo ready; while :; do echo tick; sleep 0.1; done", tmp_path, tty=True))
    ada = await attached(agent)
    await until(lambda: "ready" in agent.log_path(KEY).read_text())
    for _ in range(64):
        ada.writer.write(frame(INPUT, b"x" * 16_000))
    seen = agent.log_path(KEY).read_text().count("tick")
    await until(lambda: agent.log_path(KEY).read_text().count("tick") > seen + 20)
    await agent.terminate(KEY)
    assert (await ended(agent)).code in (0, 143, -15)


async def until_true(shell: Shell, command: str, answer: str) -> None:
    async with asyncio.timeout(60):
        while await shell.asks(command) != answer:
            pass
