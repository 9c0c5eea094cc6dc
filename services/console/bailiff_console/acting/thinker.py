"""Long thoughts in a process of their own, so that every page stays live while somebody asks what would happen."""

import asyncio
import dataclasses
import sys
from typing import Any

import orjson

from bailiff.problem import ExitCode, Problem
from bailiff_bus.logs import logger
from bailiff_console.problems import Refused
from bailiff_core.fold.snapshot import to_snapshot
from bailiff_core.model.pool import Pool

MODULE = "bailiff_console.acting.thinker_child"
LONGEST_ANSWER = 64 << 20
MOST_WAITING = 20
STARTS_WITHIN_S = 120.0


class Thinker:
    """One such process, started when it is first needed. patience: seconds after which a thought is given up."""

    def __init__(self, patience: float = 30.0, module: str = MODULE) -> None:
        self._patience, self._module = patience, module
        self._process: asyncio.subprocess.Process | None = None
        self._known: tuple[str, int, int] | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def ask(self, question: str, fields: dict[str, Any], pool: Pool) -> dict[str, Any]:
        """The answer, from the pool as it is when the question's turn comes. Raises `Problem`; `Refused` if it takes too long."""
        if self._waiting >= MOST_WAITING:
            raise _busy("too many people ask what would happen at the same time")
        self._waiting += 1
        try:
            await self._my_turn()
            try:
                process = await self._started()
                async with asyncio.timeout(self._patience):
                    found = await self._exchange(process, question, fields, pool)
            except TimeoutError:
                await self.close()
                raise _busy(f"to find out takes more than {self._patience:g} s in this pool: it was given up") from None
            except asyncio.CancelledError:
                await self.close()  # its answer would be taken for that to the next question
                raise
            finally:
                self._turn.release()
        finally:
            self._waiting -= 1
        return _answer_of(found)

    async def _my_turn(self) -> None:
        try:
            async with asyncio.timeout(2 * self._patience):
                await self._turn.acquire()
        except TimeoutError:
            raise _busy("others ask what would happen, and that takes long in this pool") from None

    async def close(self) -> None:
        """End the process; the next question starts another."""
        process, self._process, self._known = self._process, None, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    async def _exchange(
        self, process: asyncio.subprocess.Process, question: str, fields: dict[str, Any], pool: Pool
    ) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        at = (pool.domain, pool.seq, pool.now)
        state = None if at == self._known else to_snapshot(dataclasses.replace(pool, turn_open=False))
        asked = {"question": question, "fields": fields, "size": None if state is None else len(state)}
        try:
            process.stdin.write(orjson.dumps(asked) + b"\n" + (state or b""))
            self._known = at
            await process.stdin.drain()
            line = await process.stdout.readline()
        except (ConnectionError, ValueError) as error:
            line = b""
            logger().warning(f"the process that thinks is gone: {error}")
        if not line:
            await self.close()
            raise _busy("the process that finds out what would happen has ended: try again")
        found: dict[str, Any] = orjson.loads(line)
        return found

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._known = None
            pipe = asyncio.subprocess.PIPE
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", self._module, stdin=pipe, stdout=pipe, limit=LONGEST_ANSWER, start_new_session=True
            )
            assert self._process.stdout is not None
            async with asyncio.timeout(STARTS_WITHIN_S):
                await self._process.stdout.readline()  # it is there; on a busy machine that takes a while
        return self._process


def _busy(detail: str) -> Refused:
    return Refused(503, detail, headers={"retry-after": "2"})


def _answer_of(found: dict[str, Any]) -> dict[str, Any]:
    if "problem" in found:
        told = found["problem"]
        raise Problem(next(code for code in ExitCode if code == told["code"]), told["text"], told["advice"])
    if "error" in found:
        logger().error(f"an error while thinking: {found['error']}", traceback=found["traceback"])
        raise Refused(500, "please report it; the log of the console has more")
    answer: dict[str, Any] = found["answer"]
    return answer
