"""Tasks in cgroups of their own: stray processes are found, killed, and seen to be gone."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.kits.waiting import PATIENCE_S, until

from bailiff_devstack.jobs import end_jobs
from bailiff_node_agent.runtime import Launch, Running, TaskKey
from bailiff_node_agent.runtime.cgroups import Cgroups
from bailiff_node_agent.runtime.process import ProcessRuntime, cgroups_of
from bailiff_node_agent.runtime.supervisor.processes import read_process, scan
from bailiff_node_agent.scratch import Scratch

KEY = TaskKey("train-7", 1, "0")
FORKS_AWAY = "(setsid env -i sh -c 'echo $$ > away; exec sleep 300' &) ; exec sleep 300"


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
async def agent(tmp_path: Path, groups: Cgroups) -> AsyncIterator[ProcessRuntime]:
    made = ProcessRuntime(tmp_path / "state", cgroups=groups)
    yield made
    if made.folders.task(KEY).exists():
        await made.kill(KEY)
    await made.close()


async def starts(agent: ProcessRuntime, command: str, folder: Path) -> Running:
    running = await agent.start(Launch(KEY, command, working_dir=str(folder), cpu_milli=500, memory_bytes=1 << 30))
    assert isinstance(running, Running)
    return running


async def test_all_that_a_task_starts_is_in_its_cgroup(agent: ProcessRuntime, groups: Cgroups, tmp_path: Path) -> None:
    running = await starts(agent, FORKS_AWAY, tmp_path)
    await until(lambda: (tmp_path / "away").exists() and (tmp_path / "away").read_text())
    away = int((tmp_path / "away").read_text())
    assert {int(running.instance), away} <= set(groups.pids(KEY))
    assert {int(running.instance), away} <= set(agent.pids(KEY))
    await agent.kill(KEY)
    await asyncio.wait_for(agent.wait_exit(), PATIENCE_S)
    assert (groups.pids(KEY), agent.pids(KEY)) == ((), ())
    await agent.forget(KEY)
    assert not groups.base.exists()


async def test_stray_processes_are_killed(agent: ProcessRuntime, groups: Cgroups, tmp_path: Path) -> None:
    """Its supervisor was killed, it has a session of its own and nothing in its environment: only the cgroup knows it."""
    await starts(agent, FORKS_AWAY, tmp_path)
    await until(lambda: (tmp_path / "away").exists() and (tmp_path / "away").read_text())
    away = int((tmp_path / "away").read_text())
    above = next(process.parent for process in scan() if process.pid == away)
    os.kill(above, signal.SIGKILL)
    ended = await asyncio.wait_for(agent.wait_exit(), PATIENCE_S)
    assert ended.supervisor_lost
    assert read_process(away) is None
    assert agent.pids(KEY) == ()


async def test_a_task_whose_folder_is_gone_leaves_neither_processes_nor_a_cgroup(
    agent: ProcessRuntime, groups: Cgroups, tmp_path: Path
) -> None:
    """Its agent ended between the two, or somebody has removed the folders: nothing but the cgroup knows what it has started."""
    await starts(agent, FORKS_AWAY, tmp_path)
    await until(lambda: (tmp_path / "away").exists() and (tmp_path / "away").read_text())
    away = int((tmp_path / "away").read_text())
    await agent.kill(KEY)
    await asyncio.wait_for(agent.wait_exit(), PATIENCE_S)
    leaver = await asyncio.create_subprocess_exec("sleep", "300")
    (groups.folder(KEY) / "nested").mkdir(parents=True, exist_ok=True)
    (groups.folder(KEY) / "nested" / "cgroup.procs").write_text(str(leaver.pid))
    await agent.folders.remove(agent.folders.task(KEY))
    await agent.close()

    following = ProcessRuntime(tmp_path / "state", cgroups=groups)
    assert await following.adopt() == []
    await following.close()
    assert await asyncio.wait_for(leaver.wait(), PATIENCE_S) == -signal.SIGKILL
    assert read_process(away) is None
    assert not groups.base.exists()


async def test_the_end_of_a_system_ends_what_only_a_cgroup_knows(tmp_path: Path) -> None:
    """`make down` and the end of a test: no agent comes back to remove the cgroups."""
    node = tmp_path / "node-agent" / "pool-a" / "n1"
    groups = cgroups_of(node)
    if groups is None:
        pytest.skip("this host lets nobody make a cgroup v2 here")
    agent = ProcessRuntime(node, cgroups=groups)
    await starts(agent, FORKS_AWAY, tmp_path)
    await until(lambda: (tmp_path / "away").exists() and (tmp_path / "away").read_text())
    await agent.close()
    assert await asyncio.to_thread(end_jobs, tmp_path) == 1
    assert read_process(int((tmp_path / "away").read_text())) is None
    assert not groups.base.exists()


async def test_limits_are_set_where_the_host_delegates_them(agent: ProcessRuntime, groups: Cgroups, tmp_path: Path) -> None:
    await starts(agent, "exec sleep 300", tmp_path)
    limit = groups.base / str(KEY) / "memory.max"
    if not limit.exists():
        pytest.skip("this host hands neither CPU nor memory down to cgroup v2")
    assert limit.read_text().strip() == str(1 << 30)
    assert (groups.base / str(KEY) / "cpu.max").read_text().split() == ["50000", "100000"]


def test_where_no_cgroup_can_be_made_there_is_none(tmp_path: Path) -> None:
    assert Cgroups.on_this_host("test", root=tmp_path) is None
    assert not [*tmp_path.iterdir()]


async def test_scratch_space_comes_and_goes_with_the_task(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    folder = await scratch.make(KEY)
    (folder / "deep").mkdir()
    (folder / "deep" / "file").write_bytes(b"x" * 100_000)
    assert (await scratch.used(KEY)).bytes >= 100_000
    assert folder.stat().st_mode & 0o777 == 0o700
    await scratch.remove(KEY)
    assert ((await scratch.used(KEY)).bytes, folder.exists()) == (0, False)
