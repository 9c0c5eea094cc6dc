"""Shells beside tasks, and terminals of tasks, for a signed-in browser: output as the answer of one request, input by others.

Each is granted by admission and on record, without what is typed. It ends with the page's request, with the person's session
or right to attach, and with the task. What the task writes reaches the page as bytes, which its terminal emulator reads.
"""

import asyncio
import base64
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Depends, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import TypedDict

from bailiff.attach.frames import COUNT, INPUT, OUTPUT, SKIPPED, frame, next_frame, resize
from bailiff.render.record_text.tasks import ATTACH_ENDS
from bailiff_core.records.facts import AttachEnded
from bailiff_core.records.job_requests import AttachJob
from bailiff_service.problems import ApiError, ErrorDetail, invalid, unavailable
from bailiff_service.race import race
from bailiff_service.tunnel_tls import TunnelIdentity, connect_tunnel

from .actions.request_parser import fields_of
from .actions.request_service import RequestService
from .actions.routes import Body, WithRequestService
from .attach_grants import NotThere, granted
from .auth.principal import Principal
from .auth.routes import signed_in
from .auth.sessions import Session
from .live.change import event
from .live.stream import HEADERS, SEND_TIMEOUT_S, EventStream, disconnected

router = APIRouter(tags=["actions"])
MOST, MOST_OF_ONE = 100, 4
MAX_TYPED, MAX_SIDE = 16_384, 1000  # bytes at once; rows or columns
MOST_BYTES_A_SECOND = 4 << 20  # a browser draws no more, and other pages are served by the same process
CHECK_EVERY_S = 5.0
REASON_WITHIN_S = 3.0
LOST = "The connection to the node agent was lost. The task may still run: open another once the agent is back."
TYPED_WITHIN_S = 30.0


@dataclass(eq=False)
class Shell:
    """One connection. seq: of the job's submission, so that a later job of the same name is another; grant: of the connection."""

    pool: str
    job: str
    seq: int
    attempt: int
    task: int
    session: Session
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    grant: int
    id: str = field(default_factory=lambda: secrets.token_urlsafe(24))


class Shells:
    """Those that are open."""

    def __init__(self) -> None:
        self._open: dict[str, Shell] = {}
        self._opening: dict[str, int] = {}

    def begin(self, name: str) -> None:
        """Take a place for this person. Raises `ApiError`."""
        own = self._opening.get(name, 0) + sum(each.session.principal.name == name for each in self._open.values())
        if own >= MOST_OF_ONE or len(self._open) + sum(self._opening.values()) >= MOST:
            raise unavailable(f"{own} shells of yours are open, at most {MOST_OF_ONE} (of all: {MOST}): close one")
        self._opening[name] = self._opening.get(name, 0) + 1

    def opened(self, name: str, shell: Shell | None) -> None:
        """The place is this shell's now, or nobody's."""
        self._opening[name] -= 1
        if not self._opening[name]:
            del self._opening[name]
        if shell is not None:
            self._open[shell.id] = shell

    def close(self, shell: Shell) -> None:
        """Its connection ends."""
        self._open.pop(shell.id, None)
        shell.writer.transport.abort()

    def find(self, id: str, session: Session) -> Shell:  # noqa: A002 - in the address
        """The shell that this session has opened. Raises `ApiError`."""
        found = self._open.get(id)
        if found is None or found.session.id != session.id:
            raise ApiError(404, "the shell has ended")
        return found


class ShellEvents(TypedDict):
    """Data of the answer's events, by the event's name: first its id, then output in Base64; at last why it ended."""

    opened: str
    output: str
    skipped: int
    ended: str


@router.post("/api/pools/{pool}/jobs/{job}/shell", response_class=EventStream, responses={200: {"model": ShellEvents}})
async def open_shell(
    request: Request,
    session: Annotated[Session, Depends(signed_in)],
    request_service: WithRequestService,
    pool: str,
    job: str,
    body: Body,
) -> Response:
    """Open a shell beside the task, or its terminal (`terminal`: true), and follow it. The job's owner and operators may."""
    fields = fields_of(body, {"task": True, "terminal": False, "rows": False, "columns": False})
    task, terminal = _whole(fields, "task", 1 << 20), fields.get("terminal") is True
    size = _size(fields)
    state = request_service.allow_job(pool, session.principal, "attach", job)
    if (found := state.jobs.get(job)) is None:
        raise ApiError(404, f"no job {job!r} in {pool}")
    submitted, attempt = found.seq, found.attempt
    shells: Shells = request.app.state.shells
    name, shell = session.principal.name, None
    shells.begin(name)
    try:
        connected = await _connect(request_service, pool, session.principal, job, task, terminal=terminal)
        shell = Shell(pool, job, submitted, attempt, task, session, *connected)
    except NotThere as problem:
        raise ApiError(409, str(problem)) from None
    finally:
        shells.opened(name, shell)
    shell.writer.write(resize(*size))
    return _Stream(shells, shell, request_service)


