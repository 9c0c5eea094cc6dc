"""The process beside the auditor that tells what records say, as the auditor sees it."""

import asyncio
import os
import pickle
import sys
from collections import deque
from contextlib import suppress
from typing import Any

from bailiff_bus.people import People
from bailiff_bus.port import Message

from .telling import LENGTH, Told, untold

BUFFER = 16 * 2**20


class Gone(Exception):
    """The process has ended: nothing of what it was given is known to be told."""


class Beside:
    """One such process. Answers come in the order of what it was given."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._input, self._output = process, process.stdin, process.stdout
        self._asked: deque[asyncio.Future[Any]] = deque()
        self._ended = False
        self._ready: asyncio.Future[Any] = self._ask()
        self._hearing = asyncio.create_task(self._hear())

    @classmethod
    async def start(cls) -> "Beside":
        """Begin; it is `ready` a second later."""
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-c", "from bailiff_auditor.telling import main; main()")
        return cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=BUFFER, env=dict(os.environ)))

    @property
    def ready(self) -> bool:
        """Whether it waits for work. Raises `Gone`."""
        return self._ready.done() and self._ready.result() is not None

    def begin(self, people: People) -> None:
        """From here on it is the one that knows them."""
        self._send(people)

    def tell(self, judged: list[tuple[Message, bytes]]) -> "asyncio.Future[Told]":
        """Rows of these messages, which have these hashes. Raises `Gone`, there."""
        self._send(untold(judged))
        return self._ask()

    async def end(self) -> People:
        """All is told: the `People` as they are now. Raises `Gone`."""
        self._send(None)
        people: People = await self._ask()
        await self.close()
        return people

    async def close(self) -> None:
        """End it."""
        self._hearing.cancel()
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await asyncio.wait([self._hearing])

    def _send(self, asked: Any) -> None:
        raw = pickle.dumps(asked, pickle.HIGHEST_PROTOCOL)
        self._input.write(LENGTH.pack(len(raw)))
        self._input.write(raw)  # how much may wait here is bounded by how many batches are under way

    def _ask(self) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody has to look
        self._asked.append(answer)
        if self._ended:
            self._fail()
        return answer

    async def _hear(self) -> None:
        try:
            while True:
                (length,) = LENGTH.unpack(await self._output.readexactly(LENGTH.size))
                answer = pickle.loads(await self._output.readexactly(length))  # noqa: S301 - from our own child
                waiting = self._asked.popleft()
                if not waiting.done():
                    waiting.set_result(answer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self._fail()

    def _fail(self) -> None:
        self._ended = True
        while self._asked:
            waiting = self._asked.popleft()
            if not waiting.done():
                waiting.set_exception(Gone("the process that tells what records say has ended"))
