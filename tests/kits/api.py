"""The query API under test: the real service in this process on a real PostgreSQL, and an HTTP client."""

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
from tests.kits.http import TOKEN, get, refused, serving

from bailiff_auditor.api.service import ApiService
from bailiff_auditor.api.settings import ApiSettings
from bailiff_service.metrics import Metrics


class Api:
    """One API process with helpers for requests."""

    def __init__(self, dsn: str, **settings: Any) -> None:
        values = {"postgres": dsn, "api_port": 0, "api_token": TOKEN, "instance": "api", **settings}
        self.metrics = Metrics()
        self.service = ApiService(ApiSettings(**values), self.metrics)
        self.http: httpx.AsyncClient

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Api"]:
        """Run the service inside the context."""
        async with serving(self.service, lambda: self.service.readiness()["archive"] is None) as self.http:
            self.http.headers["authorization"] = f"Bearer {TOKEN}"
            yield self

    async def get(self, path: str, **parameters: Any) -> Any:
        """The JSON body of a successful response."""
        return await get(self.http, f"/v1{path}", **parameters)

    async def refused(self, status: int, path: str, **parameters: Any) -> Any:
        """The problem."""
        return await refused(self.http, status, f"/v1{path}", **parameters)

    async def all(self, path: str, **parameters: Any) -> list[dict[str, Any]]:
        """Every item of a list, page by page."""
        found: list[dict[str, Any]] = []
        while True:
            page = await self.get(path, **parameters)
            found += page["items"]
            if page["next"] is None:
                return found
            parameters["cursor"] = page["next"]

    @contextlib.asynccontextmanager
    async def stream(self, path: str, last: str | None = None, **parameters: Any) -> AsyncIterator[AsyncIterator["Event"]]:
        """The events of a stream, in order."""
        headers = {"last-event-id": last} if last is not None else {}
        async with self.http.stream("GET", f"/v1{path}", params=parameters, headers=headers) as answer:
            assert answer.status_code == 200, await answer.aread()
            yield events(answer.aiter_lines())


@dataclass(frozen=True)
class Event:
    """One event of a stream. type: empty for a position without a record."""

    id: str
    type: str
    data: Any

    @property
    def place(self) -> tuple[str, int]:
        """Pool and seq of the record."""
        return self.data["pool"], self.data["seq"]


async def events(lines: AsyncIterator[str]) -> AsyncIterator[Event]:
    """Parse the lines as a browser does; events without data are included."""
    fields: dict[str, str] = {}
    async for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        elif fields:
            yield Event(fields.get("id", ""), fields.get("event", ""), json.loads(fields.get("data", "null")))
            fields = {}
