"""A user of the console whom a proxy signed in."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
from tests.kits.console import ConsoleProcess

HEADER, GROUPS = "x-forwarded-user", "x-forwarded-groups"
PATIENCE_S, POLL_S = 60.0, 0.05


class Principal:
    """A user authenticated by the proxy."""

    def __init__(self, http: httpx.AsyncClient, token: str) -> None:
        self.http, self.token = http, token

    async def ask(self, what: str, **body: Any) -> httpx.Response:
        """POST it."""
        return await self.http.post(f"/api/pools/pool-a/{what}", json=body, headers={"x-csrf-token": self.token})

    async def accepted(self, **body: Any) -> dict[str, Any]:
        """The response of an accepted request."""
        answer = await self.ask("requests", **body)
        assert answer.status_code == 200, answer.text
        reply: dict[str, Any] = answer.json()
        assert reply["accepted"] is True, reply
        return reply


@contextlib.asynccontextmanager
async def signed_in(console: ConsoleProcess, name: str, groups: str) -> AsyncIterator[Principal]:
    """Sign in as a proxy does; the test acts as the proxy."""
    header_set = {HEADER: name, GROUPS: groups, "host": "bailiff.example.org", "x-forwarded-for": "203.0.113.1"}
    async with httpx.AsyncClient(base_url=console.address, headers=header_set, timeout=PATIENCE_S) as http:
        answer = await http.get("/auth/sign-in")
        assert answer.status_code == 303, answer.text
        http.headers["cookie"] = answer.headers["set-cookie"].partition(";")[0]  # set for HTTPS only
        yield Principal(http, (await http.get("/api/me")).json()["csrf"])
