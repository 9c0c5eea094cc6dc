"""The query interface behind `/api/archive`: read only, streams too, with the console's token, which no browser sees."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx
import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from bailiff_core.model.pool import Pool

from .answers import Answer
from .live.pools import Pools
from .problems import Refused, missing, problem
from .told import LISTS, with_sentences

router = APIRouter()
LOOK_EVERY_S = 5.0
TIMEOUT = httpx.Timeout(15.0, connect=3.0)
STREAM_TIMEOUT = httpx.Timeout(15.0, connect=3.0, read=60.0)  # a stream that lives says so more often
CONNECTIONS = 100
ASKED_WITH = ("accept", "accept-encoding", "if-none-match", "last-event-id")
ANSWERED_WITH = (
    "content-type", "content-encoding", "etag", "cache-control", "retry-after", "vary", "content-length",
)  # fmt: skip
KEPT = ("etag", "cache-control")
NOT_CONFIGURED = "this console was started without the archive: BAILIFF_API names the query interface"


class ArchiveProxy:
    """address: none, and there is no archive to ask. answers: whether it did when it was last looked at."""

    def __init__(self, address: str | None, token: str | None) -> None:
        self.address = address.rstrip("/") if address else None
        self.answers = False
        self._behind: Mapping[str, int] = {}
        headers = {b"authorization": f"Bearer {token}".encode()} if token else {}
        limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=10)
        self._http = httpx.AsyncClient(headers=headers, timeout=TIMEOUT, limits=limits, trust_env=False)

    def state(self) -> dict[str, Any]:
        """Whether it is configured, whether it answers, and how many messages each pool's archive is behind its log."""
        return {"configured": self.address is not None, "answers": self.answers, "behind": dict(self._behind)}

    async def look(self) -> None:
        """Whether it answers, again and again, until cancelled."""
        while True:
            await self._look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def forward(self, request: Request, path: str, pool: Pool | None = None) -> Response:
        """Ask it the same. pool: whose names are in the sentences that a list of records gets. Raises `Refused`."""
        if self.address is None:
            raise missing(NOT_CONFIGURED)
        if any(part in (".", "..", "") for part in path.split("/")):
            raise missing("there is nothing at this address")
        stream = path == "events" or "text/event-stream" in request.headers.get("accept", "")
        asked = self._http.build_request(
            "GET",
            f"{self.address}/v1/{quote(path)}" + (f"?{request.url.query}" if request.url.query else ""),
            headers={name: request.headers[name] for name in ASKED_WITH if name in request.headers},
            timeout=STREAM_TIMEOUT if stream else TIMEOUT,
        )
        try:
            answer = await self._http.send(asked, stream=True)
        except httpx.HTTPError as error:
            self.answers = False
            raise Refused(503, f"the query interface does not answer: {_text(error)}", headers={"retry-after": "2"}) from None
        if answer.status_code == 401:
            await answer.aclose()
            return problem(502, "the query interface does not take this console's token (BAILIFF_API_TOKEN)")
        headers = {name: answer.headers[name] for name in ANSWERED_WITH if name in answer.headers}
        if pool is not None and answer.status_code == 200:
            return await _told(answer, pool, {name: headers[name] for name in KEPT if name in headers})
        return StreamingResponse(_body(answer), answer.status_code, headers)

    async def close(self) -> None:
        """Let go of its connections."""
        await self._http.aclose()

    async def _look(self) -> None:
        if self.address is None:
            return
        try:
            answer = await self._http.get(f"{self.address}/v1/domains")
            items = answer.json()["items"] if answer.status_code == 200 else None
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            items = None
        self.answers = items is not None
        if items is not None:
            self._behind = {str(each["domain"]): int(each["behind"] or 0) for each in items}


async def _told(answer: httpx.Response, pool: Pool, headers: Mapping[str, str]) -> Response:
    try:
        page = orjson.loads(await answer.aread())
    except httpx.HTTPError as error:
        raise Refused(503, f"the query interface broke off: {_text(error)}", headers={"retry-after": "2"}) from None
    finally:
        await answer.aclose()
    return Answer({**page, "items": await with_sentences(page["items"], pool)}, headers=headers)


async def _body(answer: httpx.Response) -> AsyncIterator[bytes]:
    """Byte for byte; what is cut off there is cut off here."""
    try:
        async for piece in answer.aiter_raw():
            yield piece
    except httpx.HTTPError as error:
        raise ConnectionError(f"the query interface broke off: {_text(error)}") from None
    finally:
        await answer.aclose()


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


@router.get("/api/archive/{path:path}")
async def archive(request: Request, path: str) -> Response:
    """What the query interface answers at `/v1/…`; lists of records with `word` and `text`: what each says."""
    proxy: ArchiveProxy = request.app.state.archive
    pools: Pools = request.app.state.pools
    listed = LISTS.fullmatch(path)
    followed = pools.known(listed["pool"]) if listed is not None else None
    return await proxy.forward(request, path, followed.pool if followed is not None else None)