@router.post("/api/shells/{id}", status_code=204)
async def type_into_shell(
    request: Request,
    session: Annotated[Session, Depends(signed_in)],
    id: str,  # noqa: A002 - in the address
    body: Body,
) -> Response:
    """Type `data` (text), or change the size to `rows` and `columns`."""
    fields = fields_of(body, {"data": False, "rows": False, "columns": False})
    shells: Shells = request.app.state.shells
    shell = shells.find(id, session)
    typed = fields.get("data", "")
    if not isinstance(typed, str) or len(data := typed.encode(errors="replace")) > MAX_TYPED:
        raise invalid(ErrorDetail(location="data", detail=f"expected text of at most {MAX_TYPED} bytes"))
    if "rows" in fields:
        shell.writer.write(resize(*_size(fields)))
    if data:
        shell.writer.write(frame(INPUT, data))
    try:
        async with asyncio.timeout(TYPED_WITHIN_S):
            await shell.writer.drain()
    except (OSError, TimeoutError):
        raise ApiError(409, "the shell takes no input") from None
    return Response(status_code=204)


async def _connect(
    service: RequestService, pool: str, principal: Principal, job: str, task: int, *, terminal: bool
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, int]:
    identity = TunnelIdentity.new()
    body = AttachJob(job=job, task=task, client_certificate=identity.certificate, shell=not terminal)
    ready = await granted(service, pool, principal, body)
    try:
        return *await connect_tunnel(ready.address, identity, ready.fingerprint), ready.grant
    except (OSError, TimeoutError):
        raise NotThere(f"The node agent of {job} cannot be reached from the console.") from None


def _whole(fields: dict[str, Any], name: str, most: int, least: int = 0) -> int:
    found = fields[name]
    if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
        raise invalid(ErrorDetail(location=name, detail=f"expected a whole number from {least} to {most}"))
    return found


def _size(fields: dict[str, Any]) -> tuple[int, int]:
    given = {"rows": 24, "columns": 80, **fields}
    return _whole(given, "rows", MAX_SIDE, 1), _whole(given, "columns", MAX_SIDE, 1)


class _Stream(EventStream):
    """Sends to one page until it leaves."""

    def __init__(self, shells: Shells, shell: Shell, service: RequestService) -> None:
        super().__init__()
        self._shells, self._shell, self._service = shells, shell, service

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Ends when the page leaves or stalls, or with the shell."""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            with suppress(TimeoutError):
                await race(disconnected(receive), self._send_all(send))
        finally:
            self._shells.close(self._shell)

    async def _send_all(self, send: Send) -> None:
        async for message in self._messages():
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await send({"type": "http.response.body", "body": message, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _messages(self) -> AsyncIterator[bytes]:
        yield _event("opened", self._shell.id)
        checked = time.monotonic()
        reading = asyncio.create_task(next_frame(self._shell.reader))
        try:
            while True:
                await asyncio.wait({reading}, timeout=CHECK_EVERY_S)
                if time.monotonic() - checked >= CHECK_EVERY_S:
                    checked = time.monotonic()
                    if (over := self._over()) is not None:
                        yield _event("ended", over)
                        return
                    yield b": heartbeat\n\n"
                if not reading.done():
                    continue
                found = reading.result()
                if found is None:
                    yield _event("ended", await self._reason())
                    return
                reading = asyncio.create_task(next_frame(self._shell.reader))
                match found:
                    case (kind, content) if kind == OUTPUT:
                        yield _event("output", base64.b64encode(content).decode())
                        await asyncio.sleep(len(content) / MOST_BYTES_A_SECOND)
                    case (kind, content) if kind == SKIPPED and len(content) == COUNT.size:
                        yield _event("skipped", COUNT.unpack(content)[0])
        except ValueError:
            yield _event("ended", "The node agent does not follow the protocol.")
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def _over(self) -> str | None:
        """Why the person may not go on."""
        shell = self._shell
        try:
            state = self._service.allow_job(shell.pool, shell.session.principal, "attach", shell.job)
        except ApiError as problem:
            return problem.detail
        job = state.jobs.get(shell.job)
        if job is None or job.seq != shell.seq or job.ended_at is not None:
            return f"{shell.job} has ended."
        same = job.attempt == shell.attempt and job.task(shell.task) is not None
        return None if same else f"Task {shell.task} of {shell.job} does not run any more."

    async def _reason(self) -> str:
        """Why the agent has closed the connection, which it records a moment later."""
        ended = await self._service.grant_answers.next(self._shell.pool, self._shell.grant, REASON_WITHIN_S)
        if not isinstance(ended, AttachEnded):
            return self._over() or LOST
        if ended.reason == "detached":  # its program has ended, as it does with the task
            return self._over() or "The shell has ended."
        return f"The connection has ended: {ATTACH_ENDS[ended.reason]}."


def _event(name: Literal["opened", "output", "skipped", "ended"], data: str | int) -> bytes:
    return event(name, orjson.dumps(data))
