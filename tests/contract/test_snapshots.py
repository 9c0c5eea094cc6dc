"""Tasks of real programs are saved by CRIU, end, and are restored below another supervisor, as if nothing had happened."""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kits.criu import criu_dumping, criu_program, kill_criu, needs_criu, paused_criu
from tests.kits.saved_programs import DEVICE, PRELUDE, PROGRAMS, REFUSED
from tests.kits.waiting import PATIENCE_S, exit_of, until

from bailiff_node_agent.runtime import Dumped, Exit, Image, Launch, Restored, Running, TaskKey, User
from bailiff_node_agent.runtime.process import ProcessRuntime, cgroups_of
from bailiff_node_agent.runtime.supervisor.host import boottime_us
from bailiff_node_agent.settings import SNAPSHOTS
from bailiff_node_agent.snapshots import BadImage, make_image, sealed, verified

pytestmark = [pytest.mark.slow, needs_criu]
FIRST, SECOND = TaskKey("plain", 0, "0"), TaskKey("plain", 1, "0")
SHELL_PRELUDE = "wait() { echo ready; while [ ! -e go ]; do sleep 0.02; done; }\n"
SOMEBODY = User("somebody", 54_321, 54_321)


class Node:
    """One machine with one runtime at a time."""

    def __init__(self, folder: Path, *, isolated: bool = False, user: User | None = None, criu: str | None = None) -> None:
        self.folder, self.user, self.isolated = folder, user, isolated
        self.criu = criu or criu_program()
        self.work, self.checkpoints, self.logs = folder / "work", folder / "state/checkpoints/plain", folder / "state/logs"
        self.snapshots = self.checkpoints.parent / SNAPSHOTS / "plain"
        for each in (self.work, self.checkpoints, self.logs, self.snapshots.parent):
            each.mkdir(parents=True, exist_ok=True)
        if user is not None:
            for each in (self.work, self.checkpoints):
                os.chown(each, user.uid, user.gid)
            for each in (folder, folder / "state", self.logs, self.checkpoints.parent):
                each.chmod(0o711)
        self.runtime = self.agent()

    def agent(self) -> ProcessRuntime:
        hidden = (self.folder / "state",) if self.isolated else ()
        return ProcessRuntime(self.folder / "state", criu=self.criu, hidden=hidden)

    async def start(
        self, key: TaskKey, program: str, *arguments: str, restore: Image | None = None, saves: bool = True
    ) -> Running:
        """In Python, or for another user, who may have no access to this one, in a shell."""
        python = [sys.executable, "-I", "-S", "-c", PRELUDE + program, *arguments]
        launch = Launch(
            key,
            python if self.user is None else ["/bin/sh", "-c", SHELL_PRELUDE + program],
            {"BAILIFF_CHECKPOINT_DIR": str(self.checkpoints), "WORLD_SIZE": "1"},
            working_dir=str(self.work),
            log_dir=self.logs,
            user=self.user,
            saves=saves,
            restore=restore,
        )
        running = await self.runtime.start(launch)
        assert isinstance(running, Running)
        return running

    async def start_until_ready(self, program: str, *arguments: str) -> None:
        await self.start(FIRST, program, *arguments)
        await until(lambda: "ready" in self.output(FIRST))

    async def save(self, request: str = "1") -> tuple[Dumped, Image]:
        image = make_image(self.snapshots, FIRST.attempt, 0)
        return await self.runtime.save(FIRST, image, request), image

    async def saved(self, program: str, *arguments: str) -> str:
        """Start this program, save it where it waits, and end it. The digest on record."""
        await self.start_until_ready(program, *arguments)
        dumped, image = await self.save()
        assert dumped.why_not == ""
        digest, _ = self.seal(dumped, image)
        await self.end(FIRST)
        return digest

    def seal(self, dumped: Dumped, image: Image) -> tuple[str, int]:
        return sealed(image, {"runtime": dict(dumped.facts), "cpu": ""})

    async def restored(self, digest: str, program: str = "raise SystemExit('started anew')") -> Restored:
        image, _ = verified(self.snapshots, FIRST.attempt, 0, digest)
        await self.start(SECOND, program, restore=replace(image, about={"from_attempt": 0}))
        end = await self.runtime.restored(SECOND)
        assert end is not None
        return end

    def go(self) -> None:
        (self.work / "go").touch()

    def output(self, key: TaskKey) -> str:
        path = self.logs / f"{key}.log"
        return path.read_text() if path.exists() else ""

    async def end(self, key: TaskKey) -> Exit:
        await self.runtime.kill(key)
        end = await exit_of(self.runtime)
        await self.runtime.forget(key)
        return end


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    node = Node(tmp_path)
    yield node
    await _cleared(node)


