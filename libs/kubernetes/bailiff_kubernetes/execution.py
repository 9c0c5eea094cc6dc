"""A command in a running container, by the API's `exec`: a WebSocket whose messages begin with the number of their channel.

The kubelet does not end the command when its client leaves.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Self

import orjson

from .connection import Connection, answer_of
from .resources import PODS

PROTOCOL = "v4.channel.k8s.io"
INPUT, OUTPUT, ERRORS, RESULT, SIZE = range(5)


class Execution:
    """One command. `output` ends with the command, the container or the connection."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket

    @classmethod
    async def start(
        cls, api: Connection, namespace: str, pod: str, container: str, command: Sequence[str], *, terminal: bool = False
    ) -> Self:
        """Start it, with a terminal or without input. Needs `get` and `create` for `pods/exec`. Raises `ApiError`."""
        query = [("container", container), ("stdout", "true"), *(("command", each) for each in command)]
        if terminal:
            query += [("stdin", "true"), ("tty", "true")]
        return cls(await api.web_socket(PODS.path(namespace, pod, "exec"), query, PROTOCOL))

    async def type(self, data: bytes) -> None:
        """Input. Raises `Unreachable`."""
        await answer_of(self._socket.send_bytes(bytes([INPUT]) + data))

    async def resize(self, rows: int, columns: int) -> None:
        """The size of the terminal. Raises `Unreachable`."""
        await answer_of(self._socket.send_bytes(bytes([SIZE]) + orjson.dumps({"Width": columns, "Height": rows})))

    async def output(self) -> AsyncIterator[bytes]:
        """What it prints. Raises `Unreachable`."""
        from aiohttp import WSMsgType

        while True:
            message = await answer_of(self._socket.receive())
            if message.type != WSMsgType.BINARY:
                return
            channel, content = message.data[:1], message.data[1:]
            if channel == bytes([RESULT]):
                return
            if content and channel in (bytes([OUTPUT]), bytes([ERRORS])):
                yield content

    async def close(self) -> None:
        """Close the connection."""
        await self._socket.close()
