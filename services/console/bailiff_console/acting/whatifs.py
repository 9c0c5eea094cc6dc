"""What-ifs of people: each in a process of its own that reads the log whole, one at a time for each person."""

import asyncio
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from bailiff.problem import ExitCode
from bailiff_bus.logs import logger
from bailiff_bus.settings import KafkaSettings, secret_of
from bailiff_console.door.person import Person
from bailiff_console.problems import Refused

MODULE = "bailiff_console.acting.whatif_child"
MOST_AT_ONCE = 2
KEPT = 50
KEPT_S = 3600.0
LONGEST_LINE = 256 << 20
State = Literal["reading", "simulating", "done", "failed", "cancelled"]
RUNNING = ("reading", "simulating")


@dataclass
class WhatIf:
    """One of them. done, of: records read, or turns simulated, of how many."""

    id: str
    person: str
    pool: str
    state: State = "reading"
    done: int = 0
    of: int = 0
    result: dict[str, Any] | None = None
    report: str = ""
    detail: str = ""
    began: float = 0.0
    work: "asyncio.Task[None] | None" = field(default=None, repr=False)

    def to_data(self) -> dict[str, Any]:
        """For the page."""
        report = f"/api/what-ifs/{self.id}/report" if self.report else None
        return {
            "id": self.id, "pool": self.pool, "state": self.state, "done": self.done, "of": self.of, "result": self.result,
            "report": report, "detail": self.detail,
        }  # fmt: skip


class WhatIfs:
    """All of them. kafka: where the logs are."""

    def __init__(self, kafka: KafkaSettings, module: str = MODULE) -> None:
        self._kafka, self._module = kafka, module
        self._kept: dict[str, WhatIf] = {}

    def start(self, person: Person, pool: str, asked: Mapping[str, Any], records: int) -> WhatIf:
        """Begin one. records: so many there are to be read. Raises `Refused` where one is running already."""
        running = [each for each in self._kept.values() if each.state in RUNNING]
        if any(each.person == person.name for each in running):
            raise Refused(409, "one what-if at a time: wait for yours, or cancel it")
        if len(running) >= MOST_AT_ONCE:
            raise Refused(
                503, f"{len(running)} people are asking what if, which is as many as can", headers={"retry-after": "30"}
            )
        self._tidy()
        made = WhatIf(uuid.uuid4().hex, person.name, pool, of=records, began=time.monotonic())
        self._kept[made.id] = made
        made.work = asyncio.create_task(self._run(made, {**asked, "pool": pool}))
        return made

    def find(self, person: Person, id: str) -> WhatIf:  # noqa: A002 - what it is
        """One's own. Raises `Refused`: another person's is as good as none."""
        found = self._kept.get(id)
        if found is None or (found.person != person.name and not person.operator):
            raise Refused(404, "there is no such what-if; they are kept for an hour")
        return found

    async def cancel(self, person: Person, id: str) -> WhatIf:  # noqa: A002
        """Stop it, and wait until its process is gone. Raises `Refused`."""
        found = self.find(person, id)
        await _stopped(found)
        return found

    async def close(self) -> None:
        """All processes are gone."""
        for each in list(self._kept.values()):
            await _stopped(each)

    def _tidy(self) -> None:
        now = time.monotonic()
        over = [each for each in self._kept.values() if each.state not in RUNNING]
        old = [each for each in over if now - each.began > KEPT_S]
        for each in [*old, *over[: max(0, len(self._kept) - KEPT)]]:
            self._kept.pop(each.id, None)

    async def _run(self, what_if: WhatIf, asked: Mapping[str, Any]) -> None:
        process = None
        try:
            process = await _started(self._module)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(orjson.dumps({**asked, "kafka": _plain(self._kafka)}) + b"\n")  # and stays open: it ends with us
            await process.stdin.drain()
            async for line in process.stdout:
                _note(what_if, orjson.loads(line))
                if what_if.state not in RUNNING:
                    break
            if what_if.state in RUNNING:
                what_if.state, what_if.detail = "failed", "its process ended before it had an answer: perhaps it lacked memory"
        except (OSError, ValueError) as error:
            what_if.state, what_if.detail = "failed", "its process could not be followed"
            logger().error(f"what-if: {error}")
        finally:
            if process is not None:
                await _ended(process)


async def _started(module: str) -> asyncio.subprocess.Process:
    """Cancelled or not, no process is left that nobody knows."""
    pipe = asyncio.subprocess.PIPE
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            sys.executable, "-m", module, stdin=pipe, stdout=pipe, limit=LONGEST_LINE, start_new_session=True
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


def _note(what_if: WhatIf, said: Mapping[str, Any]) -> None:
    what_if.state = said["state"]
    what_if.done, what_if.of = said.get("done", what_if.done), said.get("of", what_if.of)
    what_if.result, what_if.report = said.get("result"), said.get("report", "")
    what_if.detail = said.get("detail", "")
    if said.get("code") == ExitCode.INTERNAL:
        logger().error(f"an error in a what-if: {what_if.detail}", traceback=said.get("traceback", ""))
        what_if.detail = "an error in this program; please report it: the log of the console has more"


async def _stopped(what_if: WhatIf) -> None:
    if what_if.work is None or what_if.work.done():
        return
    if what_if.state in RUNNING:
        what_if.work.cancel()
        what_if.state = "cancelled"
    await asyncio.wait({what_if.work})  # its process is gone then


def _plain(kafka: KafkaSettings) -> dict[str, Any]:
    """With the password, which goes to our own child through a pipe and nowhere else."""
    return {**kafka.model_dump(mode="json"), "password": secret_of(kafka.password)}
