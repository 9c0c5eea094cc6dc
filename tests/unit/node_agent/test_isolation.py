"""A job that runs as the agent's own user sees neither its folder and keys nor its environment, and has what it needs."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.kits.waiting import PATIENCE_S, until

from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_node_agent.runtime import Exit, Launch, Running, TaskKey
from bailiff_node_agent.runtime.plugin import NodeParts
from bailiff_node_agent.runtime.process import PLUGIN, ProcessRuntime, exposure, why_not_isolated
from bailiff_node_agent.runtime.supervisor import isolation
from bailiff_node_agent.runtime.supervisor.host import boottime_us
from bailiff_node_agent.settings import SNAPSHOTS, NodeAgentSettings, NodeDeclaration

pytestmark = pytest.mark.skipif(why_not_isolated() is not None, reason=f"this machine permits no isolation: {why_not_isolated()}")

KEY = TaskKey("train-7", 1, "0")
PLANTED = "planted-in-the-test-of-isolation"
TRIES = """
cat "$STATE/secret" "$STATE/node/tasks/"*/task.json "$KEY_FILE" 2>&1 && echo leaked
cat /proc/$AGENT/environ /proc/$AGENT/root"$KEY_FILE" /proc/$AGENT/cwd/* /proc/$AGENT/fd/* 2>/dev/null < /dev/null && echo leaked
umount "$STATE" 2>/dev/null && echo leaked
unshare -Urm sh -c 'umount "$STATE"; umount "$KEY_FILE"; cat "$STATE/secret" "$KEY_FILE"' 2>/dev/null
"""


@dataclass
class Node:
    """An agent with a secret in its folder, a key beside it, and a secret in its environment."""

    agent: ProcessRuntime
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        state, key = self.folder / "state", self.folder / "agent.key"
        own = {"STATE": str(state), "KEY_FILE": str(key), "AGENT": str(os.getpid())}
        return own | {"BAILIFF_CHECKPOINT_DIR": str(state / "node/checkpoints/train-7")}

    async def run(self, command: str | list[str], *, tty: bool = False) -> tuple[Exit, str]:
        """The exit and the output of a job."""
        running = await self.agent.start(Launch(KEY, command, env=self.env, working_dir=str(self.folder), tty=tty))
        assert isinstance(running, Running | Exit)
        end = await asyncio.wait_for(self.agent.wait_exit(), PATIENCE_S)
        path = self.agent.log_path(KEY)
        assert path is not None
        return end, path.read_text(errors="replace")


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    state, key = tmp_path / "state", tmp_path / "agent.key"
    state.mkdir()
    (state / "secret").write_text(PLANTED)
    key.write_text(PLANTED)
    agent = ProcessRuntime(state / "node", hidden=(state, key, tmp_path / "not-there"))
    yield Node(agent, tmp_path)
    await agent.close()


async def test_it_reads_nothing_of_the_agent(node: Node) -> None:
    beside = await asyncio.create_subprocess_exec("sleep", "60", env={"SECRET": PLANTED})  # of the same user, as the agent is
    try:
        _, output = await node.run(f'{TRIES}\ncat /proc/{beside.pid}/environ 2>/dev/null && echo leaked; ls -A "$STATE"')
    finally:
        beside.kill()
        await beside.wait()
    assert PLANTED not in output
    assert "leaked" not in output
    assert output.splitlines()[-1] == "node"
    assert (node.folder / "state" / "secret").read_text() == PLANTED


async def test_checkpoints_socket_signals_and_exit_codes_work(node: Node) -> None:
    speak = "import socket, os; s = socket.socket(socket.AF_UNIX); s.connect(os.environ['BAILIFF_SOCKET'])"
    command = f"""{sys.executable} -c "{speak}" && echo state > "$BAILIFF_CHECKPOINT_DIR/step-7" || exit 3
        test -w "$BAILIFF_CONTROL_DIR/steps" || exit 4
        trap 'exit 85' TERM; kill -TERM $$; sleep 5"""
    end, output = await node.run(command)
    assert (end.code, output) == (85, "")
    assert (node.folder / "state/node/checkpoints/train-7/step-7").read_text() == "state\n"


async def test_a_checkpoint_folder_may_be_a_link_to_another_disk(node: Node) -> None:
    (node.folder / "disk").mkdir()
    (node.folder / "state/node/checkpoints").symlink_to(node.folder / "disk")
    end, output = await node.run('echo state > "$BAILIFF_CHECKPOINT_DIR/step-7"')
    assert (end.code, output) == (0, "")
    assert (node.folder / "disk/train-7/step-7").read_text() == "state\n"


async def test_the_lease_is_hidden_and_in_force(node: Node) -> None:
    now = boottime_us()
    node.agent.renew(now + 60_000_000, 1_000_000)
    end, _ = await node.run('test ! -e "$STATE/node/lease.json" && exit 7')
    assert (end.code, end.lease_stages) == (7, ())
    await node.agent.forget(KEY)
    node.agent.renew(now, 0)
    await node.agent.start(Launch(KEY, "exit 0", env=node.env, working_dir=str(node.folder)))
    assert (await node.agent.wait_exit()).lease_stages == ("kill_sent",)


async def test_its_record_is_out_of_its_reach(node: Node) -> None:
    end, _ = await node.run('rm -rf "$STATE/node/tasks"; touch "$STATE/node/x"; exit 7')
    assert end.code == 7
    assert not (node.folder / "state/node/x").exists()


async def test_it_may_have_a_terminal(node: Node) -> None:
    end, output = await node.run("test -t 0 -a -t 1 && tty < /dev/tty; exit $?", tty=True)
    assert end.code == 0
    assert output.strip() == "/dev/tty"


async def test_a_long_path_is_no_hindrance(tmp_path: Path) -> None:
    state = tmp_path / ("d" * 100)
    node = Node(ProcessRuntime(state, hidden=(state,)), tmp_path)
    speak = "import socket, os; s = socket.socket(socket.AF_UNIX); s.connect(os.environ['BAILIFF_SOCKET']); print('connected')"
    end, output = await node.run(["sh", "-c", f'{sys.executable} -c "{speak}"; exit $?'])
    assert (end.code, output) == (0, "connected\n")
    await node.agent.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
@pytest.mark.parametrize("is_there_before", [True, False], ids=["before it starts", "while it runs"])
async def test_a_second_mount_of_the_agents_folder_shows_it_nothing(node: Node, is_there_before: bool) -> None:
    """As machines have it whose /var is a part of another folder, or where root makes one for a chroot."""
    part, whole = node.folder / "part", node.folder / "whole"
    part.mkdir()
    whole.mkdir()

    def mount() -> None:
        run("mount", "--bind", node.folder / "state", part)
        run("mount", "--bind", node.folder, whole)

    run("mount", "--bind", node.folder, node.folder)
    run("mount", "--make-shared", node.folder)
    try:
        if is_there_before:
            mount()
        waits = "touch begun; until test -e mounted; do sleep 0.05; done"
        looks = 'echo kept > "$BAILIFF_CHECKPOINT_DIR/step-7"; cat part/secret whole/state/secret whole/agent.key'
        running = asyncio.ensure_future(node.run(f"{waits}; {looks}; ls part whole"))
        await until((node.folder / "begun").exists)
        if not is_there_before:
            mount()
        assert (part / "secret").read_text() == PLANTED
        (node.folder / "mounted").touch()
        _, output = await running
        assert PLANTED not in output
        assert (node.folder / "state/node/checkpoints/train-7/step-7").read_text() == "kept\n"
    finally:
        for path in (part, whole, node.folder):
            run("umount", path)


def run(*command: str | Path) -> None:
    subprocess.run(command, check=True)


@pytest.mark.parametrize("uid", [0, 1000])
@pytest.mark.parametrize("isolate", [True, False])
@pytest.mark.parametrize("run_as", ["agent", "submitter"])
def test_an_agent_knows_what_jobs_of_its_own_user_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, isolate: bool, run_as: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    settings = NodeAgentSettings.model_construct(cgroups=False, criu="", isolate_jobs=isolate, run_as=run_as, state_dir=tmp_path)
    with capture_logs() as logged:
        found = PLUGIN.open(NodeParts("n1", "none", tmp_path, settings)).capabilities.exposes
    as_agent = uid != 0 or run_as == "agent"
    assert ("not isolated" in found) == (as_agent and not isolate)
    assert ("run as root" in found) == (as_agent and uid == 0)
    assert [line["reason"] for line in logged] == ([found] if found else []), "its log says so at its start"


def test_snapshots_on_a_shared_disk_are_hidden_too(tmp_path: Path) -> None:
    """They hold the memory of other people's jobs; checkpoints there are not hidden."""
    nodes = (NodeDeclaration(name="n1", pool="pool-a", gpus="0"),)
    settings = NodeAgentSettings.model_construct(kafka=KafkaSettings(), nodes=nodes, shared_checkpoints=tmp_path)
    assert tmp_path / "pool-a" / SNAPSHOTS in settings.hidden
    assert not any((tmp_path / "pool-a/train").is_relative_to(path) for path in settings.hidden)


@pytest.mark.parametrize(("folder", "told"), [("/home", True), ("/proc/sys/fs/binfmt_misc", False)])
def test_an_agent_knows_that_later_mounts_reach_its_jobs(monkeypatch: pytest.MonkeyPatch, folder: str, told: bool) -> None:
    """Where folders are mounted as they are entered; systemd does so with one below /proc on every machine."""
    monkeypatch.setattr(isolation, "_mounts", lambda: [isolation._Mount("0:1", "/", folder, "autofs")])
    assert ("autofs" in exposure(None)) == told


@pytest.mark.skipif(os.geteuid() != 0, reason="the tests above do not run as root")
def test_the_same_holds_for_an_agent_that_is_not_root(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    uid = 54_321
    try:
        for path in (folder, folder / "state", folder / "state/kept"):
            path.mkdir(exist_ok=True)
        for name in ("state/secret", "agent.key"):
            (folder / name).write_text(PLANTED)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, uid, uid)
        program = f"""
import ctypes, os, subprocess, sys
sys.path.append({str(Path(isolation.__file__).parents[1])!r})
from supervisor.isolation import isolate
os.setgroups([]); os.setresgid({uid}, {uid}, {uid}); os.setresuid({uid}, {uid}, {uid})
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # dumpable again, as a process that began as this user is
beside = subprocess.Popen(["sleep", "60"], env=dict(SECRET={PLANTED!r}))
if os.fork() == 0:
    isolate([{str(folder / "state")!r}, {str(folder / "agent.key")!r}], [{str(folder / "state/kept")!r}])
    os.execve("/bin/sh", ["sh", "-c", sys.argv[1]], dict(os.environ, AGENT=str(beside.pid)))
_, status = os.wait()
sys.stdout.flush()
readable = {PLANTED!r} in open(f"/proc/{{beside.pid}}/environ").read()
beside.kill()
sys.exit(os.waitstatus_to_exitcode(status) if readable else 9)
"""
        env = {"STATE": str(folder / "state"), "KEY_FILE": str(folder / "agent.key"), "PATH": os.environ["PATH"]}
        last = 'echo kept > "$STATE/kept/file"; ls -A "$STATE"; grep CapEff /proc/self/status; id -u; exit 85'
        command = [sys.executable, "-I", "-S", "-c", program, f"{TRIES}\n{last}"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=30)
        assert (done.returncode, done.stderr) == (85, "")
        assert PLANTED not in done.stdout
        assert "leaked" not in done.stdout
        assert done.stdout.splitlines()[-3:] == ["kept", "CapEff:\t0000000000000000", str(uid)]
        assert (folder / "state/kept/file").read_text() == "kept\n"
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)
