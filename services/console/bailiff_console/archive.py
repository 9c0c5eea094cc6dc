"""Read-only proxy of the HTTP API under `/api/archive`, streams included. Adds the console's token, which browsers never see."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import quote

import httpx
import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from bailiff_console.live.pools import Pools
from bailiff_core.model.state import PoolState
from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import ApiError, not_found, problem
from bailiff_service.settings import SettingsError

from .record_text import LISTS, with_sentences

router = APIRouter()
POLL_S, SILENT_S = 5.0, 30.0
TIMEOUT = httpx.Timeout(15.0, connect=3.0)
STREAM_TIMEOUT = httpx.Timeout(15.0, connect=3.0, read=60.0)  # heartbeats of a stream come more often
CONNECTIONS = 100
REQUEST_HEADERS = ("accept", "accept-encoding", "if-none-match", "last-event-id")
RESPONSE_HEADERS = ("content-type", "content-encoding", "etag", "cache-control", "retry-after", "vary", "content-length")
FORWARDED_WITH_SENTENCES = ("etag", "cache-control")
NOT_CONFIGURED = "the archive is not configured: set BAILIFF_API to the address of the HTTP API"


class ArchiveProxy:
    """address: of the HTTP API; None: no archive is configured. token: returns its token. answers: whether the last probe
    succeeded. silent: by pool, when the auditor reported last, if that is long ago.
    """

    def __init__(self, address: str | None, token: Callable[[], str | None]) -> None:
        self.address = address.rstrip("/") if address else None
        self.answers = False
        self.silent = dict[str, str]()
        self._token, self._behind, self._reported = token, dict[str, int](), dict[str, tuple[str, float]]()
        limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=10)
        self._http = httpx.AsyncClient(auth=self._authorize, timeout=TIMEOUT, limits=limits, trust_env=False)

    def state(self) -> dict[str, Any]:
        """Whether the archive is configured and answers, and its lag in messages by pool."""
        return {"configured": self.address is not None, "answers": self.answers, "behind": dict(self._behind)}

    async def poll(self) -> None:
        """Probe the HTTP API until cancelled."""
        while True:
            await self._probe()
            await asyncio.sleep(POLL_S)

    async def forward(self, request: Request, path: str, state: PoolState | None = None) -> Response:
        """Forward the request. state: renders the sentences added to a list of records. Raises `ApiError`."""
        if self.address is None:
            raise not_found(NOT_CONFIGURED)
        if any(part in (".", "..", "") for part in path.split("/")):
            raise not_found("not found: unknown path")
        stream = path == "events" or "text/event-stream" in request.headers.get("accept", "")
        forwarded = self._http.build_request(
            "GET",
            f"{self.address}/v1/{quote(path)}" + (f"?{request.url.query}" if request.url.query else ""),
            headers={name: request.headers[name] for name in REQUEST_HEADERS if name in request.headers},
            timeout=STREAM_TIMEOUT if stream else TIMEOUT,
        )
        try:
            response = await self._http.send(forwarded, stream=True)
        except httpx.HTTPError as error:
            self.answers = False
            raise ApiError(503, f"the HTTP API does not answer: {_text(error)}", headers={"retry-after": "2"}) from None
        if response.status_code == 401:
            await response.aclose()
            return problem(502, "the HTTP API rejects this console's token: check BAILIFF_API_TOKEN or BAILIFF_API_TOKEN_FILE")
        headers = {name: response.headers[name] for name in RESPONSE_HEADERS if name in response.headers}
        if state is not None and response.status_code == 200:
            return await _with_sentences(
                response, state, {name: headers[name] for name in FORWARDED_WITH_SENTENCES if name in headers}
            )
        return StreamingResponse(_body(response), response.status_code, headers)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def _authorize(self, request: httpx.Request) -> httpx.Request:
        try:
            token = self._token()
        except SettingsError:  # the file is not there yet: the HTTP API answers 401
            token = None
        if token is not None:
            request.headers["authorization"] = f"Bearer {token}"
        return request

    async def _probe(self) -> None:
        if self.address is None:
            return
        try:
            answer = await self._http.get(f"{self.address}/v1/pools")
            items = answer.json()["items"] if answer.status_code == 200 else None
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            items = None
        self.answers = items is not None
        if items is not None:
            self._behind = {str(each["pool"]): int(each["behind"] or 0) for each in items}
            self._listen({str(each["pool"]): each["measured_at"] for each in items if each.get("measured_at")})

    def _listen(self, reported: Mapping[str, str]) -> None:
        """By this machine's clock alone: the database may have another."""
        now = time.monotonic()
        for pool, at in reported.items():
            if self._reported.get(pool, ("", 0.0))[0] != at:
                self._reported[pool] = at, now
        self.silent = {pool: at for pool, (at, since) in self._reported.items() if now - since >= SILENT_S}


async def _with_sentences(response: httpx.Response, state: PoolState, headers: Mapping[str, str]) -> Response:
    try:
        page = orjson.loads(await response.aread())
    except httpx.HTTPError as error:
        raise ApiError(503, f"the HTTP API closed the connection early: {_text(error)}", headers={"retry-after": "2"}) from None
    finally:
        await response.aclose()
    return JsonResponse({**page, "items": await with_sentences(page["items"], state)}, headers=headers)


async def _body(response: httpx.Response) -> AsyncIterator[bytes]:
    """The body unchanged. A response that is truncated upstream is truncated here."""
    try:
        async for chunk in response.aiter_raw():
            yield chunk
    except httpx.HTTPError as error:
        raise ConnectionError(f"the HTTP API closed the connection early: {_text(error)}") from None
    finally:
        await response.aclose()


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


@router.get("/api/archive/{path:path}", response_class=Response, tags=["archive"])
async def archive(request: Request, path: str) -> Response:
    """The response of the HTTP API at `/v1/…`. Items of record lists also get `event` and `message`."""
    proxy: ArchiveProxy = request.app.state.archive
    pools: Pools = request.app.state.pools
    record_list = LISTS.fullmatch(path)
    followed = pools.known(record_list["pool"]) if record_list is not None else None
    return await proxy.forward(request, path, followed.state if followed is not None else None)
