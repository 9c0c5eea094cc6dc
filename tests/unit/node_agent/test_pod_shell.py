"""A shell in a pod, by the API's `exec`: what the pod's image may answer, and that nothing of a shell is left.

The API server is played, the commands are real ones of this machine; tests/kubernetes/test_runtime.py has a real kubelet.
"""

import asyncio
import contextlib
import json
import os
import pty
import socket
import termios
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from aiohttp import WSMsgType, web
from tests.kits.shell import Shell
from tests.kits.waiting import until

from bailiff.attach.frames import INPUT, frame, resize
from bailiff_kubernetes import Api
from bailiff_node_agent.runtime import TaskKey
from bailiff_node_agent.runtime.kubernetes import pod_shell
from bailiff_node_agent.runtime.kubernetes.pod_shell import PodShell, end_shell
from bailiff_node_agent.runtime.kubernetes.task_files import TaskOrder

pytestmark = pytest.mark.slow
ORDER = TaskOrder(TaskKey("train", 1, "0"), "jobs", "pod", True, (), None, True, uid="u-1")


@dataclass
class Server:
    """An API server with one pod, whose commands run here. says: what its image prints in place of a shell."""

    uid: str = "u-1"
    phase: str = "Running"
    refuses: int = 0
    says: bytes | None = None
    left: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def pod(self, _: web.Request) -> web.Response:
        return web.json_response({"metadata": {"name": "pod", "uid": self.uid}, "status": {"phase": self.phase}})

    async def execute(self, request: web.Request) -> web.StreamResponse:
        if self.refuses:
            return web.json_response({"message": "no"}, status=self.refuses)
        stream = web.WebSocketResponse(protocols=["v4.channel.k8s.io"])
        await stream.prepare(request)
        command, tty = request.query.getall("command"), request.query.get("tty") == "true"
        if tty and self.says is not None:
            await stream.send_bytes(b"\1" + self.says)
            async for _ in stream:
                pass
        elif tty:
            await self._in_terminal(stream, command)
        else:
            process = await asyncio.create_subprocess_exec(*command)
            await process.wait()
            await stream.send_bytes(b"\3" + json.dumps({"status": "Success"}).encode())
        await stream.close()
        return stream

    async def _in_terminal(self, stream: web.WebSocketResponse, command: list[str]) -> None:
        """As a kubelet: the command goes on when its client leaves."""
        master, slave = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            "setsid", "--ctty", *command, stdin=slave, stdout=slave, stderr=slave, env={"PATH": os.environ["PATH"]}
        )
        self.left.append(process)
        os.close(slave)
        showing = asyncio.create_task(self._show(stream, master))
        async for message in stream:
            assert message.type == WSMsgType.BINARY
            if message.data[0] == 4:
                size = json.loads(message.data[1:])
                termios.tcsetwinsize(master, (size["Height"], size["Width"]))
            else:
                os.write(master, message.data[1:])
        showing.cancel()

    async def _show(self, stream: web.WebSocketResponse, master: int) -> None:
        with contextlib.suppress(OSError):
            while data := await asyncio.to_thread(os.read, master, 4096):
                await stream.send_bytes(b"\1" + data)
        await stream.close()


@pytest.fixture
async def server() -> Server:
    return Server()


@pytest.fixture
async def api(server: Server, tmp_path: Path) -> AsyncIterator[Api]:
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/jobs/pods/pod", server.pod)
    app.router.add_get("/api/v1/namespaces/jobs/pods/pod/exec", server.execute)
    runner = web.AppRunner(app)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listener).start()
    named = [{"name": "it", "cluster": {"server": f"http://127.0.0.1:{listener.getsockname()[1]}"}}]
    context = [{"name": "it", "context": {"cluster": "it", "user": "it"}}]
    config = {"clusters": named, "contexts": context, "users": [{"name": "it", "user": {}}], "current-context": "it"}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    async with await Api.connect(tmp_path / "kubeconfig") as api:
        yield api
    await runner.cleanup()
    for process in server.left:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def opened(api: Api) -> AsyncIterator[tuple[Shell, PodShell, asyncio.Task[None]]]:
    made = await PodShell.start(api, ORDER)
    ours, theirs = socket.socketpair()
    relaying = asyncio.create_task(made.relay(theirs))
    shell = Shell(*await asyncio.open_unix_connection(sock=ours))
    yield shell, made, relaying
    shell.writer.close()
    await relaying
    assert await end_shell(api, ORDER, made.pid)


async def test_what_is_typed_reaches_the_shell_and_its_window_has_the_clients_size(api: Api) -> None:
    async with opened(api) as (shell, made, _):
        assert await shell.asks("echo $$ $TERM") == f"{made.pid} xterm"
        shell.writer.write(resize(33, 99))
        while await shell.asks("stty size") != "33 99":
            pass
        assert len(await shell.asks("head -c 200000 /dev/zero | tr '\\0' x")) == 200_000


async def test_a_shell_that_exits_ends_its_connection(api: Api) -> None:
    async with opened(api) as (shell, _, relaying):
        await shell.asks("id")
        shell.writer.write(frame(INPUT, b"exit\r"))
        await shell.ended()
        await relaying


async def test_what_a_shell_has_started_ends_with_it_and_no_other_process(api: Api) -> None:
    async with opened(api) as (stays, _, _):
        async with opened(api) as (shell, made, _):
            child = int((await shell.asks("(trap '' HUP TERM; exec sleep 4000) & echo $!")).split()[-1])
        await until(lambda: not lives(child) and not lives(int(made.pid)))
        assert await stays.asks("echo still here") == "still here"


def lives(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("says", [b"", b"bailiff-shell 12; rm -rf /\r\n", b"bailiff-shell -1\r\n", b"x" * 100_000])
async def test_an_image_that_says_no_process_id_has_no_shell(
    api: Api, server: Server, says: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_shell, "BEGINS_WITHIN_S", 0.5)
    server.says = says
    with pytest.raises(OSError, match=r"does not begin|no /bin/sh"):
        await PodShell.start(api, ORDER)


async def test_another_pod_of_the_name_and_an_agent_without_the_right_open_no_shell(api: Api, server: Server) -> None:
    server.refuses = 403
    with pytest.raises(OSError, match="403"):
        await PodShell.start(api, ORDER)
    server.refuses, server.uid = 0, "u-2"
    with pytest.raises(OSError, match="gone"):
        await PodShell.start(api, ORDER)


async def test_a_shell_that_cannot_be_ended_is_tried_again_unless_its_pod_has_ended(api: Api, server: Server) -> None:
    server.refuses = 500
    assert not await end_shell(api, ORDER, "12")
    server.phase = "Succeeded"
    assert await end_shell(api, ORDER, "12")
