"""Live output of a job's tasks: reads `bailiff.job-logs` per viewer and sends lines as server-sent events."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import TypedDict

from bailiff.render.plain_text import harmless_output
from bailiff.render.serializers.times import moment
from bailiff_bus import topics
from bailiff_bus.port import Bus, BusUnavailable, Message, OffsetOutOfRange, TopicMissing
from bailiff_console.actions.routes import WithRequestService
from bailiff_console.auth.routes import SignedIn
from bailiff_console.live.change import event
from bailiff_console.live.pools import Pools
from bailiff_console.live.stream import HEADERS, HEARTBEAT_S, RETRY_MS, SEND_TIMEOUT_S, EventStream, disconnected
from bailiff_core.views import Moment
from bailiff_service.problems import unavailable
from bailiff_service.race import race

router = APIRouter()
MAX_VIEWERS = 50  # concurrent log views: each reads the topic on its own
LOOKBACK = 50_000  # messages, of all jobs, scanned for earlier output
READ_S = 0.5
LINES = 400  # per event
MAX_LINE = 8_000  # characters
ANSI_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]|\x1b\[[0-9;]*\?[0-9;?]*m")
"""Those that are no colours, which would leave text behind."""


class Lines:
    """Messages of one job as lines. A restarted agent sends some output again; duplicates are dropped by offset."""

    def __init__(self, pool: str, job: str, task: int | None, attempt: int | None) -> None:
        self._pool, self._job = pool.encode(), job.encode()
        self._task = None if task is None else str(task).encode()
        self._attempt = None if attempt is None else str(attempt).encode()
        self._ends: dict[tuple[bytes, ...], int] = {}

    def of(self, message: Message) -> list[dict[str, Any]]:
        """New lines of this message; empty if it is of another job."""
        headers = dict(message.headers)
        source = tuple(headers.get(name, b"") for name in ("ce_attempt", "ce_task", "ce_node"))
        attempt, task, _ = source
        if (
            message.key != self._job
            or headers.get("ce_pool", self._pool) != self._pool
            or self._task not in (None, task)
            or self._attempt not in (None, attempt)
        ):
            return []
        known, offset = self._ends.get(source, 0), headers.get("ce_offset", b"")
        begin = int(offset) if offset.isdigit() else known
        new = message.value[max(0, known - begin) :]
        self._ends[source] = max(known, begin + len(message.value))
        fields = {"task": _number(task), "attempt": _number(attempt), "at": moment(message.time)}
        text = harmless_output(ANSI_ESCAPES.sub("", new.decode(errors="replace")), colours=True)
        return [{**fields, "text": line[:MAX_LINE]} for line in text.splitlines()]


def _number(text: bytes) -> int | None:
    return int(text) if text.isdigit() else None


class OutputLine(TypedDict):
    """A line that a task wrote."""

    task: int | None
    attempt: int | None
    at: Moment | None
    text: str


class OutputNote(TypedDict):
    """What is not shown."""

    text: str


class OutputEvents(TypedDict):
    """Data of the stream's events, by the event's name."""

    lines: list[OutputLine]
    note: OutputNote


@router.get("/api/pools/{pool}/logs/{job}", response_class=EventStream, responses={200: {"model": OutputEvents}}, tags=["live"])
async def logs(
    request: Request,
    principal: SignedIn,
    request_service: WithRequestService,
    pool: str,
    job: str,
    task: Annotated[int | None, Query(ge=0)] = None,
    attempt: Annotated[int | None, Query(ge=0)] = None,
    begin: Annotated[Literal["start", "now"], Query(alias="from")] = "start",
) -> Response:
    """Events `lines`: [{task, attempt, at, text} …]; `note`: {text}, where earlier output is not shown."""
    request_service.allow_logs(pool, principal, job)
    pools: Pools = request.app.state.pools
    followed = pools.get(pool)
    reading: set[object] = request.app.state.reading_logs
    if len(reading) >= MAX_VIEWERS:
        raise unavailable(f"{MAX_VIEWERS} log views are open already: close one and try again")
    return _Stream(followed.bus, Lines(pool, job, task, attempt), begin == "start", reading)


class _Stream(EventStream):
    """Sends to one client until it disconnects."""

    def __init__(self, bus: Bus, lines: Lines, back: bool, reading: set[object]) -> None:
        super().__init__()
        self._bus, self._lines, self._back, self._reading = bus, lines, back, reading

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Ends when the client disconnects or stalls, or Kafka is unavailable; the client reconnects on its own."""
        self._reading.add(self)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            with suppress(TimeoutError, BusUnavailable, OffsetOutOfRange):
                await race(disconnected(receive), self._send_all(send))
        finally:
            self._reading.discard(self)

    async def _send_all(self, send: Send) -> None:
        async for message in self._messages():
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await send({"type": "http.response.body", "body": message, "more_body": True})

    async def _messages(self) -> AsyncIterator[bytes]:
        yield b"retry: %d\n\n" % RETRY_MS
        try:
            spans = await self._bus.spans(topics.JOB_LOGS.name)
        except TopicMissing:
            spans = {}  # a release before this topic created the topics
        begins = {number: max(span.begin, span.end - LOOKBACK) if self._back else span.end for number, span in spans.items()}
        if self._back and any(begins[number] > span.begin for number, span in spans.items()):
            yield event("note", orjson.dumps({"text": f"Older than the last {LOOKBACK:,} messages of all jobs is not shown."}))
        reader = await self._bus.reader([(topics.JOB_LOGS.name, number, offset) for number, offset in begins.items()])
        loop = asyncio.get_running_loop()
        last_sent = loop.time()
        try:
            while True:
                found = [line for message in await reader.read(wait=READ_S) for line in self._lines.of(message)]
                for at in range(0, len(found), LINES):
                    yield event("lines", orjson.dumps(found[at : at + LINES]))
                    last_sent = loop.time()
                if loop.time() - last_sent > HEARTBEAT_S:
                    last_sent = loop.time()
                    yield b": heartbeat\n\n"
        finally:
            await reader.close()
