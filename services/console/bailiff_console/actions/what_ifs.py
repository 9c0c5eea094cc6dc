"""What-ifs: each runs in a child process that reads the whole log; one at a time per user."""

import asyncio
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson
from typing_extensions import TypedDict

from bailiff.client.errors import ExitCode
from bailiff.simulation.comparison import Comparison
from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_console.auth.principal import Principal
from bailiff_service.logs import logger
from bailiff_service.problems import ApiError

MODULE = "bailiff_console.actions.what_if_child"
MAX_RUNNING = 2
MAX_RETAINED = 50
RETENTION_S = 3600.0
MAX_LINE = 256 << 20
State = Literal["reading", "simulating", "done", "failed", "cancelled"]
RUNNING = ("reading", "simulating")


class WhatIfStatus(TypedDict):
    """One what-if. done, of: records read, or cycles simulated, and the total; of 0: unknown yet. report: its address."""

    id: str
    pool: str
    state: State
    done: int
    of: int
    result: Comparison | None
    report: str | None
    detail: str


@dataclass
class WhatIf:
    """One what-if. done, of: records read, or cycles simulated, and the total."""

    id: str
    principal: str
    pool: str
    state: State = "reading"
    done: int = 0
    of: int = 0
    result: Comparison | None = None
    report: str = ""
    detail: str = ""
    started_at: float = 0.0
    work: "asyncio.Task[None] | None" = field(default=None, repr=False)

    def to_data(self) -> WhatIfStatus:
        """As JSON."""
        report = f"/api/what-ifs/{self.id}/report" if self.report else None
        return {
            "id": self.id,
            "pool": self.pool,
            "state": self.state,
            "done": self.done,
            "of": self.of,
            "result": self.result,
            "report": report,
            "detail": self.detail,
        }


class WhatIfs:
    """All what-ifs of this console."""

    def __init__(self, kafka: KafkaSettings, module: str = MODULE) -> None:
        self._kafka, self._module = kafka, module
        self._what_ifs: dict[str, WhatIf] = {}

    def start(self, principal: Principal, pool: str, query: Mapping[str, Any], records: int) -> WhatIf:
        """Start one. records: number of records to read. Raises `ApiError` if the user's or the console's limit is reached."""
        running = [each for each in self._what_ifs.values() if each.state in RUNNING]
        if any(each.principal == principal.name for each in running):
            raise ApiError(409, "one what-if at a time: wait for yours to end, or cancel it")
        if len(running) >= MAX_RUNNING:
            raise ApiError(
                503, f"{len(running)} what-ifs are running, the maximum: try again later", headers={"retry-after": "30"}
            )
        self._tidy()
        what_if = WhatIf(uuid.uuid4().hex, principal.name, pool, of=records, started_at=time.monotonic())
        self._what_ifs[what_if.id] = what_if
        what_if.work = asyncio.create_task(self._run(what_if, {**query, "pool": pool}))
        return what_if

    def find(self, principal: Principal, id: str) -> WhatIf:  # noqa: A002 - what it is
        """The user's what-if. Raises `ApiError` if it is unknown or another user's."""
        found = self._what_ifs.get(id)
        if found is None or (found.principal != principal.name and not principal.operator):
            raise ApiError(404, "no such what-if; results are kept for one hour")
        return found

    async def cancel(self, principal: Principal, id: str) -> WhatIf:  # noqa: A002
        """Cancel, and wait for the process to exit. Raises `ApiError`."""
        found = self.find(principal, id)
        await _stopped(found)
        return found

    async def close(self) -> None:
        """Stop all processes."""
        for each in list(self._what_ifs.values()):
            await _stopped(each)

    def _tidy(self) -> None:
        now = time.monotonic()
        ended = [each for each in self._what_ifs.values() if each.state not in RUNNING]
        expired = [each for each in ended if now - each.started_at > RETENTION_S]
        for each in [*expired, *ended[: max(0, len(self._what_ifs) - MAX_RETAINED)]]:
            self._what_ifs.pop(each.id, None)

    async def _run(self, what_if: WhatIf, query: Mapping[str, Any]) -> None:
        process = None
        try:
            process = await _started(self._module)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(
                orjson.dumps({**query, "kafka": self._kafka.with_secrets()}) + b"\n"
            )  # stdin stays open: the child exits with this process
            await process.stdin.drain()
            async for line in process.stdout:
                _note(what_if, orjson.loads(line))
                if what_if.state not in RUNNING:
                    break
            if what_if.state in RUNNING:
                what_if.state, what_if.detail = "failed", "its process exited without a result, possibly out of memory"
        except (OSError, ValueError) as error:
            what_if.state, what_if.detail = "failed", "its process failed to start or to communicate"
            logger().error(f"what-if: {error}")
        finally:
            if process is not None:
                await _ended(process)


async def _started(module: str) -> asyncio.subprocess.Process:
    """Start the child; on cancellation, wait for the start and stop it, so that no process leaks."""
    pipe = asyncio.subprocess.PIPE
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            sys.executable, "-m", module, stdin=pipe, stdout=pipe, limit=MAX_LINE, start_new_session=True
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _ended(await starting)
        raise


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode is None:
        process.kill()
    await process.wait()


def _note(what_if: WhatIf, message: Mapping[str, Any]) -> None:
    what_if.state = message["state"]
    what_if.done, what_if.of = message.get("done", what_if.done), message.get("of", what_if.of)
    what_if.result, what_if.report = message.get("result"), message.get("report", "")
    what_if.detail = message.get("detail", "")
    if message.get("code") == ExitCode.INTERNAL:
        logger().error(f"internal error in a what-if: {what_if.detail}", traceback=message.get("traceback", ""))
        what_if.detail = "internal error; details are in the console's log; please report it"


async def _stopped(what_if: WhatIf) -> None:
    if what_if.work is None or what_if.work.done():
        return
    if what_if.state in RUNNING:
        what_if.work.cancel()
        what_if.state = "cancelled"
    await asyncio.wait({what_if.work})  # until its process has exited