async def _cleared(node: Node) -> None:
    for key in (FIRST, SECOND):
        if node.runtime.folders.task(key).exists():
            await node.runtime.kill(key)
    await node.runtime.close()


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_goes_on_where_it_was(node: Node, name: str) -> None:
    program, last = PROGRAMS[name]
    digest = await node.saved(program)
    end = await node.restored(digest)
    assert end.why_not == ""
    node.go()
    exited = await exit_of(node.runtime)
    assert (exited.code, exited.error, node.output(SECOND).splitlines()) == (0, None, [last])


async def test_what_is_hidden_from_it_stays_hidden(tmp_path: Path) -> None:
    """And the rights by which it could undo that do not come back."""
    node = Node(tmp_path, isolated=True)
    program = f"""wait()
print(os.listdir({str(tmp_path / "state")!r}), os.path.exists(os.environ["BAILIFF_CHECKPOINT_DIR"]))
print(open("/proc/self/status").read().split("CapBnd:")[1].split()[0])"""
    digest = await node.saved(program)
    assert (await node.restored(digest)).why_not == ""
    node.go()
    assert (await exit_of(node.runtime)).code == 0
    seen, bounding = node.output(SECOND).splitlines()
    assert "tasks" not in seen
    assert seen.endswith("True")
    assert not int(bounding, 16) >> 21 & 1  # CAP_SYS_ADMIN
    await _cleared(node)


async def test_a_task_in_a_cgroup_of_its_own_comes_back(tmp_path: Path) -> None:
    """With a thread: CRIU, run from another cgroup, would wait for ever where it is to put that one."""
    cgroups = cgroups_of(tmp_path)
    if cgroups is None:
        pytest.skip("this host permits no cgroup v2 of a task's own")
    node = Node(tmp_path)
    node.runtime = ProcessRuntime(tmp_path / "state", criu=node.criu, cgroups=cgroups)
    program, last = PROGRAMS["threads with a lock"]
    digest = await node.saved(program)
    assert (await asyncio.wait_for(node.restored(digest), PATIENCE_S)).why_not == ""
    assert {*cgroups.pids(SECOND)} == {*node.runtime.pids(SECOND)} != set()
    node.go()
    assert ((await exit_of(node.runtime)).code, node.output(SECOND)) == (0, f"{last}\n")
    await _cleared(node)


async def test_a_control_directory_whose_path_is_too_long_for_a_socket_is_the_new_attempts(tmp_path: Path) -> None:
    """Then an isolated job holds it open."""
    folder = tmp_path / ("long-" * 20)
    folder.mkdir()
    node = Node(folder, isolated=True)
    digest = await node.saved("""wait()
socket_path = os.environ["BAILIFF_SOCKET"]
print(os.path.basename(os.readlink(socket_path.rpartition("/")[0])), os.path.exists(socket_path))""")
    assert (await node.restored(digest)).why_not == ""
    node.go()
    assert (await exit_of(node.runtime)).code == 0
    assert node.output(SECOND) == f"{SECOND} True\n"
    await _cleared(node)


def _has_capability(number: int) -> bool:
    status = Path("/proc/self/status").read_text()
    return bool(int(status.split("CapEff:")[1].split()[0], 16) >> number & 1)


