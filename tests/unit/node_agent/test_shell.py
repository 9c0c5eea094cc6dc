"""A shell beside a running task: whose it is, what it has, and that nothing of it outlives the task or the connection."""

import os
import pwd
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.kits.shell import Shell
from tests.kits.waiting import until

from bailiff.attach.frames import INPUT, frame, resize
from bailiff_node_agent.runtime import TaskKey, User
from bailiff_node_agent.runtime.cgroups import Cgroups, mounts
from bailiff_node_agent.runtime.port import Launch
from bailiff_node_agent.runtime.process import ProcessRuntime

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as another user")]

KEY = TaskKey("job", 1, "0")
NOBODY = User("nobody", pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A place that other users can reach, as pytest's own is not."""
    made = Path(tempfile.mkdtemp(prefix="bailiff-shell-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


class Node:
    """One running task."""

    def __init__(self, runtime: ProcessRuntime, cgroups: Cgroups) -> None:
        self.runtime, self.cgroups = runtime, cgroups

    @asynccontextmanager
    async def shell(self) -> AsyncIterator[Shell]:
        found = Shell(*await self.runtime.open_shell(KEY))
        yield found
        found.writer.close()
        with suppress(OSError):
            await found.writer.wait_closed()

    def inside(self) -> set[int]:
        return set(self.cgroups.pids(KEY))

    def runs(self, command: str) -> bool:
        """Whether one of the task's processes is this command, which the shell that starts it is not."""
        return any(_command_line(pid) == command.split() for pid in self.inside())


def _command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    except OSError:
        return []


@asynccontextmanager
async def running(folder: Path, command: str, user: User | None, hidden: tuple[Path, ...] = ()) -> AsyncIterator[Node]:
    cgroups = Cgroups.on_this_host(f"test-{os.getpid()}-{folder.name}")
    if cgroups is None:
        pytest.skip("no cgroup can be made here")
    runtime = ProcessRuntime(folder, cgroups=cgroups, hidden=hidden)
    await runtime.adopt()
    work = folder / "work"
    work.mkdir()
    work.chmod(0o777)
    env = {"CUDA_VISIBLE_DEVICES": "3", "SECRET": "s3", "PATH": os.environ["PATH"]}
    await runtime.start(Launch(KEY, command, env, working_dir=str(work), log_dir=folder, user=user))
    try:
        node = Node(runtime, cgroups)
        await until(lambda: node.runs(command))
        yield node
    finally:
        await runtime.kill(KEY)
        await runtime.wait_exit()
        await runtime.forget(KEY)
        await runtime.close()


async def test_it_has_the_users_rights_and_the_tasks_resources(folder: Path) -> None:
    async with running(folder, "sleep 600", NOBODY) as node, node.shell() as shell:
        assert await shell.asks("id -un") == "nobody"
        assert await shell.asks("pwd; echo $CUDA_VISIBLE_DEVICES $SECRET $BAILIFF_TASK") == f"{folder}/work\r\n3 s3 job-1-0"
        assert str(KEY) in await shell.asks("cat /proc/self/cgroup")
        assert int(await shell.asks("echo $$")) in node.inside()
        shell.writer.write(resize(33, 99))
        assert await shell.asks("stty size") == "33 99"
        assert await shell.asks("cat /etc/shadow 2>&1 | tail -c 18") == "Permission denied"
        assert await shell.asks("grep -c 0000000000000000 /proc/self/status") != "0"


async def test_an_isolated_tasks_shell_is_isolated_too(folder: Path) -> None:
    secret = folder / "keys"
    secret.mkdir()
    (secret / "agent.key").write_text("key")
    async with running(folder, "sleep 600", None, (secret,)) as node, node.shell() as shell:
        assert await shell.asks(f"ls {secret} | wc -l") == "0"
        assert await shell.asks("cat /proc/self/comm; test ! -d /proc/$PPID || echo seen") == "cat", "its own processes only"
        assert await shell.asks("mount -t tmpfs none /mnt 2>&1 | grep -c -i denied") == "1"
        assert "stays" in await shell.asks(f"echo 0 > {mounts()[0]}/cgroup.procs || echo stays")


async def test_it_ends_with_its_connection_and_with_what_it_has_started(folder: Path) -> None:
    async with running(folder, "sleep 600", NOBODY) as node:
        before = node.inside()
        async with node.shell() as shell:
            await shell.asks("sleep 601 & disown; sleep 602 & true")
            assert len(node.inside()) >= len(before) + 3
            shell.writer.close()
            await until(lambda: node.inside() == before)


async def test_exit_ends_the_connection_and_the_task_goes_on(folder: Path) -> None:
    async with running(folder, "sleep 600", NOBODY) as node:
        before = node.inside()
        async with node.shell() as shell:
            await shell.asks("true")
            shell.writer.write(frame(INPUT, b"exit\r"))
            await shell.ended()
            assert node.inside() == before


async def test_it_ends_with_the_task(folder: Path) -> None:
    async with running(folder, "sleep 600", NOBODY) as node, node.shell() as shell:
        await shell.asks("sleep 601 & true")
        await node.runtime.terminate(KEY)
        await shell.ended()
        await until(lambda: not node.inside())


async def test_a_task_that_has_become_another_users_has_no_shell(folder: Path) -> None:
    async with running(folder, "sleep 600", NOBODY) as node:
        node.runtime.folders.control(KEY).chmod(0o700)
        os.chown(
            node.runtime.folders.control(KEY), 1, 1
        )  # as if the job had run sudo: its process is not of whom it was started for
        async with node.shell() as shell:
            await shell.ended()
            assert shell.screen == ""


async def test_without_a_cgroup_there_is_none(folder: Path) -> None:
    assert not ProcessRuntime(folder).has_shell(KEY)
