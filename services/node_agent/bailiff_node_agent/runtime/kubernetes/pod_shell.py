"""A shell in the container of a running task's pod, for one client: what `kubectl exec` gives, as the container's user.

The frames are those of `supervisor.terminal`. The kubelet ends no process when its client leaves. So the shell first says its
process id, and a second command ends its session. Both come from the job's image: who lies there keeps a process in a pod of
their own.
"""

import asyncio
import contextlib
import re
import socket

from bailiff_kubernetes import Api, ApiError, Execution
from bailiff_kubernetes.resources import PODS, uid_of
from bailiff_node_agent.runtime.supervisor.terminal import INPUT, OUTPUT, RESIZE, SIZE, BadFrame, Frames, frame
from bailiff_service.logs import logger

from .manifest import CONTAINER
from .task_files import TaskOrder

BEGINS_WITHIN_S, ENDS_WITHIN_S = 20.0, 20.0
READ_BYTES, MAX_GREETING = 32 * 1024, 4096
PID = re.compile(rb"bailiff-shell ([1-9][0-9]{0,9})\r?\n")
SHELL = 'echo "$0 $$"; export TERM=xterm; [ -x /bin/bash ] && exec /bin/bash -i; exec /bin/sh -i'
END = """
for signal in HUP KILL; do
    for process in /proc/[0-9]*; do
        { read -r stat <"$process/stat"; } 2>/dev/null || continue
        set -- ${stat##*) }
        test "$4" = "$0" && kill -$signal "${process#/proc/}"
    done
done
"""
"""What ends every process of the session `$0`. Fields after the name: state, parent, process group, session."""


class PodShell:
    """One shell. pid: its process id in the pod, which names its session."""

    def __init__(self, execution: Execution) -> None:
        self._execution, self._output = execution, execution.output()
        self._greeting, self.pid = b"", ""

    @classmethod
    async def start(cls, api: Api, order: TaskOrder) -> "PodShell":
        """In the pod of this uid, which its finalizer keeps: no other one can have its name. Raises `OSError`."""
        try:
            pod = await api.find(PODS, order.name, order.namespace)
            if pod is None or uid_of(pod) != order.uid:
                raise OSError("the pod is gone")
            command = ["/bin/sh", "-c", SHELL, "bailiff-shell"]
            execution = await Execution.start(api, order.namespace, order.name, CONTAINER, command, terminal=True)
            shell = cls(execution)
            try:
                async with asyncio.timeout(BEGINS_WITHIN_S):
                    await shell._read_pid()
            except BaseException:
                await execution.close()
                raise
            return shell
        except (ApiError, TimeoutError) as problem:
            raise OSError(f"no shell in the pod: {str(problem) or 'it does not begin'}") from None

    async def _read_pid(self) -> None:
        async for content in self._output:
            self._greeting += content
            if found := PID.search(self._greeting):
                self.pid, self._greeting = found[1].decode(), self._greeting[found.end() :]
                return
            if len(self._greeting) > MAX_GREETING:
                break
        raise OSError("the image has no /bin/sh")

    async def relay(self, connection: socket.socket) -> None:
        """Until the shell, the pod or the connection ends. `end_shell` then ends what is left.

        Who reads slowly is waited for: the shell's output then stays in its terminal.
        """
        reader, writer = await asyncio.open_unix_connection(sock=connection, limit=READ_BYTES)
        ways = [asyncio.create_task(self._show(writer)), asyncio.create_task(self._type(reader))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            writer.close()
            await self._execution.close()

    async def _show(self, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ApiError, OSError):
            writer.write(frame(OUTPUT, self._greeting) if self._greeting else b"")
            async for content in self._output:
                for at in range(0, len(content), READ_BYTES):
                    writer.write(frame(OUTPUT, content[at : at + READ_BYTES]))
                await writer.drain()

    async def _type(self, reader: asyncio.StreamReader) -> None:
        frames = Frames()
        with contextlib.suppress(ApiError, OSError, BadFrame):
            while data := await reader.read(READ_BYTES):
                for kind, content in frames.feed(data):
                    if kind == INPUT:
                        await self._execution.type(content)
                    elif kind == RESIZE and len(content) == SIZE.size:
                        await self._execution.resize(*SIZE.unpack(content))


async def end_shell(api: Api, order: TaskOrder, pid: str) -> bool:
    """End the session of this process of the pod. Whether nothing is left to do: an ended container has no shell."""
    try:
        async with asyncio.timeout(ENDS_WITHIN_S):
            pod = await api.find(PODS, order.name, order.namespace)
            if pod is None or uid_of(pod) != order.uid or pod["status"].get("phase") != "Running":
                return True
            ending = await Execution.start(api, order.namespace, order.name, CONTAINER, ["/bin/sh", "-c", END, pid])
            async for _ in ending.output():
                pass
            await ending.close()
    except (ApiError, TimeoutError) as problem:
        logger().warning("a shell in a pod may still run", pod=order.name, why=str(problem)[:200])
        return False
    return True
