"""What a job's tasks print, live: `bailiff.job-logs` for one page at a time, as server-sent events of lines."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bailiff.present.times import moment
from bailiff_bus import topics
from bailiff_bus.port import Bus, BusUnavailable, Message, OffsetGone
from bailiff_bus.until_first import until_first

from .live.change import event
from .live.pools import Pools
from .live.stream import HEADERS, HEARTBEAT_S, RETRY_MS, STUCK_S, gone
from .problems import busy

router = APIRouter()
MOST = 50  # pages with a log at a time: each reads the topic by itself
BACK = 50_000  # messages, of all jobs, that are looked through for what was printed before
READ_S = 0.5
LINES = 400  # in one event
LONGEST = 8_000  # characters of a line
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Lines:
    """Messages of one job as lines. An agent that was restarted sends some of it again, by its offsets: that is left out."""

    def __init__(self, job: str, task: int | None, attempt: int | None) -> None:
        self._job = job.encode()
        self._task = None if task is None else str(task).encode()
        self._attempt = None if attempt is None else str(attempt).encode()
        self._places: dict[tuple[bytes, ...], int] = {}

    def of(self, message: Message) -> list[dict[str, Any]]:
        """Those that are new in it; none where it is another job's."""
        at = dict(message.headers)
        place = tuple(at.get(name, b"") for name in ("ce_attempt", "ce_task", "ce_node"))
        attempt, task, _ = place
        if message.key != self._job or self._task not in (None, task) or self._attempt not in (None, attempt):
            return []
        known, offset = self._places.get(place, 0), at.get("ce_offset", b"")
        begin = int(offset) if offset.isdigit() else known
        new = message.value[max(0, known - begin) :]
        self._places[place] = max(known, begin + len(message.value))
        told = {"task": _number(task), "attempt": _number(attempt), "at": moment(message.time)}
        text = COLOURS.sub("", new.decode(errors="replace"))
        return [{**told, "text": line[:LONGEST]} for line in text.splitlines()]


def _number(text: bytes) -> int | None:
    return int(text) if text.isdigit() else None


@router.get("/api/pools/{pool}/logs/{job}")
async def logs(
    request: Request,
    pool: str,
    job: str,
    task: Annotated[int | None, Query(ge=0)] = None,
    attempt: Annotated[int | None, Query(ge=0)] = None,
    begin: Annotated[Literal["start", "now"], Query(alias="from")] = "start",
) -> Response:
    """`lines`: [{task, attempt, at, text} …]; `note`: {text}, where not all that was printed is there."""
    pools: Pools = request.app.state.pools
    followed = pools.get(pool)
    reading: set[object] = request.app.state.reading_logs
    if len(reading) >= MOST:
        raise busy(f"{MOST} pages look at a log already")
    return _Stream(followed.bus, Lines(job, task, attempt), begin == "start", reading)


class _Stream(Response):
    """Sends to one page for as long as it is there."""

    def __init__(self, bus: Bus, lines: Lines, back: bool, reading: set[object]) -> None:
        super().__init__()
        self._bus, self._lines, self._back, self._reading = bus, lines, back, reading

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Until the page goes away, takes nothing any more, or Kafka does: the page comes back by itself."""
        self._reading.add(self)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            with suppress(TimeoutError, BusUnavailable, OffsetGone):
                await until_first(gone(receive), self._send_all(send))
        finally:
            self._reading.discard(self)

    async def _send_all(self, send: Send) -> None:
        async for message in self._messages():
            async with asyncio.timeout(STUCK_S):
                await send({"type": "http.response.body", "body": message, "more_body": True})

    async def _messages(self) -> AsyncIterator[bytes]:
        yield b"retry: %d\n\n" % RETRY_MS
        try:
            spans = await self._bus.spans(topics.JOB_LOGS.name)
        except KeyError:
            spans = {}  # made by a release without it
        begins = {number: max(span.begin, span.end - BACK) if self._back else span.end for number, span in spans.items()}
        if self._back and any(begins[number] > span.begin for number, span in spans.items()):
            yield event("note", orjson.dumps({"text": f"Older than the last {BACK:,} messages of all jobs is not shown here."}))
        reader = await self._bus.reader([(topics.JOB_LOGS.name, number, offset) for number, offset in begins.items()])
        loop = asyncio.get_running_loop()
        said = loop.time()
        try:
            while True:
                found = [line for message in await reader.read(wait=READ_S) for line in self._lines.of(message)]
                for at in range(0, len(found), LINES):
                    yield event("lines", orjson.dumps(found[at : at + LINES]))
                    said = loop.time()
                if loop.time() - said > HEARTBEAT_S:
                    said = loop.time()
                    yield b": still here\n\n"
        finally:
            await reader.close()