@pytest.fixture
async def node_of_somebody(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    """Its tasks run as an ordinary user."""
    if not _has_capability(24):
        pytest.skip("root without CAP_SYS_RESOURCE, as here, cannot read the limits of another user's process, nor save it")
    folder = tmp_path_factory.mktemp("node")
    for each in (folder, *folder.parents[:-2]):
        each.chmod(0o711)
    node = Node(folder, user=SOMEBODY)
    yield node
    await _cleared(node)


async def test_a_task_of_an_ordinary_user_comes_back_as_that_user(node_of_somebody: Node) -> None:
    node = node_of_somebody
    digest = await node.saved("before=$$; wait; id -u; id -g; [ $before = $$ ] && grep CapEff /proc/self/status")
    assert (await node.restored(digest)).why_not == ""
    node.go()
    assert (await exit_of(node.runtime)).code == 0
    uid, gid, rights = node.output(SECOND).splitlines()
    assert (uid, gid, int(rights.split()[1], 16)) == (str(SOMEBODY.uid), str(SOMEBODY.gid), 0)


async def test_the_job_can_neither_read_nor_move_what_was_saved(node_of_somebody: Node) -> None:
    node = node_of_somebody
    await node.saved("wait")
    image = node.snapshots / "attempt-0000/snapshot.rank-0000"
    assert (image.stat().st_uid, image.stat().st_mode & 0o777) == (0, 0o700)
    await node.start(SECOND, f"ls {image} || mv {image} {node.checkpoints} || mv {node.snapshots} {node.work} || echo refused")
    assert (await exit_of(node.runtime)).code == 0
    assert node.output(SECOND).splitlines()[-1] == "refused"


@pytest.mark.parametrize(("how", "code"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", -9), ("os.abort()", -6)])
async def test_how_it_ends_is_known_as_of_every_task(node: Node, how: str, code: int) -> None:
    """Before it is saved, and after it was restored."""
    digest = await node.saved(f"wait()\n{how}")
    await node.restored(digest)
    node.go()
    assert (await exit_of(node.runtime)).code == code
    await node.runtime.forget(SECOND)
    await node.start(SECOND, how)
    assert (await exit_of(node.runtime)).code == code


async def test_numpy_computes_the_same_bits(node: Node) -> None:
    numpy = pytest.importorskip("numpy")
    where = str(Path(numpy.__file__).parents[1])
    program = f"""
sys.path.append({where!r})
import numpy
random = numpy.random.default_rng(7)
state = random.standard_normal((200, 200))
for step in range(60):
    if step == 30 and len(sys.argv) == 1:
        wait()
    state = numpy.tanh(state @ random.standard_normal((200, 200)) / 14)
import hashlib
print(hashlib.sha256(state.tobytes()).hexdigest())
"""
    digest = await node.saved(program)
    assert (await node.restored(digest)).why_not == ""
    node.go()
    assert (await exit_of(node.runtime)).code == 0
    saved = node.output(SECOND)
    await node.runtime.forget(SECOND)
    await node.start(SECOND, program, "never saved")
    assert (await exit_of(node.runtime)).code == 0
    assert node.output(SECOND).removeprefix(saved) == saved


async def test_a_restored_task_can_be_saved_again(node: Node) -> None:
    digest = await node.saved("wait()\nos.unlink('go')\nwait()\nprint('done')")
    await node.restored(digest)
    node.go()
    await until(lambda: "ready" in node.output(SECOND))
    image = make_image(node.snapshots, SECOND.attempt, 0)
    dumped = await node.runtime.save(SECOND, image, "2")
    assert dumped.why_not == ""
    again, _ = sealed(image, {"runtime": dict(dumped.facts), "cpu": ""})
    await node.end(SECOND)
    found, _ = verified(node.snapshots, SECOND.attempt, 0, again)
    third = TaskKey("plain", 2, "0")
    await node.start(third, "", restore=replace(found, about={"from_attempt": 1}))
    node.go()
    assert ((await exit_of(node.runtime)).code, node.output(third)) == (0, "done\n")


@pytest.mark.parametrize("name_of", REFUSED)
async def test_what_cannot_be_saved_is_named_and_goes_on(node: Node, name_of: str, tmp_path: Path) -> None:
    program, reason = REFUSED[name_of]
    if name_of == "a device" and not DEVICE.exists():
        pytest.skip(f"{DEVICE} is not there")
    tcp_met, unix_met, name = asyncio.Event(), asyncio.Event(), str(tmp_path)[-60:]
    tcp = await asyncio.start_server(lambda *_: tcp_met.set(), "127.0.0.1", 0)
    unix = await asyncio.start_unix_server(lambda *_: unix_met.set(), f"\0{name}")
    async with tcp, unix:
        await node.start_until_ready(program, str(tcp.sockets[0].getsockname()[1]), name)
        if name_of == "a TCP connection":
            await tcp_met.wait()
        if name_of == "a socket to another process":
            await unix_met.wait()
        dumped, _ = await node.save()
        assert dumped.why_not.startswith(reason), dumped.why_not
        assert dumped.is_whole
        node.go()
        assert (await exit_of(node.runtime)).code == 0
        assert "went on" in node.output(FIRST)


async def test_a_task_that_was_not_started_for_it_is_not_touched(node: Node) -> None:
    await node.start(FIRST, "wait()", saves=False)
    await until(lambda: "ready" in node.output(FIRST))
    dumped, _ = await node.save()
    assert dumped.why_not == "it was not started so that it can be saved"
    node.go()
    assert (await exit_of(node.runtime)).code == 0


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _behind_a_link(path: Path) -> None:
    path.symlink_to(path.rename(path.parent.parent / "moved"))


TAMPERED: dict[str, Callable[[Path], object]] = {
    "a page": lambda image: _flip(next(image.glob("pages-*.img"))),
    "a core": lambda image: _flip(next(image.glob("core-*.img"))),
    "the manifest": lambda image: _flip(image / "manifest.json"),
    "a file less": lambda image: next(image.glob("core-*.img")).unlink(),
    "a file more": lambda image: (image / "core-99.img").touch(),
    "a link": lambda image: _behind_a_link(image / "fs-2.img"),
    "another mode": lambda image: image.chmod(0o755),
    "nothing left": lambda image: shutil.rmtree(image),
    "a link to it": _behind_a_link,
}


@pytest.mark.parametrize("how", TAMPERED)
async def test_an_image_that_was_tampered_with_is_not_restored(node: Node, how: str) -> None:
    digest = await node.saved("wait()")
    TAMPERED[how](node.snapshots / "attempt-0000/snapshot.rank-0000")
    with pytest.raises(BadImage):
        verified(node.snapshots, 0, 0, digest)


async def test_an_image_that_is_exchanged_after_it_was_verified_is_not_restored(node: Node) -> None:
    digest = await node.saved("wait()")
    image, _ = verified(node.snapshots, 0, 0, digest)
    there = node.snapshots / image.name
    there.rename(there.parent / "moved")
    shutil.copytree(there.parent / "moved", there)
    await node.start(SECOND, "print('started anew')", restore=replace(image, about={"from_attempt": 0}))
    end = await node.runtime.restored(SECOND)
    assert end is not None
    assert end.why_not == "the folder of the snapshot was replaced"
    assert ((await exit_of(node.runtime)).code, node.output(SECOND)) == (0, "started anew\n")


CANNOT_COME_BACK: dict[str, tuple[str, Callable[[Node], object], str]] = {
    "a file that is gone": ("held = open('held', 'w+')\nwait()", lambda node: (node.work / "held").unlink(), "is not there"),
    "a file that has changed": (
        "held = open('held', 'w+')\nheld.write('12345')\nheld.flush()\nwait()",
        lambda node: (node.work / "held").write_text("1"),
        "has changed",
    ),
}


@pytest.mark.parametrize("what", CANNOT_COME_BACK)
async def test_what_cannot_be_restored_is_named_and_the_job_starts_anew(node: Node, what: str) -> None:
    """Nothing of what was half restored is left, and its command is started in its place."""
    program, change, reason = CANNOT_COME_BACK[what]
    digest = await node.saved(program)
    change(node)
    alone = "print(sorted(int(each) for each in os.listdir('/proc') if each.isdigit())[1:] == [os.getpid()])"
    end = await node.restored(digest, alone)
    assert reason in end.why_not
    assert ((await exit_of(node.runtime)).code, node.output(SECOND)) == (0, "True\n")


async def test_a_port_that_was_taken_meanwhile_is_named(node: Node) -> None:
    digest = await node.saved("listener = socket.create_server(('127.0.0.1', 0))\nprint(listener.getsockname()[1])\nwait()")
    port = int(node.output(FIRST).split()[0])
    with socket.create_server(("127.0.0.1", port)):
        end = await node.restored(digest, "print('started anew')")
    assert "a port that it listens on is taken" in end.why_not
    assert ((await exit_of(node.runtime)).code, node.output(SECOND)) == (0, "started anew\n")


# --- kill -9 at every stage


@pytest.fixture
def slow_criu(tmp_path: Path) -> Path:
    """It stops where the state is written and the task is still frozen, until `gate` is there."""
    return paused_criu(tmp_path)


async def _saving(node: Node, tmp_path: Path) -> Image:
    """A task in the middle of being saved, by an agent that then is gone."""
    await node.start_until_ready("wait()\nprint('went on')")
    image = make_image(node.snapshots, 0, 0)
    saving = asyncio.create_task(node.runtime.save(FIRST, image, "1"))
    await until(lambda: (tmp_path / "frozen").exists())
    saving.cancel()
    await node.runtime.close()
    return image


async def test_an_agent_that_comes_back_finds_what_was_being_saved(tmp_path: Path, slow_criu: Path) -> None:
    node = Node(tmp_path, criu=str(slow_criu))
    image = await _saving(node, tmp_path)
    node.runtime = node.agent()
    [state] = await node.runtime.adopt()
    assert isinstance(state, Running)
    (tmp_path / "gate").touch()
    dumped = await node.runtime.save(FIRST, image, "1")
    assert dumped.why_not == ""
    digest, _ = node.seal(dumped, image)
    await node.end(FIRST)
    assert (await node.restored(digest)).why_not == ""
    node.go()
    assert (await exit_of(node.runtime)).code == 0
    await _cleared(node)


async def test_a_criu_that_is_killed_leaves_a_task_that_must_not_go_on(tmp_path: Path, slow_criu: Path) -> None:
    node = Node(tmp_path, criu=str(slow_criu))
    image = await _saving(node, tmp_path)
    node.runtime = node.agent()
    await node.runtime.adopt()
    kill_criu(image.folder / image.name)
    dumped = await node.runtime.save(FIRST, image, "1")
    assert (dumped.is_whole, dumped.why_not) == (False, "the program that saved it was killed")
    assert (await node.end(FIRST)).code == -signal.SIGKILL
    await _cleared(node)


async def test_with_its_supervisor_a_task_ends_whatever_was_being_done_to_it(tmp_path: Path, slow_criu: Path) -> None:
    node = Node(tmp_path, criu=str(slow_criu))
    image = await _saving(node, tmp_path)
    os.kill(json.loads((node.runtime.folders.task(FIRST) / "running.json").read_text())["supervisor_pid"], signal.SIGKILL)
    node.runtime = node.agent()
    await until(lambda: not node.runtime.pids(FIRST))
    [state] = await node.runtime.adopt()
    assert isinstance(state, Exit)
    assert state.supervisor_lost
    with pytest.raises(BadImage):
        verified(node.snapshots, 0, 0, "0" * 64)
    await until(lambda: not criu_dumping(image.folder / image.name))
    await _cleared(node)


async def test_the_deadline_holds_for_criu_too(tmp_path: Path, slow_criu: Path) -> None:
    """Without an agent the supervisor kills the task, and who was saving it."""
    node = Node(tmp_path, criu=str(slow_criu))
    await node.start_until_ready("wait()")
    image = make_image(node.snapshots, 0, 0)
    saving = asyncio.create_task(node.runtime.save(FIRST, image, "1"))
    await until(lambda: (tmp_path / "frozen").exists())
    await node.runtime.deadlines(FIRST, boottime_us(), boottime_us())
    end = await exit_of(node.runtime)
    assert (end.code, end.deadline_stages) == (-signal.SIGKILL, ("term_sent", "kill_sent"))
    assert (await saving).why_not
    await until(lambda: not criu_dumping(image.folder / image.name))
    await _cleared(node)
