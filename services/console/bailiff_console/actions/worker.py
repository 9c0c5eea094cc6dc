"""Worker process for previews and plans, so that long computations do not block the event loop."""

import asyncio
import dataclasses
import sys
from typing import Any

import orjson

from bailiff.client.errors import ClientError, ExitCode
from bailiff_core.fold.snapshot import to_snapshot
from bailiff_core.model.state import PoolState
from bailiff_service.logs import logger
from bailiff_service.problems import ApiError

MODULE = "bailiff_console.actions.worker_child"
MAX_RESULT = 64 << 20
MAX_QUEUED = 20
START_TIMEOUT_S = 120.0


class Worker:
    """One worker process, started on first use. timeout: of one task, seconds."""

    def __init__(self, timeout: float = 30.0, module: str = MODULE) -> None:
        self._timeout, self._module = timeout, module
        self._process: asyncio.subprocess.Process | None = None
        self._known: tuple[str, int, int] | None = None
        self._lock = asyncio.Lock()
        self._waiting = 0

    async def run(self, task: str, fields: dict[str, Any], state: PoolState) -> dict[str, Any]:
        """The task's result, from the state when the task starts. Raises `ClientError`; `ApiError` on timeout."""
        if self._waiting >= MAX_QUEUED:
            raise _busy("too many previews and plans are queued: try again")
        self._waiting += 1
        try:
            await self._acquire()
            try:
                process = await self._started()
                async with asyncio.timeout(self._timeout):
                    found = await self._exchange(process, task, fields, state)
            except TimeoutError:
                await self.close()
                raise _busy(f"the computation took more than {self._timeout:g} s and was stopped: try again") from None
            except asyncio.CancelledError:
                await self.close()  # its result would be taken for the next task's
                raise
            finally:
                self._lock.release()
        finally:
            self._waiting -= 1
        return _result_of(found)

    async def _acquire(self) -> None:
        try:
            async with asyncio.timeout(2 * self._timeout):
                await self._lock.acquire()
        except TimeoutError:
            raise _busy("timeout while waiting for other previews and plans: try again") from None

    async def close(self) -> None:
        """Kill the process; the next task starts another."""
        process, self._process, self._known = self._process, None, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    async def _exchange(
        self, process: asyncio.subprocess.Process, task: str, fields: dict[str, Any], state: PoolState
    ) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        at = (state.pool, state.seq, state.now)
        snapshot = None if at == self._known else to_snapshot(dataclasses.replace(state, cycle_open=False))
        request = {"task": task, "fields": fields, "size": None if snapshot is None else len(snapshot)}
        try:
            process.stdin.write(orjson.dumps(request) + b"\n" + (snapshot or b""))
            self._known = at
            await process.stdin.drain()
            line = await process.stdout.readline()
        except (ConnectionError, ValueError) as error:
            line = b""
            logger().warning(f"the worker process has exited: {error}")
        if not line:
            await self.close()
            raise _busy("the worker process has exited: try again")
        found: dict[str, Any] = orjson.loads(line)
        return found

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._known = None
            pipe = asyncio.subprocess.PIPE
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", self._module, stdin=pipe, stdout=pipe, limit=MAX_RESULT, start_new_session=True
            )
            assert self._process.stdout is not None
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._process.stdout.readline()  # its first line: it is ready; on a loaded machine that takes a while
        return self._process


def _busy(detail: str) -> ApiError:
    return ApiError(503, detail, headers={"retry-after": "2"})


def _result_of(found: dict[str, Any]) -> dict[str, Any]:
    if "problem" in found:
        problem = found["problem"]
        raise ClientError(next(code for code in ExitCode if code == problem["code"]), problem["text"], problem["advice"])
    if "error" in found:
        logger().error(f"internal error in the worker: {found['error']}", traceback=found["traceback"])
        raise ApiError(500, "internal error; details are in the console's log; please report it")
    result: dict[str, Any] = found["result"]
    return result
